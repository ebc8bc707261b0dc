"""A model that makes the same call with the same result again and again is told so, and in the end stopped."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door

from ronda import Agent, invoke_agent, tool
from ronda.core.parts import ToolTurn
from ronda.errors import LimitExceeded
from ronda.providers.script import Call, Line, ScriptedModel, calls, says

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@tool
async def look(at: str) -> str:
    """Look."""
    ran.append(at)
    return f"{at} is empty"


@tool
async def poll() -> str:
    """Poll something that changes."""
    ran.append("poll")
    return f"{len(ran)} of many"


def looking(times: int, *then: Line) -> ScriptedModel:
    return ScriptedModel(*[calls(Call("look", {"at": "box"}, f"c{n}")) for n in range(times)], *then)


def contents(model: ScriptedModel) -> list[str]:
    return [turn.results[0].content for turn in model.heard[-1] if isinstance(turn, ToolTurn)]


def told(n: int) -> str:
    return (
        "box is empty\n\n[You have made this very call "
        f"{n} times with the same result. Do something else, or answer with what you have.]"
    )


def test_after_three_times_the_model_is_told() -> None:
    model = looking(5, says("it is empty"))

    assert invoke_agent(Agent(model=model, tools=[look]), "go") == "it is empty"
    assert contents(model) == ["box is empty", "box is empty", told(3), told(4), told(5)]


@pytest.mark.parametrize(
    ("config", "times"), [({}, 16), ({"max_identical_calls": 4}, 4), ({"max_identical_calls": 2}, 2)]
)
async def test_a_server_ends_a_run_after_so_many_identical_calls(
    door: Door, stream: bool, config: Any, times: int
) -> None:
    model = looking(20)

    async with door.serving(model, look, **config) as served:
        said = await served.ask(stream=stream, max_tool_rounds=30)
        [end] = await served.ends

    reason = f"the model made the same call of 'look' {times} times with the same arguments and result"
    assert (said.content, said.finish_reason, said.limit) == (f"I stopped: {reason}.", "stop", "repeated_call")
    assert (end.reason, end.limit, end.message) == ("limit", "repeated_call", reason)
    assert (len(ran), len(model.heard)) == (times, times)


@pytest.mark.parametrize(("options", "rounds"), [({}, 10), ({"max_iterations": 7}, 7)])
def test_a_run_of_the_library_ends_at_its_own_limit_with_its_own_text(options: Any, rounds: int) -> None:
    model = looking(20)

    with pytest.raises(LimitExceeded) as raised:
        invoke_agent(Agent(model=model, tools=[look]), "go", **options)

    assert str(raised.value) == f"Agent loop exceeded {rounds} iterations"
    assert len(model.heard) == rounds
    assert told(rounds - 1) in contents(model)


def test_the_same_arguments_in_another_order_or_spelling_are_the_same() -> None:
    written = [
        '{"at":"box"}',
        '{"at": "box"}',
        '{ "at" : "box" }',
        '{"at":"b\\u006fx"}',
        '{"at":"box"}',
        '{"at": "box"}',
    ]
    model = ScriptedModel(*[calls(Call("look", text, f"c{n}")) for n, text in enumerate(written)], says("never"))

    assert invoke_agent(Agent(model=model, tools=[look]), "go") == "never"
    assert contents(model)[2:] == [told(3), told(4), told(5), told(6)]


def test_other_arguments_are_another_call() -> None:
    model = ScriptedModel(*[calls(Call("look", {"at": f"box {n}"}, f"c{n}")) for n in range(8)], says("all empty"))

    assert invoke_agent(Agent(model=model, tools=[look]), "go") == "all empty"
    assert contents(model) == [f"box {n} is empty" for n in range(8)]


def test_another_result_is_news() -> None:
    model = ScriptedModel(*[calls(Call("poll", {}, f"c{n}")) for n in range(8)], says("still going"))

    assert invoke_agent(Agent(model=model, tools=[poll]), "go") == "still going"
    assert contents(model) == [f"{n} of many" for n in range(1, 9)]


def test_whoever_says_how_many_rounds_means_it() -> None:
    model = looking(8, says("still empty"))

    assert invoke_agent(Agent(model=model, tools=[look]), "go", max_iterations=20) == "still empty"
