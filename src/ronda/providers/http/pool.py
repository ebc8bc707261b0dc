"""The connections of one event loop: those that wait to be used again, and new ones. Closed with the loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Sequence
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ronda.providers.http.address import Origin
from ronda.providers.http.connection import Connection

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

_KEPT = 256  # idle ones of one origin
_PROBE = 60  # seconds of silence
_READ = 256 * 1024  # bytes that are taken at once


class Pool:
    def __init__(self) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self._keeper: AsyncGenerator[None, None] | None = None
        # What has arrived lies here until the parser has looked at it, which is at once: one for all connections of the loop.
        # asyncio would take a new quarter of a megabyte for each read, and give it back to the system: 20 µs.
        self._buffer = memoryview(bytearray(_READ))

    async def open(self) -> None:
        self._keeper = _close_with_the_loop(self)
        await self._keeper.__anext__()

    def idle(self, origin: Origin) -> Connection | None:
        """The one used last: those below it grow old together and are closed."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            connection.home = None
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def connect(self, origin: Origin, timeout: float) -> Connection:
        """Raises TimeoutError, OSError, or ValueError for a certificate or a name that is no good."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            found = await _connect(loop, origin)
            try:
                _keep_alive(found)
                _, connection = await loop.create_connection(
                    lambda: Connection(loop, self._buffer),
                    sock=found,
                    ssl=tls_context() if origin.tls else None,
                    server_hostname=origin.host if origin.tls else None,
                )
            except BaseException:
                found.close()
                raise
        return connection

    def give_back(self, origin: Origin, connection: Connection) -> None:
        waiting = self._idle.setdefault(origin, [])
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


@cache
def tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
