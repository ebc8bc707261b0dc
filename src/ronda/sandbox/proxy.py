"""The only way out of a sandbox whose network is `allow:HOST,…`: HTTP's CONNECT and plain requests, to these hosts and no others.

It runs in the server and accepts connections on a port of the sandbox's own loopback, which came to it over a unix socket. Names
are looked up here; an address that is not public is refused, and the address that was checked is the one that is connected to.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from ronda.sandbox.policy import WEB_PORTS, AllowedHosts, split_port

PORT = 3128  # of the sandbox's loopback, by custom a proxy's
_HEAD_SECONDS = 30.0
_IDLE_SECONDS = 300.0
_MOST_CONNECTIONS = 64
_PIECE = 64 * 1024

Resolve = Callable[[str, int], Awaitable[list[str]]]
Dial = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class _RefusedConnection(Exception):
    pass


async def _look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


async def _connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.wait_for(asyncio.open_connection(address, port, limit=_PIECE), _HEAD_SECONDS)


def is_allowed(allowed: AllowedHosts, host: str, port: int) -> bool:
    """`*.example.com` is every name below example.com, and not example.com itself."""
    name = host.lower().rstrip(".")
    for entry in allowed.hosts:
        pattern, only = split_port(entry)
        if port not in ((only,) if only is not None else WEB_PORTS):
            continue
        if name == pattern or (
            pattern.startswith("*.") and name.endswith(pattern[1:]) and len(name) > len(pattern) - 1
        ):
            return True
    return False


def is_public(address: str) -> bool:
    """Whether it is somewhere on the Internet: not this machine, its network, nor one of them written in another way."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        within = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if within is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            within = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if within is not None:
            return is_public(str(within))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


class Proxy:
    """Serves one sandbox until `close`."""

    def __init__(self, allowed: AllowedHosts, *, resolve: Resolve = _look_up, dial: Dial = _connect) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=_PIECE)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            await self._handle(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one of the two ends is gone, or never said what it wants
        except asyncio.CancelledError:
            pass  # the sandbox is over; nothing waits for this task but `close`
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
        try:
            host, port, forward = _read_head(head)
            address = await self._address(host, port)
        except _RefusedConnection as refusal:
            body = f"{refusal}\n".encode()
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n")
            writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return
        upstream_reader, upstream_writer = await self._dial(address, port)
        try:
            if forward is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream_writer.write(forward)
            await asyncio.gather(_copy(reader, upstream_writer), _copy(upstream_reader, writer))
        finally:
            upstream_writer.transport.abort()

    async def _address(self, host: str, port: int) -> str:
        if not is_allowed(self._allowed, host, port):
            allowed = ", ".join(self._allowed.hosts)
            raise _RefusedConnection(f"the sandbox may not reach {host}:{port}; its network allows {allowed}")
        try:
            found = await asyncio.wait_for(self._resolve(host, port), _HEAD_SECONDS)
        except (OSError, UnicodeError) as error:
            raise _RefusedConnection(f"there is no address for {host}: {error}") from error
        public = [address for address in found if is_public(address)]
        if not public:
            raise _RefusedConnection(f"the sandbox may not reach {host}: its address is a private one")
        return public[0]


def _read_head(head: bytes) -> tuple[str, int, bytes | None]:
    """(host, port, what to send on): nothing is sent on for CONNECT."""
    try:
        first, *headers = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = first.split(" ")
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = url.port
    except ValueError:
        raise _RefusedConnection("this is no request for a proxy") from None
    if not url.hostname or not version.startswith("HTTP/1."):
        raise _RefusedConnection("this is no request for a proxy")
    if method == "CONNECT":
        return url.hostname, 443 if port is None else port, None
    if url.scheme != "http":
        raise _RefusedConnection("the proxy takes CONNECT, and http:// addresses")
    path = url.path or "/"
    lines = [
        f"{method} {path}{'?' + url.query if url.query else ''} HTTP/1.1",
        f"Host: {url.netloc.rpartition('@')[2]}",
    ]
    lines += [line for line in headers if line.partition(":")[0].lower() not in _HOP_BY_HOP]
    lines += ["Connection: close"]
    return url.hostname, 80 if port is None else port, "\r\n".join([*lines, "", ""]).encode("latin-1")


_HOP_BY_HOP = ("host", "connection", "proxy-connection", "proxy-authorization", "keep-alive", "upgrade")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await asyncio.wait_for(reader.read(_PIECE), _IDLE_SECONDS):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
