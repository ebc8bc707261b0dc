"""MCP servers of the operator's behind every door: their tools, their state, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import yarl
from tests.interaction.doors import Door
from tests.timeouts import soon
from tests.tools.mcp.everything import make_server
from tests.tools.mcp.serving import config, http, listening, program, until

from ronda import tool
from ronda.core.parts import ToolTurn
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.mcp.config import Process


async def get(door: Door, path: str) -> Any:
    async with soon(), door.http.get(f"{door.url}/{path}") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_a_request_gets_the_tools_of_the_servers(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    async with door.serving(model, mcp=[program()]) as served:
        answer = await served.ask(stream=stream)
    assert answer.content == "3"
    assert [(record["name"], record["result_content"]) for record in answer.records] == [("every_add", "3")]


async def test_one_server_that_fails_leaves_the_others_alone_and_all_states_are_told(door: Door) -> None:
    broken = config(Process("/no/such/program"), "broken")
    off = config(Process("/never/tried"), "off", enabled=False)
    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    async with door.serving(model, mcp=[broken, program(), off]) as served:
        assert (await served.ask(stream=False)).content == "3"
        found = {one["name"]: one for one in (await get(door, "mcp"))["servers"]}
        [described, *_] = (await get(door, "models"))["data"]
    assert {name: one["state"] for name, one in found.items()} == {
        "broken": "failed",
        "every": "connected",
        "off": "disabled",
    }
    assert "cannot be started" in found["broken"]["last_error"]
    assert (found["every"]["transport"], found["every"]["era"], found["every"]["last_error"]) == (
        "stdio",
        "2026-07-28",
        None,
    )
    assert described["tools_available"] is True
    assert (described["mcp_tools_count"], described["mcp_servers_connected"]) == (found["every"]["tools"], 1)


async def test_a_tool_of_the_server_itself_keeps_its_name(door: Door) -> None:
    @tool
    def every_add(a: int, b: int) -> str:
        return "ours"

    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("done"))
    async with door.serving(model, every_add, mcp=[program(allowed_tools=("add",))]) as served:
        answer = await served.ask(stream=False)
    assert answer.records[0]["result_content"] == "ours"
    names = [spec.name for spec in model.requests[0].tools]
    assert names[0] == "every_add"
    assert names[1].startswith("every_add_")


async def test_tools_that_come_later_are_offered_to_the_next_request(door: Door) -> None:
    model = ScriptedModel(calls("every_grow"), says("grown"), calls("every_extra"), says("done"))
    async with door.serving(model, mcp=[program()]) as served:
        await served.ask(stream=False)
        assert served.mcp is not None
        servers = served.mcp.here()
        await until(lambda: "every_extra" in [tool.spec.name for tool in servers.all_tools()])
        answer = await served.ask(stream=False)
    assert answer.records[0]["result_content"] == "extra"


async def test_a_server_without_mcp_says_nothing_of_it(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi"))):
        assert (await get(door, "mcp")) == {"servers": []}
        [described, *_] = (await get(door, "models"))["data"]
    assert not [key for key in described if key.startswith("mcp")]


async def test_a_cancelled_request_leaves_the_server_connected(door: Door) -> None:
    model = ScriptedModel(calls("every_hang"), calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    async with door.serving(model, mcp=[program()]) as served:
        asking = asyncio.create_task(served.ask(stream=False))
        assert served.mcp is not None
        servers = served.mcp.here()
        await until(lambda: any(one.is_busy for one in servers._connections))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert (await served.ask(stream=False)).content == "3"


@pytest.mark.parametrize("where", ["chat/completions", "responses"])
async def test_a_server_that_is_away_is_degraded_and_keeps_its_tools_until_it_comes_back(
    door: Door, where: str
) -> None:
    add = calls(Call("every_add", {"a": 1, "b": 2}))
    model = ScriptedModel(says("hi"), add, says("never mind"), add, says("3"))
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}]} if "chat" in where else {"input": "go"}

    async def ask() -> str:
        async with soon(), door.http.post(f"{door.url}/{where}", json=body) as answer:
            assert answer.status == 200
            return await answer.text()

    async def until_told(*wanted: Any) -> None:
        """What `/v1/mcp` and `/v1/models` say of it, in the end: a connection is found to be lost a moment after it was."""
        told: Any = None
        async with soon():
            while told != wanted:
                [one] = (await get(door, "mcp"))["servers"]
                [described, *_] = (await get(door, "models"))["data"]
                told = one["state"], one["tools"] > 0, one["last_error"] is None, described["mcp_servers_connected"]

    async with contextlib.AsyncExitStack() as stack:
        here = await stack.enter_async_context(contextlib.AsyncExitStack())
        url = await here.enter_async_context(listening(make_server().streamable_http_app()))
        await stack.enter_async_context(door.serving(model, mcp=[http(url)]))
        assert "hi" in await ask()
        await until_told("connected", True, True, 1)
        await here.aclose()
        assert "never mind" in await ask()
        await until_told("degraded", True, False, 0)
        port = yarl.URL(url).port
        assert port is not None
        await stack.enter_async_context(listening(make_server().streamable_http_app(), port))
        await until_told("connected", True, True, 1)
        assert '3"' in await ask()
    turn = model.heard[2][-1]
    assert isinstance(turn, ToolTurn)
    assert turn.results[0].failed
    assert "the MCP server 'every'" in turn.results[0].content
