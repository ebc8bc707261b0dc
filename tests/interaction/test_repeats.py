"""A model that makes the same call with the same result again and again is told so, and in the end stopped."""

from __future__ import annotations

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


async def test_after_six_times_the_run_ends_with_a_clear_reason(door: Door, stream: bool) -> None:
    model = looking(9)

    async with door.serving(model, look) as served:
        said = await served.ask(stream=stream)
        [end] = await served.ends

    reason = "the model made the same call of 'look' 6 times with the same arguments and result"
    assert (said.content, said.finish_reason, said.limit) == (f"I stopped: {reason}.", "stop", "repeated_call")
    assert (end.reason, end.limit, end.message) == ("limit", "repeated_call", reason)
    assert (len(ran), len(model.heard)) == (6, 6)


def test_after_six_times_the_library_raises_with_a_clear_reason() -> None:
    model = looking(9)

    with pytest.raises(LimitExceeded) as raised:
        invoke_agent(Agent(model=model, tools=[look]), "go")

    assert str(raised.value) == "the model made the same call of 'look' 6 times with the same arguments and result"
    assert len(model.heard) == 6


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

    with pytest.raises(LimitExceeded, match="same call"):
        invoke_agent(Agent(model=model, tools=[look]), "go")


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
