"""People speak into a run while it is under way: the model hears it with its next call, and not before."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.interaction.doors import soon

from ronda import Agent, Steering, invoke_agent, invoke_agent_async, stream_agent
from ronda.core.events import Event, ModelStarted, RunFinished, Steered, ToolFinished, ToolStarted
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.errors import ExecuteError, LimitExceeded
from ronda.testing import Call, ScriptedModel, calls, fails, says


def kinds(events: list[Event]) -> list[type]:
    wanted = (ModelStarted, ToolStarted, ToolFinished, Steered, RunFinished)
    return [type(event) for event in events if type(event) in wanted]


def test_what_is_said_during_a_tool_is_heard_after_its_result() -> None:
    steering = Steering()
    events: list[Event] = []

    def look() -> str:
        steering.send("in Celsius")
        steering.send("and briefly")
        return "72 F"

    model = ScriptedModel(calls(Call("look", {}, "c1")), says("22"))

    answer = invoke_agent(Agent(model, tools=[look]), "weather?", steering=steering, on_event=events.append)

    assert answer == "22"
    assert model.heard[1] == [
        user("weather?"),
        AssistantTurn((ToolCall("c1", "look", "{}"),), "tool_calls"),
        ToolTurn((ToolResult("c1", "72 F"),)),
        user("in Celsius"),
        user("and briefly"),
    ]
    assert kinds(events) == [ModelStarted, ToolStarted, ToolFinished, Steered, Steered, ModelStarted, RunFinished]


def test_what_was_said_before_the_run_is_part_of_its_first_call() -> None:
    steering = Steering()
    steering.send("quickly")
    model = ScriptedModel("done")

    assert invoke_agent(Agent(model), "go", steering=steering) == "done"
    assert model.heard == [[user("go"), user("quickly")]]
    assert not steering.has_pending


async def test_an_answer_is_not_the_last_one_while_somebody_has_spoken() -> None:
    steering = Steering()

    class Interrupted(ScriptedModel):
        async def call(self, request: Any, show: Any) -> Any:
            if not self.heard:
                steering.send("no, in French")
            return await super().call(request, show)

    model = Interrupted(says("The weather is fine."), says("Il fait beau."))

    assert await invoke_agent_async(Agent(model), "weather?", steering=steering) == "Il fait beau."
    assert model.heard[1] == [user("weather?"), AssistantTurn((Text("The weather is fine."),)), user("no, in French")]


async def test_any_thread_may_speak_into_a_run() -> None:
    steering = Steering()
    said = asyncio.Event()
    loop = asyncio.get_running_loop()

    def speak() -> None:
        steering.send("from elsewhere")
        loop.call_soon_threadsafe(said.set)

    async def wait() -> str:
        threading.Thread(target=speak).start()
        async with soon():
            await said.wait()
        return "waited"

    model = ScriptedModel(calls("wait"), says("heard it"))
    assert await invoke_agent_async(Agent(model, tools=[wait]), "go", steering=steering) == "heard it"
    assert model.heard[1][-1] == user("from elsewhere")


async def test_a_running_tool_is_not_interrupted() -> None:
    steering = Steering()
    ended: list[str] = []

    async def slow() -> str:
        steering.send("stop that")
        await asyncio.sleep(0)
        ended.append("slow")
        return "done"

    model = ScriptedModel(calls("slow"), says("ok"))
    async with stream_agent(Agent(model, tools=[slow]), "go", steering=steering) as events:
        async for _ in events:
            pass
    assert ended == ["slow"]
    assert events.result == "ok"


def test_what_is_said_after_the_end_calls_nobody() -> None:
    steering = Steering()
    model = ScriptedModel("done", "never")

    def on_event(event: Event) -> None:
        if type(event) is RunFinished:
            steering.send("too late")

    assert invoke_agent(Agent(model), "go", steering=steering, on_event=on_event) == "done"
    assert len(model.heard) == 1
    assert steering.drain() == ["too late"]


def test_a_run_at_its_limit_leaves_what_was_said_to_the_next() -> None:
    steering = Steering()

    def again() -> str:
        steering.send("go on")
        return "x"

    model = ScriptedModel(calls("again"), says("never"))
    with pytest.raises(LimitExceeded, match="Agent loop exceeded 1 iterations"):
        invoke_agent(Agent(model, tools=[again]), "go", steering=steering, max_iterations=1)
    assert steering.has_pending


def test_the_last_answer_of_a_limited_run_stays_the_last() -> None:
    steering = Steering()

    class Speaks(ScriptedModel):
        async def call(self, request: Any, show: Any) -> Any:
            if len(self.heard) == 1:
                steering.send("one more thing")
            return await super().call(request, show)

    model = Speaks(calls("look"), says("as far as I got"), says("never"))
    answer = invoke_agent(
        Agent(model, tools=[look_around]),
        "go",
        {"look": look_around},
        steering=steering,
        max_iterations=1,
        on_limit="answer",
    )
    assert answer == "as far as I got"
    assert steering.has_pending


def look_around() -> str:
    return "a room"


def test_a_run_that_failed_is_not_revived() -> None:
    steering = Steering()

    class Speaks(ScriptedModel):
        async def call(self, request: Any, show: Any) -> Any:
            steering.send("please")
            return await super().call(request, show)

    with pytest.raises(ExecuteError):
        invoke_agent(Agent(Speaks(fails("no", 400))), "go", steering=steering)
    assert steering.drain() == ["please"]


def test_messages_come_out_in_order_and_once() -> None:
    steering = Steering()
    assert not steering.has_pending
    for text in ("a", "b", "c"):
        steering.send(text)
    assert steering.has_pending
    assert steering.drain() == ["a", "b", "c"]
    assert steering.drain() == []


def test_messages_of_many_threads_are_all_there() -> None:
    steering = Steering()

    def speak(n: int) -> None:
        for i in range(200):
            steering.send(f"{n}/{i}")

    threads = [threading.Thread(target=speak, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    taken: list[str] = []
    while any(thread.is_alive() for thread in threads):
        taken += steering.drain()
    taken += steering.drain()
    assert sorted(taken) == sorted(f"{n}/{i}" for n in range(4) for i in range(200))
    for n in range(4):
        assert [text for text in taken if text.startswith(f"{n}/")] == [f"{n}/{i}" for i in range(200)]


@pytest.mark.parametrize("text", ["", "  ", None, 3])
def test_a_message_has_to_say_something(text: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="steering message"):
        Steering().send(text)
