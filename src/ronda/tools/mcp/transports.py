"""Where a server is → the streams of a connection with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import assert_never

import aiohttp
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ronda.errors import ToolFailed
from ronda.providers.http.session import session, through, why_not_reached
from ronda.providers.http.transport import DIRECT, Routes, web_routes
from ronda.providers.oauth import token_for
from ronda.tools.mcp.bounds import MAX_MESSAGE
from ronda.tools.mcp.config import Http, McpServer, Process, Sse, WebSocket
from ronda.tools.mcp.http import GrantedToken, Guard, http_client, tls_context
from ronda.tools.mcp.log_paths import hidden_path
from ronda.tools.mcp.process import Complaints, process_streams
from ronda.tools.mcp.streams import WatchedReads, WatchedWrites, message_streams

# MCP over a WebSocket: one message per text frame, under the subprotocol `mcp`. The SDK dropped it; configurations still name
# it.


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


@asynccontextmanager
async def open_streams(
    server: McpServer, complaints: Complaints, ended: Callable[[], None], auth: httpx2.Auth | None = None
) -> AsyncGenerator[TransportStreams, None]:
    """`ended` is called when the server's side is over, whether or not a caller waits for an answer.

    `auth` proves who calls, instead of what the server's settings say."""
    if not isinstance(server.source, Process):
        await asyncio.to_thread(tls_context)
    address = "" if isinstance(server.source, Process) else server.source.url
    with hidden_path(address):
        async with _streams(server, complaints, ended, auth or _auth(server)) as (received, leaving):
            yield WatchedReads(received, ended), WatchedWrites(leaving)


def _streams(
    server: McpServer, complaints: Complaints, ended: Callable[[], None], auth: httpx2.Auth | None
) -> AbstractAsyncContextManager[TransportStreams]:
    source = server.source
    match source:
        case Process(sandbox=None):
            return process_streams(source, complaints)
        case Process():
            from ronda.tools.mcp.sandboxed_server import sandboxed_streams  # only settings with one need it

            return sandboxed_streams(source, complaints)
        case Http():
            return _http(source.url, server, auth)
        case Sse():
            return _sse(source, server, ended, auth)
        case WebSocket():
            assert not server.public_only  # no request can name one
            return _websocket(source, server)
        case _:
            assert_never(source)


@asynccontextmanager
async def _http(url: str, server: McpServer, auth: httpx2.Auth | None) -> AsyncGenerator[TransportStreams, None]:
    async with (
        http_client(
            _headers(server), auth, server.call_seconds + 60, guard=_guard(server), routes=_routes(server)
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


@asynccontextmanager
async def _sse(
    source: Sse, server: McpServer, ended: Callable[[], None], own_auth: httpx2.Auth | None
) -> AsyncGenerator[TransportStreams, None]:
    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        # The one stream may be silent for long. A message that is refused is no news to the SDK: the caller would wait on.
        return http_client(headers or {}, own_auth, 3600.0, ended, _guard(server), _routes(server))

    async with sse_client(source.url, headers=_headers(server), httpx_client_factory=client) as streams:
        yield streams


@asynccontextmanager
async def _websocket(source: WebSocket, server: McpServer) -> AsyncGenerator[TransportStreams, None]:
    headers = _headers(server)
    if server.grant is not None:
        headers["Authorization"] = f"Bearer {await token_for(server.grant, routes=_routes(server))}"
    async with websocket_streams(source.url, headers, _routes(server)) as streams:
        yield streams


def _auth(server: McpServer) -> httpx2.Auth | None:
    if server.grant is not None:
        return GrantedToken(server.grant, _routes(server))
    if server.login is None or server.bearer_token:
        return None
    from ronda.tools.mcp.login import kept_login  # for those whose token a person has got

    return kept_login(server)


def _guard(server: McpServer) -> Guard | None:
    return Guard(server.exceptions) if server.public_only else None


def _routes(server: McpServer) -> Routes:
    return web_routes(server.proxy, server.ca_file, os.environ)


def _headers(server: McpServer) -> dict[str, str]:
    headers = {} if isinstance(server.source, Process) else dict(server.source.headers)
    if server.bearer_token:
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {server.bearer_token}"
    return headers
