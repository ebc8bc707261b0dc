"""Attacks that gain rights: namespaces, mounts, other users, capabilities."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import signal
import struct
from typing import Any

from .registry import LIBC, attack, call


@attack
def make_a_user_namespace(host: dict[str, Any]) -> Any:
    return call(272, 97, 0x10000000) or "made"


@attack
def make_a_mount_namespace(host: dict[str, Any]) -> Any:
    return call(272, 97, 0x00020000) or "made"


@attack
def clone_into_a_user_namespace(host: dict[str, Any]) -> Any:
    pid = call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid


@attack
def clone3_into_a_user_namespace(host: dict[str, Any]) -> Any:
    arguments = struct.pack("Q" * 11, 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call(435, 435, ctypes.c_char_p(arguments), len(arguments))
    if pid == 0:
        os._exit(0)
    return pid


@attack
def join_the_hosts_namespaces(host: dict[str, Any]) -> Any:
    for kind in ("mnt", "net", "user"):
        try:
            return call(308, 268, os.open(f"/proc/{host['victim']}/ns/{kind}", os.O_RDONLY), 0) or kind
        except OSError:
            continue
    return None


@attack
def mount_a_filesystem(host: dict[str, Any]) -> Any:
    return (
        call(165, 40, ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/tmp"), ctypes.c_char_p(b"tmpfs"), 0, 0) or "mounted"
    )


@attack
def mount_the_root_to_write(host: dict[str, Any]) -> Any:
    return call(165, 40, 0, ctypes.c_char_p(b"/"), 0, 32, 0) or "mounted"


@attack
def mount_the_new_way(host: dict[str, Any]) -> Any:
    return call(430, 430, ctypes.c_char_p(b"tmpfs"), 0)


@attack
def copy_a_mount(host: dict[str, Any]) -> Any:
    return call(428, 428, -100, ctypes.c_char_p(b"/"), 1)


@attack
def unmount(host: dict[str, Any]) -> Any:
    return call(166, 39, ctypes.c_char_p(b"/proc"), 2) or "unmounted"


@attack
def change_the_root(host: dict[str, Any]) -> Any:
    os.chroot(".")
    return "changed"


@attack
def pivot_the_root(host: dict[str, Any]) -> Any:
    return call(155, 41, ctypes.c_char_p(b"."), ctypes.c_char_p(b".")) or "changed"


@attack
def become_root(host: dict[str, Any]) -> Any:
    os.setuid(0)
    return "root"


@attack
def become_another_user(host: dict[str, Any]) -> Any:
    os.setresuid(1, 1, 1)
    return "daemon"


@attack
def have_capabilities(host: dict[str, Any]) -> Any:
    header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    call(125, 90, ctypes.c_char_p(header), ctypes.byref(data))
    return any(data.raw) or None


@attack
def gain_rights_by_a_program(host: dict[str, Any]) -> Any:
    no_new_privileges = 39
    return None if LIBC.prctl(no_new_privileges, 0, 0, 0, 0) == 1 else "may gain"
