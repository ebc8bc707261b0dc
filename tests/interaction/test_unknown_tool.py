"""A tool that nothing can run: the model is told so, three times in a row at most; the library raises, with fixed texts."""

from __future__ import annotations

import pytest
from tests.interaction.doors import Door, declared

from ronda import Agent, invoke_agent, tool
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn
from ronda.core.parts import user as says_user
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import LimitExceeded, RunEnded
from ronda.providers.script import Call, ScriptedModel, calls, says


@tool
async def search(q: str) -> str:
    """Search."""
    return f"found {q}"


def asking(times: int) -> ScriptedModel:
    return ScriptedModel(*[calls(Call("serch", {"q": "x"}, f"c{n}")) for n in range(times)], says("done"))


TOLD = "Error: Tool 'serch' is not available; this agent has 'search'."


def test_the_library_raises_for_a_tool_that_is_not_registered() -> None:
    with pytest.raises(ValueError, match=r"^Tool not registered: serch$") as raised:
        invoke_agent(Agent(model=asking(1), tools=[search]), "go")

    assert isinstance(raised.value, RunEnded)
    assert raised.value.messages[:2] == [
        says_user("go"),
        AssistantTurn((ToolCall("c0", "serch", '{"q":"x"}'),), "tool_calls"),
    ]


def test_the_library_raises_when_there_are_no_tools_at_all() -> None:
    with pytest.raises(ValueError, match=r"^Tool not registered: serch$"):
        invoke_agent(Agent(model=asking(1)), "go")


class Declared:
    """A tool that an agent declares and nothing runs."""

    spec = ToolSpec("serch", kind="caller")

    async def run(self, arguments: dict[str, object], context: ToolContext) -> ToolOutput:
        raise AssertionError


def test_the_library_raises_for_a_declared_tool_without_a_handler() -> None:
    with pytest.raises(ValueError, match=r"^No handler registered for tool: serch \(kind: function\)$"):
        invoke_agent(Agent(model=asking(1), tools=[Declared()]), "go")


def test_nothing_else_of_the_turn_runs_when_the_library_raises() -> None:
    ran: list[str] = []

    @tool
    async def note() -> str:
        """Note."""
        ran.append("note")
        return "noted"

    model = ScriptedModel(calls(Call("note", {}, "n"), Call("serch", {}, "s")))

    with pytest.raises(ValueError, match="serch") as raised:
        invoke_agent(Agent(model=model, tools=[note]), "go")

    assert isinstance(raised.value, RunEnded)
    assert ran == []
    last = raised.value.messages[-1]
    assert isinstance(last, ToolTurn)
    assert [result.call_id for result in last.results] == ["n", "s"]


def test_told_the_model_can_do_better() -> None:
    model = asking(1)

    assert invoke_agent(Agent(model=model, tools=[search]), "go", on_unknown_tool="tell") == "done"
    assert model.heard[1][-1] == ToolTurn((ToolResult("c0", TOLD, failed=True),))


def test_told_three_times_in_a_row_is_still_a_chance() -> None:
    assert invoke_agent(Agent(model=asking(3), tools=[search]), "go", on_unknown_tool="tell") == "done"


def test_a_fourth_time_in_a_row_is_an_error_in_the_library() -> None:
    model = asking(9)

    with pytest.raises(LimitExceeded, match="do not exist"):
        invoke_agent(Agent(model=model, tools=[search]), "go", on_unknown_tool="tell")

    assert len(model.heard) == 4


def test_a_good_call_in_between_starts_the_count_again() -> None:
    bad = [calls(Call("serch", {"q": "x"}, f"c{n}")) for n in range(6)]
    good = calls(Call("search", {"q": "x"}, "g"))
    model = ScriptedModel(*bad[:3], good, *bad[3:], says("done"))

    assert invoke_agent(Agent(model=model, tools=[search]), "go", on_unknown_tool="tell") == "done"


async def test_the_server_tells_the_model(door: Door, stream: bool) -> None:
    model = asking(1)

    async with door.serving(model, search) as served:
        said = await served.ask(stream=stream)

    assert (said.content, said.finish_reason, said.limit) == ("done", "stop", None)
    assert model.heard[1][-1] == ToolTurn((ToolResult("c0", TOLD, failed=True),))


async def test_the_server_asks_for_a_last_answer_after_the_fourth_time_in_a_row(door: Door, stream: bool) -> None:
    model = ScriptedModel(*[calls(Call("serch", {"q": "x"}, f"c{n}")) for n in range(4)], says("I cannot."))

    async with door.serving(model, search) as served:
        said = await served.ask(stream=stream)

    assert (said.content, said.finish_reason, said.limit) == ("I cannot.", "stop", "unknown_tool")
    assert len(model.heard) == 5


async def test_an_unknown_tool_beside_a_known_one_does_not_hold_it_back(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("serch", {"q": "x"}, "c1"), Call("search", {"q": "y"}, "c2")), says("done"))

    async with door.serving(model, search) as served:
        said = await served.ask(stream=stream)

    assert said.content == "done"
    assert model.heard[1][-1] == ToolTurn((ToolResult("c1", TOLD, failed=True), ToolResult("c2", "found y")))


async def test_an_unknown_tool_beside_a_callers_does_not_hold_it_back(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("serch", {}, "c1"), Call("ask", {}, "c2")), says("done"))

    async with door.serving(model, search) as served:
        said = await served.ask(stream=stream, tools=[declared("ask")])

    assert ([call[1:] for call in said.calls], said.finish_reason) == ([("ask", "{}")], "tool_calls")


# ---- a namespace before the name -------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["functions.", "default_api.", "tools."])
def test_a_namespace_that_models_are_trained_with_is_no_part_of_the_name(prefix: str) -> None:
    model = ScriptedModel(calls(Call(f"{prefix}search", {"q": "x"}, "c0")), says("done"))

    assert invoke_agent(Agent(model=model, tools=[search]), "go") == "done"
    assert model.heard[1][-2:] == [
        AssistantTurn((ToolCall("c0", "search", '{"q":"x"}'),), "tool_calls"),
        ToolTurn((ToolResult("c0", "found x"),)),
    ]


@pytest.mark.parametrize(
    "name", ["other.search", "functions.functions.search", "functions.serch", "functions.", "Search"]
)
def test_nothing_else_is_guessed(name: str) -> None:
    with pytest.raises(ValueError, match="Tool not registered"):
        invoke_agent(Agent(model=ScriptedModel(calls(Call(name, {"q": "x"}, "c0"))), tools=[search]), "go")


async def test_calls_of_the_callers_go_out_under_their_names_and_in_their_order(door: Door, stream: bool) -> None:
    made = calls(Call("tools.ask", {"n": 1}, "c1"), Call("tools.search", {"q": "x"}, "c2"), Call("ask", {"n": 2}, "c3"))

    async with door.serving(ScriptedModel(made), search) as served:
        answer = await served.ask(stream=stream, tools=[declared("ask")])

    assert [call[1:] for call in answer.calls] == [("ask", '{"n":1}'), ("ask", '{"n":2}')]
    assert "the model called 'tools.ask', which was taken for 'ask'" in answer.warnings
