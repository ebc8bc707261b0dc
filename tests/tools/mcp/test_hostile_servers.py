"""Servers that want to keep us busy, fill our memory or flood a person: each call has a clear end, and others are served."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.mcp.serving import Watcher, call, config, http, opened

from ronda.errors import ToolFailed
from ronda.tools.mcp.bounds import LIGHT, MAX_BLOCKS, MAX_OBJECTS, is_too_much
from ronda.tools.mcp.call import MAX_QUESTIONS
from ronda.tools.mcp.config import Process

PROGRAM = str(Path(__file__).with_name("hostile.py"))


def server(how: str, **changes: Any) -> Any:
    return config(Process(sys.executable, (PROGRAM, how)), "h", **changes)


@pytest.mark.parametrize("how", ["many tools", "wide schemas", "deep schema", "endless depth"])
async def test_a_list_that_is_too_much_is_told_at_once(how: str) -> None:
    async with opened(server(how)) as servers:
        [status] = servers.status()
    assert (status.state, status.tools) == ("failed", 0)
    assert "too large, too deep" in (status.last_error or "")


@pytest.mark.parametrize("how", ["many blocks", "many values"])
async def test_an_answer_that_is_too_much_fails_alone(how: str) -> None:
    async with opened(server(how)) as servers:
        with pytest.raises(ToolFailed, match="too large, too deep"):
            await call(servers, "h_act")
        [status] = servers.status()
        assert status.state == "connected"
        assert (await call(servers, "h_fine")).content == "ok"


async def test_a_line_that_does_not_end_loses_the_connection_and_no_more() -> None:
    async with opened(server("100 MB")) as servers:
        with pytest.raises(ToolFailed, match="was lost while the call ran"):
            await call(servers, "h_act")
        assert (await call(servers, "h_fine")).content == "ok"  # it is started anew


async def test_what_is_left_of_a_long_list_is_told() -> None:
    async with opened(server("some blocks")) as servers:
        output = await call(servers, "h_act")
    assert output.content.count("x") == MAX_BLOCKS
    assert output.content.endswith("… (1000 more parts were left out)")


async def test_a_large_picture_is_no_flood() -> None:
    async with opened(server("picture")) as servers:
        output = await call(servers, "h_act")
    assert len(output.attachments) == 1


@pytest.mark.parametrize("how", ["progress", "logs", "changes", "pings", "twice", "complaints"])
async def test_a_flood_on_the_way_does_not_matter(how: str) -> None:
    watcher = Watcher()
    async with opened(server(how)) as servers:
        assert (await call(servers, "h_act", watcher=watcher)).content == "ok"
        assert (await call(servers, "h_fine")).content == "ok"


async def test_a_person_is_not_flooded_with_questions() -> None:
    watcher = Watcher(*[None] * 1000)
    async with opened(server("questions")) as servers:
        assert (await call(servers, "h_act", watcher=watcher)).content == "ok"
    assert 0 < len(watcher.questions) <= MAX_QUESTIONS


async def test_names_of_any_characters_become_names_that_every_model_takes() -> None:
    async with opened(server("names")) as servers:
        names = [tool.spec.name for tool in servers.tools()]
    assert len(names) == len(set(names)) == 4
    assert all(name.isascii() and name.replace("-", "_").isidentifier() and len(name) <= 64 for name in names)


# ---- over HTTP --------------------------------------------------------------------------------------------------------


def dense(id: Any) -> bytes:
    blocks = b'{"type":"text","text":"x"},' * (MAX_OBJECTS + 1)
    return b'{"jsonrpc":"2.0","id":%b,"result":{"content":[%b{"type":"text","text":"x"}]}}' % (
        json.dumps(id).encode(),
        blocks,
    )


async def serve(how: str, port_of_another: list[int]) -> web.AppRunner:
    schema = {"type": "object"}

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        message_id, method = message.get("id"), message.get("method")
        if message_id is None:
            return web.Response(status=202)
        if method == "initialize":
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            result: Any = {**about, "serverInfo": {"name": "h", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": schema} for name in ("act", "fine")]}
        elif method == "tools/call" and message["params"]["name"] == "fine":
            result = {"content": [{"type": "text", "text": "ok"}]}
        elif method == "tools/call":
            if how == "json":
                return web.Response(body=dense(message_id), content_type="application/json")
            if how == "redirect":
                return web.Response(status=307, headers={"location": f"http://127.0.0.1:{port_of_another[0]}/mcp"})
            stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await stream.prepare(request)
            if how == "events":
                await stream.write(b"event: message\ndata: " + dense(message_id) + b"\n\n")
            else:  # a drop at a time
                try:
                    while True:
                        await stream.write(b":")
                        await asyncio.sleep(0.01)
                except (ConnectionError, asyncio.CancelledError):
                    pass
            return stream
        else:
            error = {"code": -32601, "message": "unknown"}
            return web.json_response({"jsonrpc": "2.0", "id": message_id, "error": error}, status=200)
        return web.json_response({"jsonrpc": "2.0", "id": message_id, "result": result})

    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner


@pytest.mark.parametrize("how", ["json", "events", "drops", "redirect"])
async def test_a_hostile_answer_over_http_fails_alone(how: str) -> None:
    elsewhere: list[str] = []

    async def elsewhere_called(request: web.Request) -> web.Response:
        elsewhere.append(request.path)
        return web.Response(status=500)

    app = web.Application()
    app.router.add_route("*", "/mcp", elsewhere_called)
    other = web.AppRunner(app, shutdown_timeout=0.1)
    await other.setup()
    await web.TCPSite(other, "127.0.0.1", 0).start()
    runner = await serve(how, [other.addresses[0][1]])
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    seconds = {"call_seconds": 1.0} if how == "drops" else {}
    try:
        async with opened(http(url, name="h", **seconds)) as servers:
            with pytest.raises(ToolFailed):
                await call(servers, "h_act")
            assert (await call(servers, "h_fine")).content == "ok"
    finally:
        await runner.cleanup()
        await other.cleanup()
    assert elsewhere == []  # a redirect to another origin is not followed


# ---- what is counted --------------------------------------------------------------------------------------------------


def test_texts_may_hold_what_they_like() -> None:
    text = json.dumps({"text": '{"a": [1, 2, "\\"{[,"]}' * (LIGHT // 4)}).encode()
    assert len(text) > LIGHT
    assert not is_too_much(text)


@settings(max_examples=20)
@given(st.recursive(st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
def test_a_long_list_of_anything_is_told_from_a_short_one(value: Any) -> None:
    one = json.dumps([value, []]).encode()
    few, many = b"[" + b",".join([one] * 10) + b"]", b"[" + b",".join([one] * (MAX_OBJECTS // 2 + 1)) + b"]"
    assert not is_too_much(few)
    assert is_too_much(many)
