"""Tools through the Messages door: the caller's, ours, both in one turn, the SDK's own runner, and which must be called."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic
import pytest
from anthropic import beta_async_tool
from tests.interaction.doors import Door, Json
from tests.server.messages_door import (
    HI,
    PICK,
    answer,
    asking,
    events,
    heard,
    post,
    result,
    said,
    says,
    text,
    use,
)

from ronda import tool
from ronda.core.events import CallDelta, ModelFinished, Preview, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Usage, user
from ronda.core.plan import AUTO, NONE, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.script import Call, Line, ScriptedModel, calls
from ronda.providers.script import says as line


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


# ---- the caller's ----------------------------------------------------------------------------------------------------


async def test_a_caller_s_calls_go_out_and_their_results_come_back(door: Door, stream: bool) -> None:
    asked = Line(text="Hm.", calls=(Call("pick", {"color": "red"}, "c1"), Call("pick", {"color": "blue"}, "c2")))
    model = ScriptedModel(asked, line("Done."))

    async with door.serving(model), asking(door) as claude:
        first = await answer(claude, stream=stream, tools=[PICK])
        back = heard(result("c1", "ok"), result("c2", "no such color", is_error=True), text("and?"))
        second = await answer(claude, HI, said(*first["content"]), back, stream=stream, tools=[PICK])

    uses = (use("c1", "pick", color="red"), use("c2", "pick", color="blue"))
    assert first == says(text("Hm."), *uses, stop="tool_use")
    assert second == says(text("Done."))
    assert model.heard[1] == [
        user("hi"),
        AssistantTurn(
            (Text("Hm."), ToolCall("c1", "pick", '{"color":"red"}'), ToolCall("c2", "pick", '{"color":"blue"}')),
            "tool_calls",
        ),
        ToolTurn((ToolResult("c1", "ok"), ToolResult("c2", "no such color", failed=True))),
        user("and?"),
    ]


async def test_what_a_tool_is_reaches_the_model(door: Door) -> None:
    model = ScriptedModel("ok")
    schema = {"type": "object", "properties": {}}

    async with door.serving(model), asking(door) as claude:
        await answer(claude, stream=False, tools=[{**PICK, "type": "custom"}, {"name": "stop", "input_schema": schema}])

    shown = [(spec.name, spec.description, json.loads(bytes(spec.parameters))) for spec in model.requests[0].tools]
    assert shown == [("pick", "Pick a color.", PICK["input_schema"]), ("stop", "", schema)]
    assert {spec.kind for spec in model.requests[0].tools} == {"caller"}


async def test_no_arguments_are_an_empty_object(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(Line(calls=(Call("stop", "", "c1"),)))), asking(door) as claude:
        message = await answer(claude, stream=stream, tools=[{"name": "stop", "input_schema": {"type": "object"}}])

    assert message == says(use("c1", "stop"), stop="tool_use")


async def test_arguments_that_are_no_json_are_an_object_all_the_same(door: Door) -> None:
    lines = (Line(calls=(Call("pick", '{"color": "red",}', "c1"),)), Line(calls=(Call("pick", "red!", "c2"),)))

    async with door.serving(ScriptedModel(*lines)), asking(door) as claude:
        mended = await answer(claude, stream=False, tools=[PICK])
        unreadable = await answer(claude, stream=False, tools=[PICK])

    assert mended["content"] == [use("c1", "pick", color="red")]
    assert unreadable["content"] == [use("c2", "pick", INVALID_JSON="red!")]


@pytest.mark.parametrize("written", ["red!", "[]", "5", '"red"', "null", " [1]"])
@pytest.mark.parametrize("server_runs_tools", [False, True], ids=["the caller's alone", "beside ours"])
async def test_arguments_that_cannot_become_an_object_are_one_in_a_stream_too(
    door: Door, written: str, server_runs_tools: bool
) -> None:
    asked = Line(calls=(Call("pick", written, "c1"), Call("pick", {"color": "red"}, "c2")))
    tools = [lookup] if server_runs_tools else []

    async with door.serving(ScriptedModel(asked, asked), *tools), asking(door) as claude:
        plain = await answer(claude, stream=False, tools=[PICK])
        streamed = await answer(claude, stream=True, tools=[PICK])

    for message in (plain, streamed):
        first, second = [block["id"] for block in message["content"]] if server_runs_tools else ["c1", "c2"]
        assert message["content"] == [use(first, "pick", INVALID_JSON=written), use(second, "pick", color="red")]


class AtOnce:
    """Writes two calls side by side, the name of the second in two pieces, and words between them."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        pieces: list[Preview] = [
            CallDelta(0, "c1", "pick", ""),
            CallDelta(0, "c1", "pick", '{"color":'),
            CallDelta(1, "c2", "pi", ""),
            CallDelta(1, "c2", "pick", '{"color"'),
            CallDelta(0, "c1", "pick", '"red"}'),
            TextDelta("Well."),
            CallDelta(1, "c2", "pick", ':"blue"}'),
        ]
        if request.stream:
            for piece in pieces:
                show([piece])
        both = (ToolCall("c1", "pick", '{"color":"red"}'), ToolCall("c2", "pick", '{"color":"blue"}'))
        return ModelFinished(AssistantTurn((*both, Text("Well.")), "tool_calls"), Usage(10, 5))


