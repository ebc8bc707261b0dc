"""`turn`: Prompty's loop under the specification's names."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from tests.pipeline.files import INPUTS, WEATHER, scripted, weather

from ronda import Agent, Cancel, PromptyStream, process, turn, turn_async
from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Text, ToolCall
from ronda.errors import BadRequest, ExecuteError, RunCancelled
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, fails, says


def test_the_loop_runs_where_something_can_run_the_calls() -> None:
    lines = (calls("weather", city="Paris"), says("Sunny."))
    asked = [ToolCall("call_0_0", "weather", '{"city":"Paris"}')]

    assert turn(scripted(ScriptedModel(*lines), tools=[WEATHER]), tools=[weather]) == "Sunny."
    assert turn(scripted(ScriptedModel(*lines), tools=[WEATHER])) == asked
    with pytest.raises(ValueError, match=r"^No handler registered for tool: weather \(kind: function\)$"):
        turn(scripted(ScriptedModel(*lines), tools=[WEATHER]), tools={})
    assert turn(scripted(ScriptedModel(says("hi")))) == "hi"
    assert turn(Agent(ScriptedModel(*lines)), "How?", [weather]) == "Sunny."


@pytest.mark.parametrize("parallel", [False, True])
def test_calls_run_one_after_another_unless_asked_otherwise(parallel: bool) -> None:
    running = 0
    most = 0

    async def wait(n: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    model = ScriptedModel(calls(Call("wait", {"n": 1}), Call("wait", {"n": 2})), says("done"))
    assert turn(scripted(model), tools={"wait": wait}, parallel_tool_calls=parallel) == "done"
    assert most == (2 if parallel else 1)
    assert model.requests[0].options.parallel_tool_calls is None  # the model may still ask for several


def test_events_come_as_type_and_data_and_a_callback_that_raises_is_forgotten() -> None:
    seen: list[str] = []

    def on_event(type: str, data: dict[str, Any]) -> None:
        seen.append(type)
        raise RuntimeError("not my day")

    model = ScriptedModel(calls("weather", city="Paris"), says("Sunny."))
    assert turn(scripted(model, tools=[WEATHER]), tools=[weather], on_event=on_event) == "Sunny."
    assert seen == ["status", "tool_call_start", "tool_result", "messages_updated", "token", "done"]


def test_done_has_the_result() -> None:
    done: list[Any] = []
    model = ScriptedModel(says('{"a": 1}'))
    prompty = scripted(model, outputs={"a": {"kind": "integer", "required": True}})

    turn(prompty, on_event=lambda kind, data: done.append(data["response"]) if kind == "done" else None)

    assert done == [{"a": 1}]


@dataclasses.dataclass
class Weather:
    degrees: int


def test_a_result_can_be_had_raw_or_cast() -> None:
    outputs = {"degrees": {"kind": "integer", "required": True}}
    said = '{"degrees": 24}'

    assert turn(scripted(ScriptedModel(says(said)), outputs=outputs), target_type=Weather) == Weather(24)
    prompty = scripted(ScriptedModel(says(said)), outputs=outputs)
    raw = turn(prompty, raw=True, target_type=Weather)
    assert isinstance(raw, ModelFinished)
    assert raw.turn == AssistantTurn((Text(said),))
    assert process(prompty, raw) == {"degrees": 24}


async def test_tries_are_counted_in_all_and_the_error_brings_the_conversation() -> None:
    fault = fails("busy", 503, retry_after=0.0)
    model = ScriptedModel(fault, fault, says("never"))
    with pytest.raises(ExecuteError, match=r"^LLM call failed after 2 retries: busy$") as failed:
        await turn_async(scripted(model), max_llm_retries=2)
    assert len(model.heard) == 2
    assert failed.value.messages == model.heard[0]
    with pytest.raises(BadRequest, match="max_llm_retries is 0"):
        await turn_async(scripted(model), max_llm_retries=0)


def test_a_cancelled_turn_calls_nobody() -> None:
    cancel, model = Cancel(), ScriptedModel(says("never"))
    cancel.cancel()
    with pytest.raises(RunCancelled):
        turn(scripted(model), cancel=cancel)
    assert model.heard == []


def test_a_files_own_wish_for_a_stream_is_heard() -> None:
    prompty = scripted(ScriptedModel(says("a b")), options={"additionalProperties": {"stream": True}})
    stream = turn(prompty)
    assert isinstance(stream, PromptyStream)
    assert list(stream) == ["a ", "b"]


async def test_sync_and_async_give_equal_results() -> None:
    def lines() -> ScriptedModel:
        return ScriptedModel(calls("weather", city="Paris"), says("Sunny."))

    inputs = {"q": "hi"}
    results = [
        turn(scripted(lines(), inputs=INPUTS), inputs, [weather]),
        await turn_async(scripted(lines(), inputs=INPUTS), inputs, [weather]),
    ]
    assert results == ["Sunny.", "Sunny."]
