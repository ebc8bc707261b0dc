"""Clients from before there were tools: `functions`, `function_call` and messages of the role "function"."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Raw, Served, user
from tests.interaction.upstreams import Upstream, call, completes

from ronda import tool
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn
from ronda.core.parts import user as says_user
from ronda.testing import Call, ScriptedModel, calls, says

WEATHER: Json = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALLED: Json = {
    "role": "assistant",
    "content": None,
    "function_call": {"name": "weather", "arguments": '{"city":"Rome"}'},
}
RESULT: Json = {"role": "function", "name": "weather", "content": "sunny"}


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def fold(answer: Raw) -> tuple[Json, str]:
    """The message and the finish reason, as clients of that time added them up."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        choice = answer.json["choices"][0]
        return {key: value for key, value in choice["message"].items() if value is not None}, choice["finish_reason"]
    message: Json = {}
    reason = ""
    for chunk in answer.chunks:
        for choice in chunk["choices"]:
            for name, value in choice["delta"].items():
                if isinstance(value, dict):
                    grown = message.setdefault(name, {})
                    for key, piece in value.items():
                        grown[key] = grown.get(key, "") + piece
                elif value:
                    message[name] = message.get(name, "") + value
            reason = choice["finish_reason"] or reason
    return message, reason


async def ask(served: Served, messages: list[Json], *, stream: bool, **request: Any) -> tuple[Json, str]:
    answer = await served.post({"messages": messages, "stream": stream, **request})
    assert answer.status == 200, answer.body
    return fold(answer)