async def test_calls_that_are_written_at_once_do_not_get_into_each_other(door: Door, stream: bool) -> None:
    async with door.serving(AtOnce()), asking(door) as claude:
        message = await answer(claude, stream=stream, tools=[PICK])

    both = (use("c1", "pick", color="red"), use("c2", "pick", color="blue"))
    assert message == says(*both, text("Well."), stop="tool_use")


async def test_blocks_of_calls_written_at_once_are_each_begun_and_ended_once(door: Door) -> None:
    async with door.serving(AtOnce()) as served:
        found = events(await post(served, {"messages": [HI], "tools": [PICK], "stream": True}))

    marks = [(name.removeprefix("content_block_"), data["index"]) for name, data in found if "index" in data]
    steps = [mark for at, mark in enumerate(marks) if mark[0] != "delta" or marks[at - 1] != mark]
    assert steps == [
        ("start", 0),
        ("delta", 0),
        ("start", 1),
        ("delta", 1),
        ("delta", 0),
        ("stop", 0),
        ("start", 2),
        ("delta", 2),
        ("delta", 1),
        ("stop", 1),
        ("stop", 2),
    ]


# ---- theirs and ours -------------------------------------------------------------------------------------------------

MIXED = Line(
    text="Both.",
    calls=(
        Call("lookup", {"q": "a"}, "c1"),
        Call("pick", {"color": "red"}, "c2"),
        Call("lookup", {"q": "b"}, "c3"),
    ),
)


async def test_of_a_mixed_turn_ours_run_and_theirs_go_out(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, line("Done."))

    async with door.serving(model, lookup), asking(door) as claude:
        first = await answer(claude, stream=stream, tools=[PICK])
        run_id = first["content"][-1]["id"]
        back = heard(result(run_id, "picked"))
        second = await answer(claude, HI, said(*first["content"]), back, stream=stream, tools=[PICK])

    assert re.fullmatch("toolu_[A-Za-z0-9]{9}", run_id)
    assert first == says(text("Both."), use(run_id, "pick", color="red"), stop="tool_use")
    assert second == says(text("Done."))
    assert model.heard[1][1:] == [
        AssistantTurn(
            (
                Text("Both."),
                ToolCall("c1", "lookup", '{"q":"a"}'),
                ToolCall("c2", "pick", '{"color":"red"}'),
                ToolCall("c3", "lookup", '{"q":"b"}'),
            ),
            "tool_calls",
        ),
        ToolTurn((ToolResult("c1", "found a"), ToolResult("c2", "picked"), ToolResult("c3", "found b"))),
    ]


async def test_a_caller_s_tool_with_the_name_of_ours_is_refused(door: Door) -> None:
    async with door.serving(ScriptedModel(), lookup), asking(door) as claude:
        with pytest.raises(anthropic.BadRequestError, match="'lookup' conflicts"):
            await answer(claude, stream=False, tools=[{**PICK, "name": "lookup"}])


# ---- the SDK's own loop ----------------------------------------------------------------------------------------------


@beta_async_tool
async def paint(color: str) -> str:
    """Paint it.

    Args:
        color: Which color.
    """
    return f"now {color}"


@pytest.mark.parametrize("thread", [None, False], ids=["threads", "no threads"])
async def test_the_sdk_s_tool_runner_runs_its_tools(door: Door, thread: Any) -> None:
    """It begins by asking for a thread, and goes on without one where there is none to be had."""
    asked = Line(calls=(Call("paint", {"color": "red"}, "c1"), Call("paint", {"color": "blue"}, "c2")))
    model = ScriptedModel(asked, line("Painted."))

    async with door.serving(model, lookup), asking(door) as claude:
        more: Any = {} if thread is None else {"thread": thread}
        runner = claude.beta.messages.tool_runner(
            model="default", max_tokens=99, messages=[{"role": "user", "content": "go"}], tools=[paint], **more
        )
        last = await runner.until_done()

    assert [block.to_dict() for block in last.content] == [text("Painted.")]
    assert model.heard[1][-1] == ToolTurn((ToolResult("c1", "now red"), ToolResult("c2", "now blue")))
    assert len(model.heard) == 2


