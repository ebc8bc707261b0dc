"""A run that is cancelled from inside one of its own steps takes no other, and the caller that started it can go on."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import Any

import pytest
from tests.driving import drive
from tests.timeouts import soon

from ronda import Agent, Cancel, Guardrails, Retry, invoke_agent_async
from ronda.core.events import Event, ModelRetried, RunFinished, RunStarted
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import RunCancelled
from ronda.testing import Call, ScriptedModel, calls, fails, says


async def test_before_the_run_nothing_is_called_and_the_end_is_told() -> None:
    cancel = Cancel()
    cancel.cancel()
    events: list[Event] = []
    model = ScriptedModel("never")
    with pytest.raises(RunCancelled):
        await invoke_agent_async(Agent(model), "go", cancel=cancel, on_event=events.append)
    assert [type(event) for event in events] == [RunStarted, RunFinished]
    assert model.heard == []


async def test_between_two_tools_the_second_does_not_run() -> None:
    cancel = Cancel()
    ran: list[str] = []

    async def act(name: str) -> str:
        ran.append(name)
        cancel.cancel()
        return name

    model = ScriptedModel(calls(Call("act", {"name": "a"}, "a"), Call("act", {"name": "b"}, "b")), says("never"))
    with pytest.raises(RunCancelled) as raised:
        await invoke_agent_async(Agent(model, tools=[act]), "go", cancel=cancel, parallel_tool_calls=False)
    assert ran == ["a"]
    assert raised.value.messages == [
        user("go"),
        AssistantTurn((ToolCall("a", "act", '{"name":"a"}'), ToolCall("b", "act", '{"name":"b"}')), "tool_calls"),
        ToolTurn(
            (
                ToolResult("a", "a"),
                ToolResult("b", "Error: not run: the run was cancelled first.", failed=True),
            )
        ),
    ]


async def test_in_a_guardrail_the_call_it_looked_at_does_not_run() -> None:
    cancel = Cancel()
    ran: list[str] = []

    def act() -> str:
        ran.append("act")
        return "x"

    def judge(name: str, arguments: dict[str, Any]) -> bool:
        cancel.cancel()
        return True

    model = ScriptedModel(calls("act"), says("never"))
    with pytest.raises(RunCancelled):
        await invoke_agent_async(Agent(model, tools=[act]), "go", cancel=cancel, guardrails=Guardrails(tool=judge))
    assert ran == []


async def test_in_the_guardrail_of_the_second_call_only_the_first_has_run() -> None:
    cancel = Cancel()
    ran: list[str] = []

    async def act(name: str) -> str:
        ran.append(name)
        return name

    def judge(name: str, arguments: dict[str, Any]) -> bool:
        if arguments["name"] == "b":
            cancel.cancel()
        return True

    model = ScriptedModel(calls(Call("act", {"name": "a"}, "a"), Call("act", {"name": "b"}, "b")), says("never"))
    guard = Guardrails(tool=judge)
    with pytest.raises(RunCancelled):
        await invoke_agent_async(
            Agent(model, tools=[act]), "go", cancel=cancel, guardrails=guard, parallel_tool_calls=False
        )
    assert ran == ["a"]


@pytest.mark.parametrize("failing", [True, False])
async def test_whoever_drives_a_run_may_be_asked_before_every_step(failing: bool) -> None:
    ran: list[str] = []

    class Act:
        spec = ToolSpec("act")

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            ran.append(context.call_id)
            return ToolOutput("x")

    async def no_wait(seconds: float) -> None:
        ran.append("waited")

    lines = [fails("busy", 503)] if failing else [calls(Call("act", {}, "a"), Call("act", {}, "b"))]
    model = ScriptedModel(*lines, says("never"))
    run = Run(RunStarted("r", Plan("m", (Act.spec,), parallel=False), (user("go"),)))
    with pytest.raises(asyncio.CancelledError):
        await drive(
            run,
            provider=model,
            tools={"act": Act()},
            emit=lambda batch: None,
            is_cancelled=lambda: bool(ran),
            sleep=no_wait,
        )
    assert ran == ["waited" if failing else "a"]
    assert len(model.heard) == 1


async def test_in_the_input_guardrail_no_model_is_called() -> None:
    cancel = Cancel()

    def judge(turns: Any) -> bool:
        cancel.cancel()
        return True

    model = ScriptedModel("never")
    with pytest.raises(RunCancelled):
        await invoke_agent_async(Agent(model), "go", cancel=cancel, guardrails={"input": judge})
    assert model.heard == []


async def test_while_waiting_to_try_again_the_wait_ends() -> None:
    cancel = Cancel()

    def on_event(event: Event) -> None:
        if type(event) is ModelRetried:
            cancel.cancel()

    model = ScriptedModel(fails("busy", 503), says("never"))
    with pytest.raises(RunCancelled):
        async with soon():
            await invoke_agent_async(
                Agent(model), "go", cancel=cancel, on_event=on_event, retry=Retry(initial_interval=60.0)
            )
    assert len(model.heard) == 1


async def test_whoever_started_a_cancelled_run_is_not_cancelled_with_it() -> None:
    cancel = Cancel()

    async def act() -> str:
        cancel.cancel()
        return "x"

    with pytest.raises(CancelledError):
        await invoke_agent_async(Agent(ScriptedModel(calls("act"), says("x")), tools=[act]), "go", cancel=cancel)
    for _ in range(3):
        await asyncio.sleep(0)  # where a cancellation that came late would land
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_token_used_up_at_the_end_of_one_run_does_not_reach_the_code_behind_it() -> None:
    cancel = Cancel()

    def on_event(event: Event) -> None:
        if type(event) is RunFinished:
            cancel.cancel()

    assert await invoke_agent_async(Agent(ScriptedModel("done")), "go", cancel=cancel, on_event=on_event) == "done"
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_task_that_is_cancelled_itself_stays_cancelled() -> None:
    started = asyncio.Event()

    async def hang() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    cancel = Cancel()
    model = ScriptedModel(calls("hang"), says("never"))
    task = asyncio.create_task(invoke_agent_async(Agent(model, tools=[hang]), "go", cancel=cancel))
    async with soon():
        await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
