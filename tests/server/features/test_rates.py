"""Rates: how many requests and tokens a minute, and requests at a time, a key may have; and in whose words it is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import openai
import pytest
from mcp.shared.exceptions import MCPError
from tests.interaction.doors import Door, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.doors.test_mcp_door import client as mcp_client

from ronda.core.parts import Usage
from ronda.errors import BadConfig
from ronda.providers.script import ScriptedModel, calls, says
from ronda.server.check_config import check_config
from ronda.server.features.rates.settings import Rate
from ronda.server.features.rates.windows import LEASE, TABLES, Windows
from ronda.server.features.table import make_config
from ronda.store.keys import KeyRow, hash_key
from ronda.store.memory import MemoryCatalog
from ronda.tools.function import as_tool


async def add_keys(served: Served) -> None:
    for number, key in enumerate((b"rk_a", b"rk_b")):
        await served.server.catalog.keys.add(KeyRow(f"key_{number}", "ann", hash_key(key), 1.0))


async def post(served: Served, name: str = "chat", key: str = "rk_a", stream: bool = False) -> Any:
    headers = {"authorization": f"Bearer {key}"}
    if name == "messages":
        headers["anthropic-version"] = "2023-06-01"
    async with (
        soon(),
        served.http.post(f"{served.url}/{PATHS[name]}", json=body_for(name, stream), headers=headers) as answer,
    ):
        return answer.status, {one.lower(): value for one, value in answer.headers.items()}, await answer.text()


async def counted(served: Served) -> None:
    """Until what was used is counted."""
    feature: Any = served.server.features.find("rates")
    await served.all_over()
    await feature.runs_ended()


def a_minute(served: Served) -> None:
    """Time stands still, so that no test is at the end of one."""
    feature: Any = served.server.features.find("rates")
    feature._windows._clock = feature._clock = lambda: 1_000_010.0  # 10 seconds before the next


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_request_too_many_is_a_429_in_the_words_of_each_door(door: Door, name: str, stream: bool) -> None:
    model = ScriptedModel(says("one"), says("two"))
    async with door.serving(model, rates={"requests": 1}) as served:
        await add_keys(served)
        a_minute(served)
        first, second = await post(served, name, stream=stream), await post(served, name, stream=stream)
        other = await post(served, name, "rk_b", stream=stream)

    assert [first[0], second[0], other[0]] == [200, 429, 200]
    assert second[1]["retry-after"] == "10"
    assert "1 requests a minute; come again in 10 seconds" in second[2]
    if name == "messages":
        assert json.loads(second[2])["error"]["type"] == "rate_limit_error"
        assert {one: value for one, value in second[1].items() if "ratelimit" in one} == {
            "anthropic-ratelimit-requests-limit": "1",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "1970-01-12T13:47:00Z",
        }
    else:
        assert {one: value for one, value in first[1].items() if "ratelimit" in one} == {
            "x-ratelimit-limit-requests": "1",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "10s",
        }
    assert len(model.requests) == 2


async def test_the_official_clients_know_it_for_what_it_is(door: Door) -> None:
    async with door.serving(ScriptedModel(says("one")), rates={"requests": 1}) as served:
        a_minute(served)
        await served.ask(stream=False)
        with pytest.raises(openai.RateLimitError) as caught:
            await served.ask(stream=False)
        assert caught.value.code == "rate_limit_exceeded"
        base = served.url.removesuffix("/v1")
        async with anthropic.AsyncAnthropic(base_url=base, api_key="test", max_retries=0) as client:
            with pytest.raises(anthropic.RateLimitError):
                await client.messages.create(
                    model="default", max_tokens=9, messages=[{"role": "user", "content": "go"}]
                )


async def test_tokens_of_all_calls_count_and_the_next_minute_is_another(door: Door) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(calls("look"), says("over", usage=Usage(50, 50)), says("later"))
    async with door.serving(model, as_tool(look), rates={"tokens": 100, "keys": {"key_1": {"tokens": 1000}}}) as served:
        await add_keys(served)
        a_minute(served)
        first = await post(served)
        await counted(served)
        second = await post(served)
        feature: Any = served.server.features.find("rates")
        feature._windows._clock = lambda: 1_000_021.0
        third = await post(served)

    assert [first[0], second[0], third[0]] == [200, 429, 200]
    assert second[1]["x-ratelimit-remaining-tokens"] == "0"


async def test_so_many_requests_at_a_time_and_no_more(door: Door) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        entered.set()
        await leave.wait()
        return "waited"

    model = ScriptedModel(calls("wait"), says("over"), says("later"))
    async with door.serving(model, as_tool(wait), rates={"runs": 1}) as served:
        await add_keys(served)
        async with soon():
            first = asyncio.create_task(post(served, stream=True))
            await entered.wait()
            second = await post(served)
            leave.set()
            status, _, _ = await first
        await counted(served)
        third = await post(served)

    assert [status, second[0], third[0]] == [200, 429, 200]
    assert (second[1]["retry-after"], "1 requests at a time" in second[2]) == ("1", True)


async def test_the_next_request_of_a_client_finds_the_place_of_the_one_before(door: Door) -> None:
    """Also where the catalog is slower than the client, which has the answer before its place is given back."""
    async with door.serving(ScriptedModel(says("one"), says("two")), rates={"runs": 1}) as served:
        await add_keys(served)
        feature: Any = served.server.features.find("rates")
        admit, release, is_refused = feature._windows.admit, feature._windows.release, asyncio.Event()

        async def told(*arguments: Any) -> Any:
            found = await admit(*arguments)
            if found.refused:
                is_refused.set()
            return found

        async def slow(slot: str) -> None:
            await is_refused.wait()
            await release(slot)

        feature._windows.admit, feature._windows.release = told, slow
        statuses = [(await post(served))[0] for _ in range(2)]
        is_refused.set()
        await counted(served)
    assert (statuses, feature._leaving) == ([200, 200], {})


async def test_a_websocket_counts_while_it_is_answering_a_message(door: Door) -> None:
    """So one that is open and idle keeps no other request out, and its own messages least of all."""
    message = {"type": "response.create", "model": "default", "input": "go"}
    async with door.serving(ScriptedModel(*[says("Hi.")] * 4), rates={"runs": 1, "requests": 4}) as served:
        await add_keys(served)
        a_minute(served)
        headers = {"authorization": "Bearer rk_a"}
        async with soon(), served.http.ws_connect(f"{served.url}/responses", headers=headers) as socket:
            ends = []
            for _ in range(2):
                await socket.send_json(message)
                while (said := await socket.receive_json())["type"] not in ("response.completed", "error"):
                    pass
                ends.append(said["type"])
                await counted(served)
                ends.append((await post(served))[0])
                await counted(served)
            await socket.send_json(message)
            refused = await socket.receive_json()

    assert ends == ["response.completed", 200, "response.completed", 200]
    assert (refused["status"], "4 requests a minute" in refused["error"]["message"]) == (429, True)


async def test_of_mcp_only_calls_of_tools_are_counted(door: Door) -> None:
    """A client that connects asks several things that ask no model."""
    hello = {"messages": [{"role": "user", "content": "go"}]}
    async with door.serving(ScriptedModel(says("one"), says("two")), rates={"requests": 2, "runs": 1}) as served:
        a_minute(served)
        async with mcp_client(door, "legacy") as mcp:
            listed = [one.name for one in (await mcp.list_tools()).tools]
            answers = [(await mcp.call_tool("chat", hello)).is_error for _ in range(2)]
            with pytest.raises(MCPError):
                await mcp.call_tool("chat", hello)
            await mcp.list_tools()
    assert (listed, answers) == (["chat"], [False, False])


async def test_what_asks_no_model_is_not_counted(door: Door) -> None:
    text = {"model": "default", "messages": [{"role": "user", "content": "go"}]}
    asked = [("messages/count_tokens", text), ("responses/input_tokens", {"model": "default", "input": "go"})]
    async with door.serving(ScriptedModel(says("Hi.")), rates={"requests": 1}) as served:
        await add_keys(served)
        a_minute(served)
        statuses = []
        for path, body in [*asked, ("render", text)]:
            headers = {"authorization": "Bearer rk_a"}
            async with soon(), served.http.post(f"{served.url}/{path}", json=body, headers=headers) as answer:
                statuses.append((answer.status, "x-ratelimit-limit-requests" in answer.headers))
        first, second = await post(served), await post(served)
    assert statuses == [(200, False)] * 3
    assert (first[0], second[0]) == (200, 429)


async def test_what_a_process_had_under_way_that_died_counts_for_a_minute() -> None:
    now = 1000.0
    catalog = MemoryCatalog()
    catalog.add_tables("rates", TABLES)
    windows, rate = Windows(catalog, lambda: now), Rate(runs=1)
    assert (await windows.admit("key:a", rate, "slot")).refused == ""
    assert (await windows.admit("key:a", rate, "other")).refused == "runs"
    now += LEASE - 1
    await windows.renew(["slot"])
    now += LEASE - 1
    assert (await windows.admit("key:a", rate, "other")).refused == "runs"
    now += 2
    assert (await windows.admit("key:a", rate, "other")).refused == ""


def test_a_rate_of_nothing_is_refused() -> None:
    for rates in ({"requests": 0}, {"keys": {"k": {"runs": -1}}}):
        with pytest.raises(BadConfig, match="it must be at least 1"):
            check_config(make_config({"model": "script:x", "rates": rates}))
