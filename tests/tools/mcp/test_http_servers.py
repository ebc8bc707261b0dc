"""Servers over HTTP that want a token, refuse, break off or answer without measure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.tools.mcp.everything import make_server
from tests.tools.mcp.serving import SECONDS, call, config, http, listening, opened, until
from tests.tools.mcp.websocket_server import websocket_app

from ronda.errors import ToolFailed
from ronda.providers.grants import Grant
from ronda.tools.mcp.bounds import MAX_MESSAGE
from ronda.tools.mcp.config import Http, McpServer, Source, Sse, WebSocket
from ronda.tools.mcp.servers import McpServers


class Guarded:
    """An app that lets in who has the token of the moment."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.token = "one"
        self.asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["path"] == "/token":
            self.asked += 1
            body = msgspec.json.encode({"access_token": self.token, "expires_in": 3600, "token_type": "bearer"})
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        elif dict(scope["headers"]).get(b"authorization") != f"Bearer {self.token}".encode():
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self.app(scope, receive, send)


async def test_a_token_is_fetched_and_fetched_anew_when_it_is_refused() -> None:
    app = Guarded(make_server().streamable_http_app())
    async with listening(app) as url, opened(http(url, grant=Grant(f"{url}/token", "me", "secret"))) as servers:
        assert (await call(servers, "every_add", {"a": 1, "b": 1})).content == "2"
        assert app.asked == 1
        app.token = "two"
        assert (await call(servers, "every_add", {"a": 1, "b": 2})).content == "3"
        assert app.asked == 2


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_the_other_transports_bring_the_token_along(transport: str) -> None:
    server = make_server()
    app = Guarded(server.sse_app() if transport == "sse" else websocket_app(server))
    async with listening(app) as url:
        source = Sse(f"{url}/sse") if transport == "sse" else WebSocket(f"{url.replace('http', 'ws', 1)}/ws")
        async with opened(config(source, bearer_token="one", era="legacy")) as servers:
            assert (await call(servers, "every_add", {"a": 1, "b": 1})).content == "2"
        async with opened(config(source, bearer_token="wrong", era="legacy")) as servers:
            [status] = servers.status()
            assert status.state == "failed"
            assert status.last_error is not None
            assert "one" not in status.last_error.split()
            assert "401" in status.last_error or "403" in status.last_error


class Odd:
    """A server written by hand, whose tool answers as `how` says."""

    def __init__(self) -> None:
        self.how = "well"
        self.calls = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        result: dict[str, Any]
        match message["method"]:
            case "initialize":
                info = {"name": "odd", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.calls += 1
                if self.how != "well":
                    return await self._misbehave(request)
                result = {"content": [{"type": "text", "text": "well"}]}
            case _:
                return web.Response(status=202)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _misbehave(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        match self.how:
            case "garbage":
                return web.Response(text="<html>", content_type="application/json")
            case "html":
                return web.Response(text="<html>", content_type="text/html")
            case "large":
                await answer.prepare(request)
                try:
                    for _ in range(MAX_MESSAGE // 65536 + 2):
                        await answer.write(b" " * 65536)
                except ConnectionError:  # the client has had enough
                    pass
                return answer
            case "cut":
                await answer.prepare(request)
                await answer.write(b'{"jsonrpc')
                assert request.transport is not None
                request.transport.abort()
                return answer
            case "reset":
                assert request.transport is not None
                request.transport.abort()
                return answer
            case "redirect":
                return web.Response(status=307, headers={"Location": "http://203.0.113.1/mcp"})
            case _:
                raise AssertionError(self.how)


async def served(odd: Odd) -> tuple[web.AppRunner, McpServer]:
    app = web.Application()
    app.router.add_route("*", "/mcp", odd.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return runner, config(Http(f"http://{host}:{port}/mcp"), "odd", era="legacy")


@pytest.mark.parametrize("how", ["garbage", "html", "large", "cut", "reset", "redirect"])
async def test_a_bad_answer_fails_alone_and_is_not_asked_for_again(how: str) -> None:
    odd = Odd()
    runner, server = await served(odd)
    try:
        async with opened(server) as servers:
            odd.how = how
            with pytest.raises(ToolFailed, match="the MCP server 'odd'"):
                await call(servers, "odd_act")
            assert odd.calls == 1
            assert servers.status()[0].state == "connected"
            odd.how = "well"
            outputs = await asyncio.gather(*[call(servers, "odd_act") for _ in range(3)])
            assert [output.content for output in outputs] == ["well"] * 3
    finally:
        await runner.cleanup()


# The SDK leaves the streams of an SSE connection that is cut to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("transport", ["sse", "http", "websocket"])
async def test_a_server_that_comes_back_is_connected_anew(transport: str) -> None:
    def app() -> Any:
        server = make_server()
        if transport == "sse":
            return server.sse_app()
        return server.streamable_http_app() if transport == "http" else websocket_app(server)

    def source(url: str) -> Source:
        match transport:
            case "sse":
                return Sse(f"{url}/sse")
            case "http":
                return Http(f"{url}/mcp")
        return WebSocket(f"{url.replace('http', 'ws', 1)}/ws")

    servers: McpServers | None = None
    try:
        async with listening(app()) as url:
            servers = McpServers([config(source(url), era="legacy")])
            await servers.ready()
            assert (await call(servers, "every_add", {"a": 1, "b": 1})).content == "2"
        with pytest.raises(ToolFailed):  # no server is there
            await call(servers, "every_add", {"a": 1, "b": 2})
        await until(lambda: servers is not None and servers.status()[0].state == "degraded")
        assert servers.status()[0].tools > 0  # its last known tools stay
        async with listening(app(), int(url.rpartition(":")[2])):
            async with asyncio.timeout(SECONDS):
                while True:  # one that fell into the moment of an attempt may still be told that no server was there
                    with contextlib.suppress(ToolFailed):
                        output = await call(servers, "every_add", {"a": 1, "b": 2})
                        break
            assert output.content == "3"
            assert servers.status()[0].state == "connected"
            await servers.close()
            servers = None
    finally:
        if servers is not None:
            await servers.close()


SECRET = "/k/t0p-s3cret/mcp"


class _UnderSecretPath:
    """An app whose address has a key in its path."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            assert scope["path"] == SECRET
            scope = {**scope, "path": "/mcp", "raw_path": b"/mcp"}
        await self.app(scope, receive, send)


async def test_the_path_of_an_address_is_in_no_log_of_any_package(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app = _UnderSecretPath(make_server().streamable_http_app())
    async with listening(app) as url, opened(config(Http(url + SECRET))) as servers:
        assert (await call(servers, "every_add", {"a": 1, "b": 1})).content == "2"
    async with opened(config(Http(f"http://127.0.0.1:1{SECRET}?key=s3cret"), connect_seconds=0.5)) as servers:
        assert servers is not None

    lines = [line for line in caplog.text.splitlines() if "HTTP Request" in line]
    assert lines
    assert "s3cret" not in caplog.text