async def test_a_function_is_called_in_the_old_form(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("weather", {"city": "Rome"}, "c1")))

    async with door.serving(model) as served:
        message, reason = await ask(served, [user("go")], stream=stream, functions=[WEATHER])

    assert message == {"role": "assistant", "function_call": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    assert reason == "function_call"
    assert [spec.name for spec in model.requests[0].tools] == ["weather"]
    assert model.requests[0].options.parallel_tool_calls is False


async def test_one_answer_has_one_function_call_whatever_the_model_asks_for(door: Door, stream: bool) -> None:
    two = calls(Call("weather", {"city": "Rome"}, "c1"), Call("weather", {"city": "Oslo"}, "c2"))

    async with door.serving(ScriptedModel(two)) as served:
        message, reason = await ask(served, [user("go")], stream=stream, functions=[WEATHER])

    assert (message["function_call"]["arguments"], reason) == ('{"city":"Rome"}', "function_call")


async def test_results_of_functions_are_read_as_results_of_their_calls(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Sunny."))

    async with door.serving(model) as served:
        # Two of the same name: each result is the one of the call before it. No functions are declared any more.
        message, reason = await ask(
            served, [user("go"), CALLED, RESULT, CALLED, {**RESULT, "content": None}], stream=stream
        )

    assert (message["content"], reason) == ("Sunny.", "stop")
    assert model.heard[0] == [
        says_user("go"),
        AssistantTurn((ToolCall("function_call_1", "weather", '{"city":"Rome"}'),), "tool_calls"),
        ToolTurn((ToolResult("function_call_1", "sunny"),)),
        AssistantTurn((ToolCall("function_call_3", "weather", '{"city":"Rome"}'),), "tool_calls"),
        ToolTurn((ToolResult("function_call_3", ""),)),
    ]


async def test_an_upstream_gets_tools_and_never_the_old_form(door: Door) -> None:
    called = {**CALLED, "mood": "Rome, then."}  # the message is kept as it came, but for the call
    extra = {**WEATHER, "x-hint": 1}

    async with (
        Upstream(completes(None, call("weather", city="Oslo"))) as upstream,
        door.serving(upstream.url) as served,
    ):
        await ask(
            served,
            [user("go"), called, RESULT],
            stream=False,
            functions=[extra],
            function_call={"name": "weather"},
        )

    sent = upstream.requests[0]
    assert sent["tools"] == [{"type": "function", "function": extra}]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert sent["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "mood": "Rome, then.",
            "tool_calls": [
                {
                    "id": "function_call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "function_call_1", "content": "sunny"},
    ]
    assert 'function_call":' not in json.dumps(sent)
    assert "functions" not in sent


async def test_our_tools_run_beside_functions_and_their_rounds_are_found_again(door: Door, stream: bool) -> None:
    model = ScriptedModel(
        calls(Call("lookup", {"q": "a"}, "c1")), calls(Call("weather", {"city": "Rome"}, "c2")), says("Sunny.")
    )

    async with door.serving(model, lookup) as served:
        message, reason = await ask(served, [user("go")], stream=stream, functions=[WEATHER])
        await ask(served, [user("go"), message, RESULT], stream=stream, functions=[WEATHER])

    assert reason == "function_call"
    assert message["function_call"]["name"] == "weather"
    assert model.heard[2] == [
        says_user("go"),
        AssistantTurn((ToolCall("c1", "lookup", '{"q":"a"}'),), "tool_calls"),
        ToolTurn((ToolResult("c1", "found a"),)),
        AssistantTurn((ToolCall("c2", "weather", '{"city":"Rome"}'),), "tool_calls"),
        ToolTurn((ToolResult("c2", "sunny"),)),
    ]


async def test_a_session_goes_on_with_the_result_of_a_function(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("weather", {"city": "Rome"}, "c1")), says("Sunny."))

    async with door.serving(model) as served:
        await ask(served, [user("go")], stream=stream, functions=[WEATHER], session_id="s")
        message, _ = await ask(served, [user("go"), CALLED, RESULT], stream=stream, functions=[WEATHER], session_id="s")

    assert message["content"] == "Sunny."
    assert [type(turn).__name__ for turn in model.heard[1]] == ["UserTurn", "AssistantTurn", "ToolTurn"]


async def test_the_official_sdk_reads_the_old_form(door: Door) -> None:
    model = ScriptedModel(
        calls(Call("weather", {"city": "Rome"}, "c1")), calls(Call("weather", {"city": "Oslo"}, "c2"))
    )

    async with door.serving(model) as served:
        create: Any = served.client().chat.completions.create
        answer = await create(model="default", messages=[user("go")], functions=[WEATHER], function_call="auto")
        stream = await create(
            model="default",
            messages=[user("go"), answer.choices[0].message, RESULT],
            functions=[WEATHER],
            stream=True,
        )
        deltas = [chunk.choices[0].delta async for chunk in stream if chunk.choices]

    assert answer.choices[0].finish_reason == "function_call"
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.function_call.to_dict() == {"name": "weather", "arguments": '{"city":"Rome"}'}
    pieces = [delta.function_call for delta in deltas if delta.function_call is not None]
    assert (pieces[0].name, "".join(piece.arguments for piece in pieces)) == ("weather", '{"city":"Oslo"}')


@pytest.mark.parametrize(
    ("request_fields", "param"),
    {
        "beside tools": ({"functions": [WEATHER], "tools": [{"type": "function", "function": WEATHER}]}, "functions"),
        "beside tool_choice": ({"functions": [WEATHER], "tool_choice": "auto"}, "tool_choice"),
        "a call without functions": ({"function_call": "auto"}, "function_call"),
        "a word that is none": ({"functions": [WEATHER], "function_call": "required"}, "function_call"),
        "a function that is not there": ({"functions": [WEATHER], "function_call": {"name": "x"}}, "function_call"),
        "twice": ({"functions": [WEATHER, WEATHER]}, "functions[1]"),
        "without a name": ({"functions": [{}]}, "functions[0].name"),
        "no list": ({"functions": WEATHER}, "functions"),
        "a result without a name": ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].name"),
        "a call without a name": (
            {"messages": [{"role": "assistant", "function_call": {"arguments": "{}"}}]},
            "messages[0].function_call",
        ),
        "calls in both forms": (
            {"messages": [{**CALLED, "tool_calls": [{"id": "c", "function": {"name": "weather"}}]}]},
            "messages[0].function_call",
        ),
    }.values(),
)
async def test_what_makes_no_sense_is_refused_by_the_callers_names(
    door: Door, request_fields: Json, param: str
) -> None:
    async with door.serving(ScriptedModel()) as served:
        answer = await served.post({"messages": [user("go")], **request_fields})

    assert (answer.status, answer.error["param"]) == (400, param)
