"""Attacks over sockets of every kind, and on what the kernel tells about the network."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import socket
from typing import Any

from .registry import attack, call


@attack
def connect_to_the_hosts_loopback(host: dict[str, Any]) -> Any:
    return socket.create_connection(("127.0.0.1", host["tcp"]), 2)


@attack
def connect_to_the_hosts_loopback_by_ipv6(host: dict[str, Any]) -> Any:
    return socket.create_connection(("::1", host["tcp"]), 2)


@attack
def connect_while_sending(host: dict[str, Any]) -> Any:
    with socket.socket() as sender:
        return sender.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", host["tcp"]))


@attack
def send_a_datagram_to_the_host(host: dict[str, Any]) -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(host["token"].encode(), ("127.0.0.1", host["udp"]))


@attack
def connect_to_a_unix_socket(host: dict[str, Any]) -> Any:
    client = socket.socket(socket.AF_UNIX)
    client.connect(host["unix"])
    return "connected"


@attack
def connect_to_an_abstract_socket(host: dict[str, Any]) -> Any:
    client = socket.socket(socket.AF_UNIX)
    client.connect("\0" + host["abstract"])
    return "connected"


@attack
def send_to_an_abstract_socket_from_a_pair(host: dict[str, Any]) -> Any:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", "\0" + host["abstract_datagrams"])


@attack
def send_to_a_unix_socket_from_a_pair(host: dict[str, Any]) -> Any:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", host["unix_datagrams"])


@attack
def connect_a_pair_to_a_unix_socket(host: dict[str, Any]) -> Any:
    for kind, address in ((socket.SOCK_DGRAM, host["unix_datagrams"]), (socket.SOCK_STREAM, host["unix"])):
        one, _ = socket.socketpair(socket.AF_UNIX, kind)
        try:
            one.connect(address)
            return one.send(b"x")
        except OSError:
            continue
    return None


@attack
def list_the_hosts_connections(host: dict[str, Any]) -> Any:
    return [line for line in open("/proc/net/tcp") if f":{host['tcp']:04X} " in line]


@attack
def list_the_hosts_unix_sockets(host: dict[str, Any]) -> Any:
    return [line for line in open("/proc/net/unix") if host["abstract"] in line or host["unix"] in line]


@attack
def list_the_hosts_devices(host: dict[str, Any]) -> Any:
    return os.listdir("/sys/class/net")


@attack
def use_vsock(host: dict[str, Any]) -> Any:
    return socket.socket(40, socket.SOCK_STREAM)


@attack
def use_netlink(host: dict[str, Any]) -> Any:
    return socket.socket(16, socket.SOCK_RAW, 0)


@attack
def use_packets(host: dict[str, Any]) -> Any:
    return socket.socket(17, socket.SOCK_RAW, 0)


@attack
def use_raw_sockets(host: dict[str, Any]) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


@attack
def use_crypto_sockets(host: dict[str, Any]) -> Any:
    return socket.socket(38, socket.SOCK_SEQPACKET, 0)


@attack
def make_other_pairs(host: dict[str, Any]) -> Any:
    pair = (ctypes.c_int * 2)()
    return call(53, 199, 30, 1, 0, pair) or "made"  # AF_TIPC
