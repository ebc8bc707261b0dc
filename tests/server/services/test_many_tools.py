"""More tools than a model should be shown: it gets the tool that finds them, and those that it found."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from tests.interaction.doors import Door
from tests.timeouts import soon

from ronda import tool
from ronda.drive import Tool
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.function import as_tool


def numbered(count: int) -> list[Tool]:
    def make(at: int) -> Tool:
        @tool(name=f"paint_{at}")
        def paint(color: str) -> str:
            """Paint a wall."""
            return f"{color} {at}"

        return as_tool(paint)

    return [make(at) for at in range(count)]


@tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sun in {city}"


def names(request: Any) -> list[str]:
    return [spec.name for spec in request.tools]


FINDS = calls(Call("find_tools", {"query": "weather in a city"}))
ASKS = calls(Call("weather", {"city": "Rome"}))


async def test_a_model_finds_a_tool_and_calls_it(door: Door, stream: bool) -> None:
    model = ScriptedModel(FINDS, ASKS, says("sunny"))
    async with door.serving(model, *numbered(80), weather) as served:
        answer = await served.ask(stream=stream)
    assert answer.content == "sunny"
    assert names(model.requests[0]) == ["find_tools"]
    assert names(model.requests[1])[:2] == ["find_tools", "weather"]
    assert names(model.requests[2]) == names(model.requests[1])
    assert answer.records[1]["result_content"] == "sun in Rome"


async def test_few_tools_are_shown_as_they_are(door: Door) -> None:
    model = ScriptedModel(says("hi"), says("hi"))
    tools = numbered(3)
    async with door.serving(model, *tools) as served:
        await served.ask(stream=False)
    async with door.serving(model, *tools, max_offered_tools=2) as served:
        await served.ask(stream=False)
    assert names(model.requests[0]) == ["paint_0", "paint_1", "paint_2"]
    assert names(model.requests[1]) == ["find_tools"]


async def test_what_is_found_stays_behind_what_was_shown(door: Door) -> None:
    model = ScriptedModel(calls(Call("find_tools", {"query": "paint", "limit": 2})), FINDS, says("done"), says("again"))
    async with door.serving(model, *numbered(80), weather) as served:
        await served.ask(stream=False)
        first, second, third = [names(request) for request in model.requests]
        assert second[: len(first)] == first
        assert third[: len(second)] == second
        assert "weather" in third
        await served.ask(stream=False)
    assert names(model.requests[3]) == first  # another run begins as every run does


async def test_a_conversation_that_goes_on_is_shown_what_it_has_found(door: Door) -> None:
    two = calls(Call("find_tools", {"query": "paint a wall", "limit": 2}))
    model = ScriptedModel(two, FINDS, ASKS, says("sunny"), says("still sunny"))
    async with door.serving(model, *numbered(80), weather) as served:
        await served.ask("Rome?", stream=False, session_id="talk")
        await served.ask("And now?", stream=False, session_id="talk")
    shown = [names(request) for request in model.requests]
    assert len(shown[2]) > len(shown[1]) == 3
    assert shown[4] == shown[3] == shown[2]  # in the same order: a provider's cache holds


async def test_a_tool_that_is_chosen_is_shown(door: Door) -> None:
    model = ScriptedModel(ASKS, says("sunny"))
    async with door.serving(model, *numbered(80), weather) as served:
        choice: Any = {"type": "function", "function": {"name": "weather"}}
        await served.ask(stream=False, tool_choice=choice)
    assert names(model.requests[0]) == ["find_tools", "weather"]


async def test_a_callers_tools_are_its_own_to_hold_back(door: Door) -> None:
    model = ScriptedModel(says("hi"))
    declared: Any = [{"type": "function", "function": {"name": f"mine_{at}"}} for at in range(80)]
    async with door.serving(model) as served:
        await served.ask(stream=False, tools=declared)
    assert len(names(model.requests[0])) == 80


DEFERRED = {"type": "function", "name": "weather", "description": "Tell the weather of a city.", "defer_loading": True}
PLAIN = {"type": "function", "name": "plain", "description": "Paint."}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


async def test_responses_defer_and_search(door: Door, stream: bool) -> None:
    model = ScriptedModel(FINDS, ASKS, says("sunny"))
    tools: Any = [{**DEFERRED, "parameters": SCHEMA}, PLAIN, {"type": "tool_search"}]
    async with door.serving(model) as served, soon():
        ask = served.client().responses
        if stream:
            async with ask.stream(model="default", input="go", tools=tools) as events:
                kinds = [event.type async for event in events]
                response: Any = await events.get_final_response()
            assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 3
        else:
            response = await ask.create(model="default", input="go", tools=tools)
        search, found, call = response.output
        history: Any = [{"role": "user", "content": "go"}, *[item.to_dict() for item in response.output]]
        history.append({"type": "function_call_output", "call_id": call.call_id, "output": "sun"})
        second = await ask.create(model="default", input=history, tools=tools, store=False)
    assert names(model.requests[0]) == ["find_tools", "plain"]
    assert names(model.requests[1]) == names(model.requests[2]) == ["find_tools", "plain", "weather"]
    assert (search.type, search.execution, search.status) == ("tool_search_call", "server", "completed")
    assert search.arguments == {"query": "weather in a city"}
    assert (found.type, found.execution, found.status) == ("tool_search_output", "server", "completed")
    [shown] = found.to_dict()["tools"]
    assert shown == {**DEFERRED, "parameters": SCHEMA, "strict": False}
    assert (call.name, call.arguments) == ("weather", '{"city":"Rome"}')
    assert second.output_text == "sunny"


@pytest.mark.parametrize("kind", ["tool_search_tool_bm25_20251119", "tool_search_tool_regex_20251119"])
async def test_messages_defer_and_search(door: Door, kind: str, stream: bool) -> None:
    model = ScriptedModel(FINDS, ASKS, says("sunny"))
    tools: Any = [
        {"type": kind, "name": kind.removesuffix("_20251119")},
        {"name": "weather", "description": "Tell the weather.", "input_schema": SCHEMA, "defer_loading": True},
        {"name": "plain", "input_schema": {"type": "object"}},
    ]
    async with door.serving(model) as served, soon():
        client = anthropic.AsyncAnthropic(base_url=served.url.removesuffix("/v1"), api_key="test", max_retries=0)
        fields: Any = {
            "model": "default",
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "go"}],
            "tools": tools,
        }
        async with client:
            if stream:
                async with client.messages.stream(**fields) as events:
                    answer: Any = await events.get_final_message()
            else:
                answer = await client.messages.create(**fields)
            search, found, call = answer.content
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "sun"}
            fields["messages"] += [
                {"role": "assistant", "content": answer.content},
                {"role": "user", "content": [result]},
            ]
            second = await client.messages.create(**fields)
    assert names(model.requests[0]) == ["find_tools", "plain"]
    assert names(model.requests[1]) == names(model.requests[2]) == ["find_tools", "plain", "weather"]
    assert (search.type, search.name) == ("server_tool_use", "tool_search_tool_bm25")
    assert search.input == {"query": "weather in a city"}
    assert (found.type, found.tool_use_id) == ("tool_search_tool_result", search.id)
    assert found.content.to_dict() == {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "weather"}],
    }
    assert (call.type, call.name) == ("tool_use", "weather")
    assert second.content[0].text == "sunny"


async def test_a_result_of_a_tool_that_was_found_comes_back_to_a_model_that_is_shown_it(door: Door) -> None:
    """Also where this process does not remember the search: the conversation has a call of it."""
    model = ScriptedModel(says("sunny"))
    tools: Any = [{"type": "tool_search"}, {**DEFERRED, "parameters": SCHEMA}, {**DEFERRED, "name": "other"}, PLAIN]
    history: Any = [
        {"role": "user", "content": "Rome?"},
        {"type": "function_call", "call_id": "call_of_theirs", "name": "weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "call_of_theirs", "output": "sun"},
    ]
    async with door.serving(model) as served, soon():
        await served.client().responses.create(model="default", input=history, tools=tools, store=False)
    assert names(model.requests[0]) == ["find_tools", "plain", "weather"]
