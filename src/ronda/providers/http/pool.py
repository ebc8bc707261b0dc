"""The connections of one event loop: those that wait to be used again, and new ones. Closed with the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ronda.providers.http.address import Origin
from ronda.providers.http.connection import Connection
from ronda.providers.http.proxy import Proxy
from ronda.providers.http.transport import Route, tls_context
from ronda.providers.http.tunnel import TunnelProtocol, open_tunnel

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

_KEPT = 256  # idle ones of one route
_PROBE = 60  # seconds of silence
_READ = 256 * 1024  # bytes that are taken at once


class Pool:
    def __init__(self) -> None:
        self._idle: dict[Route, list[Connection]] = {}
        self._keeper: AsyncGenerator[None, None] | None = None
        # What has arrived lies here until the parser has looked at it, which is at once: one for all connections of the loop.
        # asyncio would take a new quarter of a megabyte for each read, and give it back to the system: 20 µs.
        self._buffer = memoryview(bytearray(_READ))

    async def open(self) -> None:
        self._keeper = _close_with_the_loop(self)
        await self._keeper.__anext__()

    def idle(self, route: Route) -> Connection | None:
        """The one used last: those below it grow old together and are closed."""
        waiting = self._idle.get(route)
        while waiting:
            connection = waiting.pop()
            connection.home = None
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def connect(self, route: Route, timeout: float) -> Connection:
        """Raises TimeoutError, OSError, ProxyRefused, or ValueError for a certificate or a name that is no good."""
        loop = asyncio.get_running_loop()
        origin, proxy = route.origin, route.proxy
        async with asyncio.timeout(timeout):
            if route.connect is None:
                found = await _connect(loop, origin if proxy is None else proxy.origin)
            else:
                found = await route.connect(origin.host, origin.port)
                found.setblocking(False)
            try:
                _keep_alive(found)
                if proxy is not None and proxy.scheme == "https":
                    return await self._connect_inside(loop, found, route, proxy)
                if proxy is not None and not route.is_forwarded:
                    await open_tunnel(loop, found, proxy, origin)
                _, connection = await loop.create_connection(
                    lambda: Connection(loop, self._buffer),
                    sock=found,
                    ssl=(route.tls or tls_context()) if origin.tls else None,
                    server_hostname=origin.host if origin.tls else None,
                )
            except BaseException:
                found.close()
                raise
        return connection

    async def _connect_inside(
        self, loop: asyncio.AbstractEventLoop, found: socket.socket, route: Route, proxy: Proxy
    ) -> Connection:
        """Over TLS to the proxy itself, and inside that over TLS to the origin, if it has some."""
        tls = route.tls or tls_context()
        connection = Connection(loop, self._buffer)
        if route.is_forwarded:
            await loop.create_connection(lambda: connection, sock=found, ssl=tls, server_hostname=proxy.host)
            return connection
        transport, asked = await loop.create_connection(
            lambda: TunnelProtocol(proxy, route.origin), sock=found, ssl=tls, server_hostname=proxy.host
        )
        try:
            await asked.is_open
            inner = await loop.start_tls(transport, connection, tls, server_hostname=route.origin.host)
        except BaseException:
            transport.abort()
            raise
        assert inner is not None
        connection.connection_made(inner)  # which a protocol that takes a transport over is not told
        return connection

    def give_back(self, route: Route, connection: Connection) -> None:
        waiting = self._idle.setdefault(route, [])
        if len(waiting) < _KEPT and self._keeper is not None:
            waiting.append(connection)
            connection.home = waiting
        else:
            connection.abort()

    def close(self) -> None:
        """Nothing here knows the loop any more: an entry whose value knows its key is there for ever."""
        for waiting in self._idle.values():
            for connection in list(waiting):
                connection.abort()
        self._idle.clear()
        self._keeper = None


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def pool_here() -> Pool | None:
    return _pools.get(asyncio.get_running_loop())


async def open_pool() -> Pool:
    for loop in list(_pools):
        if loop.is_closed():  # without a word to its generators
            _pools.pop(loop, None)
    pool = _pools[asyncio.get_running_loop()] = Pool()
    await pool.open()
    return pool


async def _close_with_the_loop(pool: Pool) -> AsyncGenerator[None, None]:
    # An event loop closes the async generators it knows before it closes itself: the one hook every runner calls.
    try:
        yield
    finally:
        pool.close()
        await asyncio.sleep(0)  # a transport is closed in the loop's next turn


async def _connect(loop: asyncio.AbstractEventLoop, origin: Origin) -> socket.socket:
    import aiohappyeyeballs

    found: Sequence[AddrInfoType] | None = _numeric(origin)
    if found is None:
        found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    try:
        return await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=0.25, interleave=1, loop=loop)
    except RuntimeError as error:  # what uvloop raises where others raise an OSError
        raise OSError(str(error)) from error


def _keep_alive(found: socket.socket) -> None:
    """A model may think for minutes, and what is between it and us forgets connections that are silent for so long."""
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):  # the second is what macOS calls the first
        if (option := getattr(socket, name, None)) is not None:
            found.setsockopt(socket.IPPROTO_TCP, option, _PROBE)


def _numeric(origin: Origin) -> Sequence[AddrInfoType] | None:
    """An address that is a number needs no resolver, which would be a thread."""
    try:
        family = socket.AF_INET if ip_address(origin.host).version == 4 else socket.AF_INET6
    except ValueError:
        return None
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (origin.host, origin.port))]
