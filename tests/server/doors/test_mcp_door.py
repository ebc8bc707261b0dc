"""This server as an MCP server, through the official client: each agent is a tool, and so is `chat`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.interaction.doors import Door
from tests.timeouts import soon

from ronda import register_connection, tool
from ronda.core.events import RunFinished
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, calls, fails, says

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"], ids=["2025-11-25", "2026-07-28"])


@asynccontextmanager
async def client(door: Door, mode: Any, key: str = "test", **more: Any) -> AsyncIterator[Client]:
    url = f"{door.url.removesuffix('/v1')}/mcp"
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        soon(),
        httpx2.AsyncClient(headers=headers, timeout=30.0) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **more) as made,
    ):
        yield made


def text_of(result: Any) -> str:
    [block] = result.content
    return str(block.text)


HELLO = {"messages": [{"role": "user", "content": "go"}]}
AGENT = """---
name: greeter
description: Greets somebody.
model: {id: m, connection: {kind: reference, name: scripted}}
inputs: {who: {kind: string, required: true}, times: {kind: integer, default: 1}}
---
user:
Greet {{who}} {{times}} times.
"""


@ERAS
async def test_chat_is_a_tool(door: Door, mode: Any) -> None:
    @tool
    def look(q: str) -> str:
        """Look something up."""
        return "found"

    model = ScriptedModel(calls("look", q="x"), says("done"))
    news: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        news.append(message)

    async with door.serving(model, look), client(door, mode) as mcp:
        [listed] = (await mcp.list_tools()).tools
        result = await mcp.call_tool("chat", HELLO, progress_callback=progress)
    assert (listed.name, listed.input_schema["required"]) == ("chat", ["messages"])
    assert (text_of(result), result.is_error) == ("done", False)
    assert result.structured_content is not None
    assert result.structured_content["choices"][0]["message"]["content"] == "done"
    assert news == ["calling look", "look is done"]


@ERAS
async def test_each_agent_is_a_tool_with_its_inputs(door: Door, mode: Any, tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "greeter.prompty").write_text(AGENT)
    (tmp_path / "team" / "plain.prompty").write_text(
        "---\nmodel: {id: m, connection: {kind: reference, name: scripted}}\n---\nsystem:\nBe brief.\n"
    )
    (tmp_path / "broken.prompty").write_text("---\ntools: 5\n---\n")
    model = ScriptedModel(says("Hello, Ada!"), says("Short."))
    register_connection("scripted", model)
    async with door.serving(ScriptedModel(), agents=str(tmp_path)), client(door, mode) as mcp:
        chat, greeter, plain = (await mcp.list_tools()).tools
        greeted = await mcp.call_tool("greeter", {"who": "Ada"})
        missing = await mcp.call_tool("greeter", {})
        short = await mcp.call_tool(plain.name, {"input": "Why?"})
    assert (chat.name, greeter.name, greeter.description) == ("chat", "greeter", "Greets somebody.")
    assert greeter.input_schema["required"] == ["who"]
    assert list(plain.input_schema["properties"]) == ["input"]
    assert [text_of(greeted), text_of(short)] == ["Hello, Ada!", "Short."]
    assert missing.is_error
    assert "who" in text_of(missing)
    assert "Greet Ada 1 times." in str(model.heard[0])


@ERAS
async def test_what_fails_is_a_result_that_says_why(door: Door, mode: Any) -> None:
    model = ScriptedModel(fails("no key", 401))
    async with door.serving(model), client(door, mode) as mcp:
        failed = await mcp.call_tool("chat", HELLO)
        wrong = await mcp.call_tool("chat", {"messages": "?", "temperature": "hot"})
        elsewhere = await mcp.call_tool("chat", {**HELLO, "model": "nobody"})
        with pytest.raises(MCPError, match="there is no tool 'nothing'; there is chat"):
            await mcp.call_tool("nothing", {})
    assert failed.is_error
    assert "no key" in text_of(failed)
    assert wrong.is_error
    assert "the model 'nobody' does not exist here" in text_of(elsewhere)


async def test_rounds_are_obeyed(door: Door) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "found"

    model = ScriptedModel(calls("look"), calls("look"), calls("look"), says("done"))
    async with door.serving(model, look, max_tool_rounds_ceiling=1), client(door, "auto") as mcp:
        result = await mcp.call_tool("chat", {**HELLO, "max_tool_rounds": 50})
    assert result.structured_content is not None
    assert result.structured_content["limit"] == "max_tool_rounds"


@ERAS
async def test_a_call_that_is_cancelled_ends_its_run(door: Door, mode: Any) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with door.serving(ScriptedModel(calls("wait")), wait) as served:
        async with client(door, mode) as mcp:
            calling = asyncio.create_task(mcp.call_tool("chat", HELLO))
            await begun.wait()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await served.all_over()
        [events] = await served.events
    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "cancelled"


async def test_a_key_is_needed_where_there_are_keys_and_a_session_is_its_owners(door: Door) -> None:
    catalog = MemoryCatalog()
    keys = {}
    for name in ("ada", "bob"):
        keys[name], row = new_key(name, 0.0)
        await catalog.keys.add(row)
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    url = f"{door.url.removesuffix('/v1')}/mcp"
    accept = {"Accept": "application/json, text/event-stream"}
    async with door.serving(ScriptedModel(), catalog=catalog), soon(), aiohttp.ClientSession() as http:
        async with http.post(url, json=body, headers=accept) as answer:
            assert answer.status == 401
        ada = {**accept, "Authorization": f"Bearer {keys['ada']}"}
        async with http.post(url, json=body, headers=ada) as answer:
            assert answer.status == 200
            session = answer.headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        for name, status in (("bob", 404), ("ada", 200)):
            headers = {**accept, "Authorization": f"Bearer {keys[name]}", "mcp-session-id": session}
            async with http.post(url, json=ping, headers=headers) as answer:
                assert answer.status == status


async def test_a_foreign_host_is_refused_as_at_every_door(door: Door) -> None:
    url = f"{door.url.removesuffix('/v1')}/mcp"
    headers = {"Host": "evil.example"}
    async with door.serving(ScriptedModel()), soon(), door.http.post(url, json={}, headers=headers) as answer:
        assert answer.status == 403


NO_MESSAGES = {
    b"{}": "Object missing required field jsonrpc",
    b"[]": "Expected object, got array",
    b"3": "Expected object, got int",
    b'{"jsonrpc": "2.0"}': "it has no 'method'",
    b'{"jsonrpc": "2.0", "id": 1}': "it has no 'method'",
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}': "Invalid enum value '1.0' - at $.jsonrpc",
    b'{"jsonrpc": "2.0", "id": 1, "method": 5}': "Expected str | null, got int - at $.method",
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}': "Expected object | null, got array - at $.params",
}


@pytest.mark.parametrize(("body", "problem"), NO_MESSAGES.items(), ids=[body.decode() for body in NO_MESSAGES])
async def test_what_is_no_message_is_refused_in_one_line(door: Door, body: bytes, problem: str) -> None:
    async with door.serving(ScriptedModel()):
        url = f"{door.url.removesuffix('/v1')}/mcp"
        async with door.http.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            said = await answer.json()
    assert answer.status == 400
    assert said == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": f"this is no JSON-RPC 2.0 message: {problem}"},
    }
