"""Everything over HTTP that is no call of a model: one aiohttp session per event loop, closed with it.

No cookies, no redirects unless asked for (a key must not follow one). A request goes directly, unless it is told otherwise
(`through`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
import yarl

from ronda.providers.http.address import Address
from ronda.providers.http.transport import Routes


class _LoopSession:
    __slots__ = ("_keeper", "session")

    def __init__(self, session: aiohttp.ClientSession, keeper: AsyncGenerator[None, None]) -> None:
        self.session = session
        self._keeper = keeper  # alive as long as the loop


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSession] = WeakKeyDictionary()


async def _close_with_the_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    # An event loop closes the async generators it knows before it closes itself: the one hook every runner calls.
    try:
        yield
    finally:
        _sessions.pop(asyncio.get_running_loop(), None)  # a value that knows its key would be there for ever
        await session.close()


async def session() -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    held = _sessions.get(loop)
    if held is None or held.session.closed:
        for other in list(_sessions):
            if other.is_closed():  # without a word to its generators
                _sessions.pop(other, None)
        made = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("User-Agent",),
        )
        keeper = _close_with_the_loop(made)
        await keeper.__anext__()
        held = _sessions[loop] = _LoopSession(made, keeper)
    return held.session


def through(routes: Routes, url: str) -> dict[str, Any]:
    """What a request is given besides its address, for the way that it is to take."""
    try:
        route = routes.to(Address(url).origin)
    except ValueError:  # aiohttp says what is wrong with it
        return {}
    more: dict[str, Any] = {} if route.tls is None or not route.origin.tls else {"ssl": route.tls}
    if (proxy := route.proxy) is not None:
        user, password = proxy.user or None, proxy.password or None
        more["proxy"] = yarl.URL.build(
            scheme=proxy.scheme, user=user, password=password, host=proxy.host, port=proxy.port
        )
    return more


async def read_within(answer: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """The body; None where it is larger than that, which its head may not have said."""
    if (answer.content_length or 0) > limit:
        return None
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def why_not_reached(error: Exception) -> str:
    """What kept a request from being answered. Nothing of the request is repeated: its address may hold a key."""
    match error:
        case aiohttp.ClientConnectorError(host=host, port=port, os_error=cause):
            # asyncio says "Connect call failed" with the address; the system's own words say why.
            why = os.strerror(cause.errno) if cause.errno is not None and cause.errno > 0 else cause.strerror
            return f"cannot reach {host}:{port}: {why or type(cause).__name__}"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "the connection was closed before there was an answer"
        case TimeoutError():
            return "it took too long"
        case _:
            return type(error).__name__
