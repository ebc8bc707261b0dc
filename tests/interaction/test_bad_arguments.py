"""What a model writes as arguments is read where it can only mean one thing; never run where it cannot, and never as {}."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.interaction.doors import Door

from ronda import Agent, invoke_agent, tool
from ronda.core.events import Event, ModelFinished
from ronda.core.parts import ToolResult, ToolTurn
from ronda.errors import LimitExceeded, RunEnded
from ronda.providers.script import Call, Line, ScriptedModel, calls, says

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@tool
async def find(q: str) -> str:
    """Find something."""
    ran.append(q)
    return f"found {q}"


@tool
async def ping() -> str:
    """Need nothing."""
    ran.append("ping")
    return "pong"


REPAIRED: dict[str, tuple[str, list[str]]] = {
    "fence": ('```json\n{"q": "x"}\n```', ["fence"]),
    "fence without a language": ('```\n{"q": "x"}\n```', ["fence"]),
    "trailing comma": ('{"q": "x",}', ["trailing_comma"]),
    "prose around": ('Sure! {"q": "x"} Hope that helps.', ["balanced"]),
    "fence and comma": ('```json\n{"q": "x",}\n```', ["fence", "trailing_comma"]),
    "prose and comma": ('Here: {"q": "x",}', ["balanced", "trailing_comma"]),
}


@pytest.mark.parametrize(("written", "repairs"), REPAIRED.values(), ids=REPAIRED.keys())
def test_what_can_only_mean_one_thing_is_read_and_recorded(written: str, repairs: list[str]) -> None:
    seen: list[Event] = []
    model = ScriptedModel(calls(Call("find", written, "c1")), says("done"))

    assert invoke_agent(Agent(model=model, tools=[find]), "go", on_event=seen.append) == "done"

    assert ran == ["x"]
    asked = next(event for event in seen if isinstance(event, ModelFinished)).turn.calls[0]
    assert (asked.arguments, list(asked.repairs), asked.as_written) == ('{"q":"x"}', repairs, written)


@pytest.mark.parametrize(("written", "repairs"), REPAIRED.values(), ids=REPAIRED.keys())
async def test_the_caller_is_told_what_was_repaired(door: Door, stream: bool, written: str, repairs: list[str]) -> None:
    async with door.serving(ScriptedModel(calls(Call("find", written, "c1")), says("done")), find) as served:
        said = await served.ask(stream=stream)

    assert said.content == "done"
    assert said.warnings == [f"the arguments of 'find' were repaired: {', '.join(repairs)}"]
    assert [record["arguments"] for record in said.records] == ['{"q":"x"}']


UNREADABLE = ["not json at all", '{"q": "x', '["q"]', '"x"', "42", "null", "", "  ", '{"q": "x"} {"q": "y"}']


@pytest.mark.parametrize("written", UNREADABLE)
def test_what_cannot_be_read_goes_back_as_an_error_and_never_as_nothing(written: str) -> None:
    model = ScriptedModel(calls(Call("find", written, "c1")), says("sorry"))

    assert invoke_agent(Agent(model=model, tools=[find]), "go") == "sorry"

    assert ran == []
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    [result] = turn.results
    assert (result.call_id, result.failed) == ("c1", True)
    assert result.content.startswith("Error: Invalid JSON in tool arguments: ")


@pytest.mark.parametrize("written", ["", "  "])
def test_nothing_is_enough_where_nothing_is_needed(written: str) -> None:
    model = ScriptedModel(calls(Call("ping", written, "c1")), says("done"))

    assert invoke_agent(Agent(model=model, tools=[ping]), "go") == "done"
    assert ran == ["ping"]


@pytest.mark.parametrize("arguments", [{}, {"q": 5}, {"q": None}, {"other": "x"}, {"q": ["x"]}])
async def test_arguments_that_do_not_fit_the_schema_go_back_as_an_error(
    door: Door, stream: bool, arguments: dict[str, Any]
) -> None:
    model = ScriptedModel(calls(Call("find", arguments, "c1")), says("sorry"))

    async with door.serving(model, find) as served:
        said = await served.ask(stream=stream)

    assert said.content == "sorry"
    assert ran == []
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    [result] = turn.results
    assert result.failed
    assert result.content.startswith("Error: Tool 'find' failed: the arguments do not fit: ")


def test_one_unreadable_call_holds_back_its_siblings() -> None:
    both = calls(Call("find", {"q": "x"}, "c1"), Call("find", "garbage", "c2"))
    model = ScriptedModel(both, says("sorry"))

    assert invoke_agent(Agent(model=model, tools=[find]), "go") == "sorry"

    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    assert [(result.call_id, result.failed) for result in turn.results] == [("c1", True), ("c2", True)]
    assert ran == []


async def test_a_model_that_keeps_writing_garbage_is_stopped(door: Door, stream: bool) -> None:
    garbage = [calls(Call("find", "garbage", f"c{n}")) for n in range(9)]
    model = ScriptedModel(*garbage)

    async with door.serving(model, find) as served:
        said = await served.ask(stream=stream)

    assert said.limit == "unreadable_calls"
    assert said.finish_reason == "stop"
    assert ran == []


def test_a_model_that_keeps_writing_garbage_is_an_error_in_the_library() -> None:
    model = ScriptedModel(*[calls(Call("find", "garbage", f"c{n}")) for n in range(9)])

    with pytest.raises(LimitExceeded) as raised:
        invoke_agent(Agent(model=model, tools=[find]), "go")

    assert len(model.heard) == 4
    assert isinstance(raised.value.messages[-1], ToolTurn)


# ---- a turn that was cut ---------------------------------------------------------------------------------------------


def cut(n: int, stop: Any = "length") -> Line:
    return Line(calls=(Call("find", {"q": "x"}, f"c{n}"), Call("find", '{"q": "y', f"d{n}")), stop=stop)


@pytest.mark.parametrize("stop", ["length", "content_filter"])
async def test_a_turn_that_was_cut_runs_none_of_its_calls(door: Door, stream: bool, stop: str) -> None:
    model = ScriptedModel(cut(0, stop), says("shorter"))

    async with door.serving(model, find) as served:
        said = await served.ask(stream=stream)

    assert (said.content, said.finish_reason, said.records, ran) == ("shorter", "stop", [], [])
    text = "Error: not run: your turn was cut off before it was complete. Ask again, more briefly."
    assert model.heard[1][-1] == ToolTurn((ToolResult("c0", text, failed=True), ToolResult("d0", text, failed=True)))


async def test_a_turn_that_is_cut_is_asked_for_again_three_times_at_most(door: Door, stream: bool) -> None:
    model = ScriptedModel(*[cut(n) for n in range(9)])

    async with door.serving(model, find) as served:
        said = await served.ask(stream=stream)
        [end] = await served.ends

    assert len(model.heard) == 4
    assert (said.finish_reason, ran, end.reason) == ("length", [], "length")


def test_three_cut_turns_and_a_whole_one_are_an_answer() -> None:
    model = ScriptedModel(*[cut(n) for n in range(3)], calls(Call("find", {"q": "x"}, "w")), says("done"))

    assert invoke_agent(Agent(model=model, tools=[find]), "go") == "done"
    assert ran == ["x"]


def test_cut_turns_are_counted_in_a_row() -> None:
    whole = [calls(Call("find", {"q": str(n)}, f"w{n}")) for n in range(3)]
    lines = [cut(0), cut(1), whole[0], cut(2), cut(3), whole[1], cut(4), cut(5), whole[2], says("done")]

    assert invoke_agent(Agent(model=ScriptedModel(*lines), tools=[find]), "go", max_iterations=20) == "done"
    assert ran == ["0", "1", "2"]


def test_the_conversation_of_cut_turns_has_no_orphans() -> None:
    model = ScriptedModel(*[cut(n) for n in range(4)])
    kept: list[Any] = []
    try:
        invoke_agent(Agent(model=model, tools=[find]), "go", on_event=kept.append)
    except RunEnded as ended:
        kept = ended.messages
    assert ran == []


async def test_a_text_cut_by_length_is_an_answer_cut_by_length(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("Once upon a", stop="length")), find) as served:
        said = await served.ask(stream=stream)

    assert (said.content, said.finish_reason) == ("Once upon a", "length")


async def test_in_the_client_side_flow_a_cut_turn_says_length(door: Door, stream: bool) -> None:
    from tests.interaction.doors import declared

    async with door.serving(ScriptedModel(Line(calls=(Call("ask", '{"q": "y', "c1"),), stop="length"))) as served:
        said = await served.ask(stream=stream, tools=[declared("ask", q="string")])

    assert (said.calls, said.finish_reason) == ([("c1", "ask", '{"q": "y')], "length")


@pytest.mark.parametrize("stream", [False, True])
async def test_no_depth_of_arguments_breaks_an_answer(door: Door, stream: bool) -> None:
    """How deep is too deep depends on who reads: the loop may take what a writer then cannot."""
    depths = [100, *range(900, 1000, 4), 100_000]
    lines: list[Line] = []
    for depth in depths:
        lines += [calls(Call("find", '{"q":' + "[" * depth + "]" * depth + "}", "c1")), says("sorry")]
    async with door.serving(ScriptedModel(*lines), find) as served:
        said = [await served.ask(stream=stream) for _ in depths]

    assert [one.content for one in said] == ["sorry"] * len(depths)


# ---- null for what is left out -------------------------------------------------------------------------------------------


class Place(msgspec.Struct):
    city: str
    zip: str = "?"


@tool
async def forecast(place: Place, days: int = 3, note: str | None = "none given") -> str:
    """The weather of some days."""
    return f"{place.city} {place.zip} {days} {note}"


async def test_null_for_an_optional_argument_that_may_not_be_null_is_left_out(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls("forecast", place={"city": "Rome", "zip": None}, days=None, note=None), says("Sunny."))

    async with door.serving(model, forecast) as served:
        said = await served.ask("go", stream=stream)

    assert said.records[0]["result_content"] == "Rome ? 3 None"
    assert said.warnings == []


async def test_null_for_a_required_argument_is_the_model_s_mistake(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(calls("forecast", place=None), says("Sorry.")), forecast) as served:
        said = await served.ask("go", stream=stream)

    assert said.records[0]["failed"]
