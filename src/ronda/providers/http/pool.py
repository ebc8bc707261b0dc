"""The connections of one event loop: those that wait to be used again, and new ones. Closed with the loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from functools import cache
from ipaddress import ip_address
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM, socket
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ronda.providers.http.address import Origin
from ronda.providers.http.connection import Connection

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

_KEPT = 256  # idle ones of one origin


class Pool:
    def __init__(self) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self._keeper = _close_with_the_loop(self)

    async def open(self) -> None:
        await self._keeper.__anext__()

    def idle(self, origin: Origin) -> Connection | None:
        """The one used last: those below it grow old together and are closed."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def connect(self, origin: Origin, patience: float) -> Connection:
        """Raises TimeoutError, OSError, or ValueError for a certificate or a name that is no good."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(patience):
            found = await _socket(loop, origin)
            try:
                _, connection = await loop.create_connection(
                    lambda: Connection(loop),
                    sock=found,
                    ssl=_tls() if origin.tls else None,
                    server_hostname=origin.host if origin.tls else None,
                )
            except BaseException:
                found.close()
                raise
        return connection

    def give_back(self, origin: Origin, connection: Connection) -> None:
        waiting = self._idle.setdefault(origin, [])
        if len(waiting) < _KEPT:
            waiting.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        for waiting in self._idle.values():
            for connection in waiting:
                connection.abort()
        self._idle.clear()


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def pool_here() -> Pool | None:
    return _pools.get(asyncio.get_running_loop())


async def open_pool() -> Pool:
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


async def _socket(loop: asyncio.AbstractEventLoop, origin: Origin) -> socket:
    import aiohappyeyeballs

    found: Sequence[AddrInfoType] | None = _numeric(origin)
    if found is None:
        found = await loop.getaddrinfo(origin.host, origin.port, type=SOCK_STREAM, proto=IPPROTO_TCP)
    return await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=0.25, interleave=1, loop=loop)


def _numeric(origin: Origin) -> Sequence[AddrInfoType] | None:
    """An address that is a number needs no resolver, which would be a thread."""
    try:
        family = AF_INET if ip_address(origin.host).version == 4 else AF_INET6
    except ValueError:
        return None
    return [(family, SOCK_STREAM, IPPROTO_TCP, "", (origin.host, origin.port))]


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
