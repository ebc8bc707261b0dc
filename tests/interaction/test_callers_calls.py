"""Calls of the caller's tools, at every door: what goes out, when, and that it is never taken back."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.interaction.doors import Door
from tests.interaction.every_door import NAMES, ask, tool_of

from ronda import tool
from ronda.core.events import ModelFinished, ToolFinished
from ronda.providers.script import Call, Line, ScriptedModel, calls, says

ASK = tool_of("ask", q="string")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


@pytest.mark.parametrize("name", NAMES)
async def test_a_strict_call_goes_out_as_the_warning_says_it_was_repaired(door: Door, name: str, stream: bool) -> None:
    model = ScriptedModel(calls(Call("ask", '```json\n{"q": "a",}\n```')))

    async with door.serving(model) as served:
        heard = await ask(served, name, stream, [tool_of("ask", True, q="string")])

    assert [(called, json.loads(arguments)) for called, arguments in heard.calls] == [("ask", {"q": "a"})]
    assert heard.warnings == ["the arguments of 'ask' were repaired: fence, trailing_comma"]


@pytest.mark.parametrize("name", NAMES)
async def test_arguments_stream_as_they_arrive_where_the_server_has_tools_of_its_own(door: Door, name: str) -> None:
    mixed = calls(Call("lookup", {"q": "a"}), Call("ask", {"q": "why?"}), Call("ask", {"q": "when?"}))

    async with door.serving(ScriptedModel(mixed), lookup) as served:
        heard = await ask(served, name, True, [ASK])
        plain = await served.events

    assert heard.calls == [("ask", '{"q":"why?"}'), ("ask", '{"q":"when?"}')]
    assert heard.pieces == ['{"q":"', 'why?"}', '{"q":"', 'when?"}']
    assert heard.end == "tool_calls"
    assert [event.result.content for event in plain[0] if isinstance(event, ToolFinished)] == ["found a"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("own", [True, False])
async def test_a_cut_turn_that_calls_a_tool_of_the_callers_ends_with_length(
    door: Door, name: str, own: bool, stream: bool
) -> None:
    cut = Line(calls=(Call("lookup", {"q": "a"}), Call("ask", '{"q":"wh')) if own else (Call("ask", '{"q":"wh'),))
    model = ScriptedModel(Line(calls=cut.calls, stop="length"), says("never said"))

    async with door.serving(model, lookup) as served:
        heard = await ask(served, name, stream, [ASK])
        [events] = await served.events

    assert len(model.heard) == 1
    assert [event for event in events if isinstance(event, ToolFinished)] == []
    assert [called for called, _ in heard.calls] == ["ask"]
    assert heard.end == ("tool_calls" if name == "conversations" else "length")  # which has no other word for it


@pytest.mark.parametrize("name", NAMES)
async def test_a_turn_with_a_call_of_the_callers_is_not_asked_for_again_because_of_ours(
    door: Door, name: str, stream: bool
) -> None:
    mixed = calls(
        Call("lookup", "nonsense"), Call("nobody", "{}"), Call("ask", {"q": "why?"}), Call("lookup", {"q": "b"})
    )
    model = ScriptedModel(mixed, says("never said"))

    async with door.serving(model, lookup) as served:
        heard = await ask(served, name, stream, [ASK])
        [events] = await served.events

    assert len(model.heard) == 1
    assert [(called, json.loads(arguments)) for called, arguments in heard.calls] == [("ask", {"q": "why?"})]
    assert heard.end == "tool_calls"
    assert [event for event in events if isinstance(event, ToolFinished)] == []  # none of a turn that cannot be read


@pytest.mark.parametrize("name", NAMES)
async def test_strict_calls_wait_until_they_are_known_to_be_right(door: Door, name: str) -> None:
    wrong = calls(Call("ask", {"q": "why?", "more": 1}))
    model = ScriptedModel(calls(Call("ask", "nonsense")), wrong, calls(Call("ask", {"q": "why?"})))

    async with door.serving(model, lookup) as served:
        heard = await ask(served, name, True, [tool_of("ask", True, q="string")])

    assert [(called, json.loads(arguments)) for called, arguments in heard.calls] == [("ask", {"q": "why?"})]


@pytest.mark.parametrize("name", NAMES)
async def test_only_the_first_call_goes_out_where_only_the_first_counts(door: Door, name: str) -> None:
    both = calls(Call("lookup", {"q": "a"}), Call("ask", {"q": "why?"}))

    async with door.serving(ScriptedModel(both, says("done")), lookup, tool_calls="first") as served:
        heard = await ask(served, name, True, [ASK])

    assert (heard.calls, heard.pieces) == ([], [])
    assert heard.text == "done"


@pytest.mark.parametrize("name", NAMES)
async def test_out_of_time_the_callers_calls_go_out_and_ours_are_left(door: Door, name: str, stream: bool) -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return ""

    mixed = calls(Call("ask", {"q": "why?"}), Call("wait"))
    async with door.serving(ScriptedModel(mixed), wait, max_run_seconds=0.2) as served:
        heard = await ask(served, name, stream, [ASK])
        [events] = await served.events

    assert [called for called, _ in heard.calls] == ["ask"]
    assert heard.end == "tool_calls"
    [turn] = [event.turn for event in events if isinstance(event, ModelFinished)]
    assert len(turn.calls) == 2


# ---- obligations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("own", [True, False])
async def test_a_call_of_an_unknown_tool_does_not_count_where_one_is_required(
    door: Door, name: str, own: bool, stream: bool
) -> None:
    model = ScriptedModel(calls(Call("nobody", {"q": "x"})), calls(Call("ask", {"q": "why?"})))

    async with door.serving(model, *([lookup] if own else [])) as served:
        heard = await ask(served, name, stream, [ASK], choice="required")

    assert [called for called, _ in heard.calls] == ["ask"]
    assert len(model.heard) == 2
    assert [request.choice.mode for request in model.requests] == ["required", "required"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_model_that_only_calls_unknown_tools_ends_the_run_with_a_clear_error(
    door: Door, name: str, stream: bool
) -> None:
    model = ScriptedModel(*[calls(Call("nobody", {"q": "x"}))] * 3)

    async with door.serving(model) as served:
        heard = await ask(served, name, stream, [ASK], choice="required")

    assert len(model.heard) == 2
    assert heard.calls == []
    assert heard.end == "error"
    assert "only other tools were called: 'nobody'; it asks for 'ask'" in heard.error


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "ask"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "ask"}}]},
        },
    ],
)
async def test_a_call_of_another_tool_does_not_count_where_one_is_named(
    door: Door, own: bool, stream: bool, choice: object
) -> None:
    model = ScriptedModel(calls(Call("other", {"q": "x"})), calls(Call("ask", {"q": "why?"})))
    tools = [ASK, tool_of("other", q="string")]

    async with door.serving(model, *([lookup] if own else [])) as served:
        heard = await ask(served, "chat", stream, tools, choice=choice)

    assert heard.calls == [("ask", '{"q":"why?"}')]
    assert len(model.heard) == 2


async def test_a_call_that_is_not_known_is_not_shown_before_the_turn_is_over(door: Door) -> None:
    """Where the caller runs the loop it gets what the model wrote, also of tools that do not exist: but in one piece."""
    async with door.serving(ScriptedModel(calls(Call("nobody", {"q": "x"})))) as served:
        heard = await ask(served, "chat", True, [ASK])

    assert heard.calls == [("nobody", '{"q":"x"}')]
    assert heard.pieces == ['{"q":"x"}']
