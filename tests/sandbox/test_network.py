"""The network a policy names is the network code gets: none, its own loopback, some hosts through a proxy, or the host's."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.sandbox.conftest import OpenSandbox, require
from tests.timeouts import TIMEOUT, soon

from ronda.errors import BadConfig
from ronda.sandbox.box import CommandResult, Sandbox
from ronda.sandbox.layers import Layers
from ronda.sandbox.policy import AllowedHosts
from ronda.sandbox.proxy import Proxy, is_allowed, is_public

LOCAL_EXCHANGE = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hello")).start()
print(socket.create_connection(server.getsockname()).recv(5).decode())
"""

FETCH = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=30).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print("refused:", error)
"""


async def python(sandbox: Sandbox, code: str, *arguments: str) -> CommandResult:
    command = [sandbox.interpreter.executable, "-I", "-c", textwrap.dedent(code), *arguments]
    return await sandbox.run(command, timeout=TIMEOUT)


@asynccontextmanager
async def web_server() -> AsyncIterator[tuple[int, list[str]]]:
    """A server of this machine, and the first lines and hosts of what it was asked."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        asked.append(f"{head[0]} {next(line for line in head if line.lower().startswith('host:'))}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()
        await server.wait_closed()


async def test_without_a_network_there_is_no_socket_but_a_pair(layer: str, opened: OpenSandbox) -> None:
    code = """
    import asyncio, socket
    one, other = socket.socketpair(); one.send(b"pair"); print(other.recv(4).decode())
    asyncio.run(asyncio.sleep(0))
    try:
        socket.socket()
    except PermissionError:
        print("refused")
    """

    assert (await python(await opened(layer), code)).stdout.text() == "pair\nrefused\n"


async def test_loopback_is_the_sandboxs_own(layers: Layers, opened: OpenSandbox) -> None:
    require("bubblewrap", layers)
    sandbox = await opened("bubblewrap", network="loopback")

    assert (await python(sandbox, LOCAL_EXCHANGE)).stdout.text() == "hello\n"
    async with web_server() as (port, asked):
        done = await python(sandbox, FETCH, f"http://127.0.0.1:{port}/")
    assert done.stdout.text().startswith("refused:")
    assert asked == []


@pytest.mark.parametrize("network", ["loopback", "allow:example.com"])
async def test_landlock_refuses_a_network_it_cannot_enforce(network: str, layers: Layers, opened: OpenSandbox) -> None:
    require("landlock", layers)

    with pytest.raises(
        BadConfig, match="Landlock by itself cannot give it a network of its own: the network can be none or full"
    ):
        await opened("landlock", network=network)


async def test_full_is_the_hosts_network_but_not_its_unix_sockets(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer, network="full")
    code = """
    import socket
    try:
        socket.socket(socket.AF_UNIX)
    except PermissionError:
        print("refused")
    """

    async with web_server() as (port, asked):
        done = await python(sandbox, FETCH, f"http://127.0.0.1:{port}/path")

    assert done.stdout.text() == "hello\n"
    assert asked == [f"GET /path HTTP/1.1 Host: 127.0.0.1:{port}"]
    assert (await python(sandbox, code)).stdout.text() == "refused\n"


async def test_allowed_hosts_are_reached_and_no_others(layers: Layers, opened: OpenSandbox) -> None:
    require("bubblewrap", layers)
    addresses = {"ok.example": "93.184.216.34", "inside.example": "10.0.0.7", "other.example": "93.184.216.35"}
    dialled: list[tuple[str, int]] = []

    async with web_server() as (port, asked):

        async def resolve(host: str, _: int) -> list[str]:
            return [addresses[host]]

        async def dial(address: str, to: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            dialled.append((address, to))
            return await asyncio.open_connection("127.0.0.1", port)

        def new_proxy(allowed: AllowedHosts) -> Proxy:
            return Proxy(allowed, resolve=resolve, dial=dial)

        sandbox = await opened("bubblewrap", network="allow:ok.example,inside.example", new_proxy=new_proxy)
        urls = ["http://ok.example/a?b=1", "http://other.example/", "http://inside.example/", "http://ok.example:8080/"]
        done = await python(sandbox, FETCH, *urls)

    assert done.stdout.text().splitlines() == [
        "hello",
        "403 the sandbox may not reach other.example:80; its network allows ok.example, inside.example",
        "403 the sandbox may not reach inside.example: its address is a private one",
        "403 the sandbox may not reach ok.example:8080; its network allows ok.example, inside.example",
    ]
    assert (dialled, asked) == ([("93.184.216.34", 80)], ["GET /a?b=1 HTTP/1.1 Host: ok.example"])


async def test_a_tunnel_goes_only_to_an_allowed_host(layers: Layers, opened: OpenSandbox) -> None:
    require("bubblewrap", layers)
    code = """
    import socket
    for host in ("ok.example:443", "ok.example:22", "other.example:443", "127.0.0.1:443", "[::1]:443", "ok.example"):
        proxy = socket.create_connection(("127.0.0.1", 3128))
        proxy.sendall(f"CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        status = proxy.recv(1000).decode().split("\\r\\n")[0]
        if " 200 " in status:
            proxy.sendall(b"GET / HTTP/1.1\\r\\nHost: ok\\r\\n\\r\\n")
            status += " " + proxy.recv(1000).decode().split("\\r\\n")[0]
        print(status)
    """

    async with web_server() as (port, _):

        async def resolve(host: str, _: int) -> list[str]:
            return ["93.184.216.34"]

        async def dial(address: str, to: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection("127.0.0.1", port)

        def new_proxy(allowed: AllowedHosts) -> Proxy:
            return Proxy(allowed, resolve=resolve, dial=dial)

        sandbox = await opened("bubblewrap", network="allow:ok.example", new_proxy=new_proxy)
        async with soon():
            done = await python(sandbox, code)

    tunnelled, refused = "HTTP/1.1 200 Connection established HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden"
    assert done.stdout.text().splitlines() == [tunnelled, refused, refused, refused, refused, tunnelled], (
        done.stderr.text()
    )


async def test_beside_the_proxy_there_is_no_way_out(layers: Layers, opened: OpenSandbox) -> None:
    require("bubblewrap", layers)
    code = """
    import os, socket, sys
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    for kind, address in ((stream, "127.0.0.1"), (stream, "93.184.216.34"), (datagram, "8.8.8.8")):
        try:
            one = socket.socket(socket.AF_INET, kind)
            one.settimeout(5)
            one.connect((address, int(sys.argv[1])))
            print("connected")
        except OSError:
            print("refused")
    """
    async with web_server() as (port, asked):
        done = await python(await opened("bubblewrap", network="allow:example.com"), code, str(port))

    assert (done.stdout.text(), asked) == ("refused\n" * 3, [])


@pytest.mark.parametrize(
    ("host", "port", "answer"),
    [
        ("example.com", 443, True),
        ("EXAMPLE.com.", 80, True),
        ("example.com", 8443, False),
        ("www.example.com", 443, False),
        ("a.b.wild.org", 443, True),
        ("wild.org", 443, False),
        ("notwild.org", 443, False),
        ("evilexample.com", 443, False),
        ("port.net", 8443, True),
        ("port.net", 443, False),
    ],
)
def test_a_host_is_allowed_by_its_whole_name_and_port(host: str, port: int, answer: bool) -> None:
    allowed = AllowedHosts(("example.com", "*.wild.org", "port.net:8443"))

    assert is_allowed(allowed, host, port) is answer


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("not an address", False),
    ],
)
def test_private_addresses_are_known_in_every_spelling(address: str, answer: bool) -> None:
    assert is_public(address) is answer
