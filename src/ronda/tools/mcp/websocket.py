"""MCP over a WebSocket: one message per text frame, under the subprotocol `mcp`. The SDK dropped it; configurations still name
it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from mcp.client._transport import TransportStreams

from ronda.errors import ToolFailed
from ronda.providers.http.session import session, through, why_not_reached
from ronda.providers.http.transport import DIRECT, Routes
from ronda.tools.mcp.bounds import MAX_MESSAGE
from ronda.tools.mcp.streams import message_streams

PING_SECONDS = 30.0  # a peer that is gone without a word is found out by the next ping


@asynccontextmanager
async def websocket_streams(
    url: str, headers: Mapping[str, str], routes: Routes = DIRECT
) -> AsyncGenerator[TransportStreams, None]:
    """Raises ToolFailed where there is no answer."""
    client = await session()
    try:
        socket = await client.ws_connect(
            url,
            protocols=("mcp",),
            headers=headers,
            max_msg_size=MAX_MESSAGE,
            heartbeat=PING_SECONDS,
            **through(routes, url.replace("ws", "http", 1)),
        )
    except aiohttp.WSServerHandshakeError as error:
        raise ToolFailed(f"the server does not open a WebSocket: HTTP {error.status}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ToolFailed(why_not_reached(error)) from error
    try:
        async with message_streams(_frames(socket), socket.send_str) as streams:
            yield streams
    finally:
        await socket.close()


async def _frames(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[str | bytes]:
    async for frame in socket:
        if frame.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            yield frame.data