async def test_the_sdk_s_tool_runner_streams(door: Door) -> None:
    model = ScriptedModel(Line(text="So.", calls=(Call("paint", {"color": "red"}, "c1"),)), line("Painted."))
    seen: list[str] = []

    async with door.serving(model), asking(door) as claude:
        runner = claude.beta.messages.tool_runner(
            model="default", max_tokens=99, messages=[{"role": "user", "content": "go"}], tools=[paint], stream=True
        )
        async for stream in runner:
            seen += [event.text async for event in stream if event.type == "text"]

    assert "".join(seen) == "So.Painted."
    assert model.heard[1][-1] == ToolTurn((ToolResult("c1", "now red"),))


# ---- which must be called --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "means"),
    [
        ({"type": "auto"}, AUTO),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "pick"}, ToolChoice("required", ("pick",), named=True)),
        ({"type": "none"}, NONE),
    ],
)
async def test_each_tool_choice_reaches_the_model(door: Door, choice: Json, means: ToolChoice) -> None:
    model = ScriptedModel(calls("pick", color="red") if means.mode != "none" else line("no"))

    async with door.serving(model), asking(door) as claude:
        await answer(claude, stream=False, tools=[PICK], tool_choice=choice)

    assert model.requests[0].choice == means


async def test_any_is_kept_to_by_asking_again(door: Door, stream: bool) -> None:
    model = ScriptedModel("I'd rather not.", calls(Call("pick", {"color": "red"}, "c1")))

    async with door.serving(model), asking(door) as claude:
        message = await answer(claude, stream=stream, tools=[PICK], tool_choice={"type": "any"})

    assert message["stop_reason"] == "tool_use"
    assert message["content"][-1] == use("c1", "pick", color="red")


async def test_one_call_at_a_time_is_asked_for(door: Door) -> None:
    model = ScriptedModel("ok")

    async with door.serving(model), asking(door) as claude:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        await answer(claude, stream=False, tools=[PICK], tool_choice=choice)

    assert model.requests[0].options.parallel_tool_calls is False


# ---- Anthropic's own -------------------------------------------------------------------------------------------------


@tool
async def search_the_web(query: str) -> str:
    """Search."""
    return f"about {query}"


SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}


async def test_a_tool_of_anthropic_s_is_ours_where_this_server_has_one(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls("search_the_web", query="x"), line("There."))

    async with door.serving(model, search_the_web), asking(door) as claude:
        choice = {"type": "tool", "name": "web_search"}
        message = await answer(claude, stream=stream, tools=[SEARCH], tool_choice=choice)

    assert message == says(text("There."), input=20, output=10)
    assert model.requests[0].choice == ToolChoice("required", ("search_the_web",), named=True)
    assert [spec.name for spec in model.requests[0].tools] == ["search_the_web"]


@pytest.mark.parametrize(
    "declared",
    [
        SEARCH,
        {"type": "web_search_20260318", "name": "web_search"},
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "code_execution_20260521", "name": "code_execution"},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        {"name": "web_search"},
    ],
    ids=lambda declared: declared.get("type", "by name alone"),
)
async def test_a_tool_of_anthropic_s_that_nobody_has_is_refused_by_name(door: Door, declared: Json) -> None:
    model = ScriptedModel()

    async with door.serving(model) as served:
        raw = await post(served, {"messages": [HI], "tools": [declared]})

    kind = declared.get("type", "web_search")
    assert raw.status == 400
    assert raw.json["error"]["message"].startswith(f"'{kind}' cannot be used here: this server has no ")
    assert model.heard == []


async def test_settings_of_a_tool_that_ours_would_not_keep_to_are_refused(door: Door) -> None:
    async with door.serving(ScriptedModel(), search_the_web) as served:
        raw = await post(served, {"messages": [HI], "tools": [{**SEARCH, "max_uses": 3}]})

    assert raw.status == 400
    assert "'tools[0].max_uses'" in raw.json["error"]["message"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"input_examples": [{"color": "red"}]}, "tools[0].input_examples"),
        ({"allowed_callers": ["code_execution_20260120"]}, "tools[0].allowed_callers"),
    ],
)
async def test_what_a_tool_asks_of_anthropic_alone_is_refused_elsewhere(door: Door, more: Json, field: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        raw = await post(served, {"messages": [HI], "tools": [{**PICK, **more}]})

    assert raw.status == 400
    assert f"'{field}'" in raw.json["error"]["message"]


async def test_what_a_tool_says_that_changes_nothing_elsewhere_is_taken(door: Door) -> None:
    model = ScriptedModel("ok")
    more = {
        "cache_control": {"type": "ephemeral"},
        "eager_input_streaming": True,
        "allowed_callers": ["direct"],
    }

    async with door.serving(model) as served:
        raw = await post(served, {"messages": [HI], "tools": [{**PICK, **more}]})

    assert raw.status == 200
    assert [(spec.name, spec.native_api) for spec in model.requests[0].tools] == [("pick", "anthropic")]
    assert isinstance(model.requests[0].tools[0], ToolSpec)
