"""The spans of a prompty file's stages and runs: names and nesting, as each door has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.pipeline.files import WEATHER, scripted, weather
from tests.trace.spying import Spy

from ronda import invoke, invoke_agent, prepare, process, run, turn
from ronda.testing import ScriptedModel, calls, says
from ronda.trace import Tracer

PREPARE = ("prepare", ["render", "parse"])


@pytest.fixture
def spy() -> Iterator[Spy]:
    spy = Spy()
    Tracer.add("spy", spy)
    yield spy
    Tracer.remove("spy")


def lines() -> ScriptedModel:
    return ScriptedModel(calls("weather", city="Paris"), says("Sunny."))


def test_the_stages_alone(spy: Spy) -> None:
    prompty = scripted(ScriptedModel())
    prepare(prompty)
    process(prompty, {"choices": [{"message": {"content": "hi"}}]})
    assert spy.tree() == [PREPARE, "process"]


async def test_an_agent_has_one_span_around_everything_even_from_inside_a_loop(spy: Spy) -> None:
    invoke_agent(scripted(lines(), tools=[WEATHER]), tools=[weather])
    expected: list[Any] = [("invoke_agent", [PREPARE, "execute", "execute_tool", "execute", "process"])]
    assert spy.tree() == expected
    assert spy.told("invoke_agent")[0]["result"] == "Sunny."


def test_one_model_call_and_a_turn(spy: Spy) -> None:
    invoke(scripted(ScriptedModel(says("hi"))))
    run(scripted(ScriptedModel(says("hi"))), [{"role": "user", "content": "hi"}])
    turn(scripted(lines(), tools=[WEATHER]), tools=[weather])
    turn(scripted(ScriptedModel(says("hi"))), turn=3)
    assert spy.tree() == [
        ("invoke", [PREPARE, "execute", "process"]),
        ("run", ["execute", "process"]),
        ("turn", [PREPARE, "execute", "execute_tool", "execute", "process"]),
        ("turn 3", [PREPARE, "execute", "process"]),
    ]


def test_a_stream_has_a_span_of_its_own_when_it_is_over(spy: Spy) -> None:
    stream = invoke_agent(scripted(ScriptedModel(says("a b"))), stream=True)
    assert spy.tree() == []
    assert list(stream) == ["a ", "b"]
    assert spy.tree() == [("invoke_agent", [PREPARE, "execute", "PromptyStream", "process"])]
    assert spy.told("PromptyStream")[0]["result"] == ["a ", "b"]
