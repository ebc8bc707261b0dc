"""Cancelled at any moment, a run leaves nothing running, keeps what it had, and ends `cancelled`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.interaction.doors import TIMEOUT, Door, Remembering, declared, soon, user
from tests.interaction.upstreams import Exchange, Upstream, call, completes, delta, refuses

from ronda import Agent, Cancel, Retry, invoke_agent, invoke_agent_async, stream_agent, tool
from ronda.core.events import Event, ModelFinished, ModelRetried, RunFinished, TextDelta, ToolStarted
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn
from ronda.core.parts import user as says_user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import RunCancelled
from ronda.providers.script import Call, ScriptedModel, calls, fails, says

NEVER = Retry(initial_interval=50.0)


class Endless:
    """A tool that waits for ever, and says when it began and that it was stopped."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.began_here = threading.Event()
        self.running = 0

        @tool
        async def wait(n: int = 0) -> str:
            """Wait."""
            self.running += 1
            self.began.set()
            self.began_here.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.running -= 1
            return "never"

        self.tool = wait


class Mumbling:
    """A model that says the first word and no more."""

    def __init__(self) -> None:
        self.stopped = False

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        show([TextDelta("Hel")])
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = True
        raise AssertionError


STOPPED = "Error: cancelled while it was running; it may have taken effect."


@contextlib.asynccontextmanager
async def leaves_nothing_running() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - before == set()


# ---- a token, from anywhere ------------------------------------------------------------------------------------------


def test_a_token_cancelled_in_another_thread_stops_a_tool() -> None:
    endless, cancel = Endless(), Cancel()

    def stop() -> None:
        assert endless.began_here.wait(TIMEOUT)
        cancel.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(RunCancelled) as ended:
        invoke_agent(
            Agent(model=ScriptedModel(calls(Call("wait", {}, "w"))), tools=[endless.tool]), "go", cancel=cancel
        )
    thread.join(TIMEOUT)

    assert endless.running == 0
    assert ended.value.messages == [
        says_user("go"),
        AssistantTurn((ToolCall("w", "wait", "{}"),), "tool_calls"),
        ToolTurn((ToolResult("w", STOPPED, failed=True),)),
    ]


def test_a_plain_function_that_hangs_does_not_hold_up_a_cancelled_run() -> None:
    began, go_on, cancel = threading.Event(), threading.Event(), Cancel()

    @tool
    def hang() -> str:
        """Hang."""
        began.set()
        go_on.wait(TIMEOUT)
        return "late"

    def stop() -> None:
        assert began.wait(TIMEOUT)
        cancel.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(RunCancelled) as ended:
            invoke_agent(Agent(model=ScriptedModel(calls(Call("hang", {}, "h"))), tools=[hang]), "go", cancel=cancel)
        assert not go_on.is_set()
    finally:
        go_on.set()
        thread.join(TIMEOUT)

    assert ended.value.messages[-1] == ToolTurn((ToolResult("h", STOPPED, failed=True),))


def test_a_token_stops_a_run_that_waits_to_try_again() -> None:
    cancel = Cancel()
    model = ScriptedModel(fails("busy", 503), says("never said"))

    def on_event(event: Event) -> None:
        if isinstance(event, ModelRetried):
            threading.Thread(target=cancel.cancel).start()

    with pytest.raises(RunCancelled) as ended:
        invoke_agent(Agent(model=model, retry=NEVER), "go", cancel=cancel, on_event=on_event)

    assert len(model.heard) == 1
    assert ended.value.messages == [says_user("go")]


def test_a_token_stops_a_stream_and_what_was_shown_is_kept() -> None:
    cancel, model = Cancel(), Mumbling()

    def on_event(event: Event) -> None:
        if isinstance(event, TextDelta):
            threading.Thread(target=cancel.cancel).start()

    with pytest.raises(RunCancelled) as ended:
        invoke_agent(Agent(model=model), "go", cancel=cancel, on_event=on_event)

    assert model.stopped
    assert ended.value.messages == [says_user("go"), AssistantTurn((Text("Hel"),), "interrupted")]


def test_a_token_that_is_cancelled_already_lets_nothing_begin() -> None:
    cancel, model = Cancel(), ScriptedModel(says("never said"))
    cancel.cancel()

    with pytest.raises(RunCancelled):
        invoke_agent(Agent(model=model), "go", cancel=cancel)

    assert model.heard == []


async def test_one_token_stops_every_run_it_was_given_to() -> None:
    cancel = Cancel()
    tools = [Endless(), Endless()]
    async with leaves_nothing_running():
        runs = [
            asyncio.create_task(
                invoke_agent_async(Agent(model=ScriptedModel(calls("wait")), tools=[endless.tool]), "go", cancel=cancel)
            )
            for endless in tools
        ]
        async with soon():
            for endless in tools:
                await endless.began.wait()
            cancel.cancel()
            ends = await asyncio.gather(*runs, return_exceptions=True)

    assert [type(end) for end in ends] == [RunCancelled, RunCancelled]
    assert [endless.running for endless in tools] == [0, 0]


async def test_a_token_is_no_cancellation_of_the_task_that_waits() -> None:
    endless, cancel = Endless(), Cancel()

    async def stop() -> None:
        await endless.began.wait()
        cancel.cancel()

    async with soon(), asyncio.TaskGroup() as group:
        group.create_task(stop())
        with pytest.raises(RunCancelled):
            await invoke_agent_async(
                Agent(model=ScriptedModel(calls("wait")), tools=[endless.tool]), "go", cancel=cancel
            )

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


# ---- the task --------------------------------------------------------------------------------------------------------


async def cancelled(agent: Agent, until: type) -> list[Event]:
    """Cancel the task of a run when it has come to an event; what its journal has then."""
    journal = Remembering()
    there = asyncio.Event()

    def on_event(event: Event) -> None:
        if type(event) is until:
            there.set()

    async with leaves_nothing_running(), soon():
        task = asyncio.create_task(invoke_agent_async(agent, "go", on_event=on_event, journal=journal))
        await there.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    [run] = journal.runs
    return await journal.read(run)


async def test_a_cancelled_task_stops_a_tool() -> None:
    endless = Endless()

    events = await cancelled(
        Agent(model=ScriptedModel(calls(Call("wait", {}, "w"))), tools=[endless.tool]), ToolStarted
    )

    assert endless.running == 0
    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "cancelled"


async def test_a_cancelled_task_stops_all_tools_of_a_turn() -> None:
    endless = Endless()
    both = calls(Call("wait", {"n": 1}, "a"), Call("wait", {"n": 2}, "b"))

    events = await cancelled(Agent(model=ScriptedModel(both), tools=[endless.tool]), ToolStarted)

    assert endless.running == 0
    assert isinstance(events[-1], RunFinished)


async def test_a_cancelled_task_stops_a_stream() -> None:
    model = Mumbling()

    events = await cancelled(Agent(model=model), TextDelta)

    assert model.stopped
    broken, end = events[-2:]
    assert getattr(broken, "turn", None) == AssistantTurn((Text("Hel"),), "interrupted")
    assert isinstance(end, RunFinished)
    assert end.reason == "cancelled"


async def test_a_cancelled_task_stops_waiting_to_try_again() -> None:
    model = ScriptedModel(fails("busy", 503), says("never said"))

    events = await cancelled(Agent(model=model, retry=NEVER), ModelRetried)

    assert len(model.heard) == 1
    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "cancelled"


async def test_leaving_a_stream_early_cancels_the_run() -> None:
    endless = Endless()
    agent = Agent(model=ScriptedModel(calls("wait")), tools=[endless.tool])

    async with leaves_nothing_running(), soon():
        async with stream_agent(agent, "go") as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    await endless.began.wait()
                    break
        ended = events.run.ended

    assert endless.running == 0
    assert ended is not None
    assert ended.reason == "cancelled"


# ---- a connection that closes ----------------------------------------------------------------------------------------


class Leaving:
    """A request whose client goes away."""

    def __init__(self, door: Door, stream: bool, **more: Any) -> None:
        body = {"messages": [user("go")], "stream": stream, **more}
        self._task = asyncio.create_task(self._post(door, body))

    async def _post(self, door: Door, body: dict[str, Any]) -> None:
        async with door.http.post(f"{door.url}/chat/completions", json=body) as answer:
            await answer.read()

    async def leave(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def test_closing_the_connection_stops_a_tool(door: Door, stream: bool) -> None:
    endless = Endless()
    journal = Remembering()

    async with (
        door.serving(ScriptedModel(calls(Call("wait", {}, "w"))), endless.tool, journal=journal) as served,
        soon(),
    ):
        client = Leaving(door, stream)
        await endless.began.wait()
        await client.leave()
        await journal.until(RunFinished)
        await served.all_over()
        [end] = await served.ends

    assert endless.running == 0
    assert end.reason == "cancelled"


async def test_closing_the_connection_stops_an_upstream_call(door: Door, stream: bool) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()
    journal = Remembering()

    async def mumbles(exchange: Exchange) -> None:
        if stream:
            await exchange.begin_stream()
            await exchange.send(delta(role="assistant", content="Hel"))
        asked.set()
        await exchange.until_gone()
        closed.set()

    async with Upstream(mumbles) as upstream, door.serving(upstream.url, journal=journal) as served, soon():
        client = Leaving(door, stream)
        await asked.wait()
        await client.leave()
        await closed.wait()
        await journal.until(RunFinished)
        await served.all_over()
        [end] = await served.ends

    assert end.reason == "cancelled"


async def test_closing_the_connection_stops_waiting_to_try_again(door: Door, stream: bool) -> None:
    journal = Remembering()

    async with (
        Upstream(refuses(503, "busy"), completes("never said")) as upstream,
        door.serving(upstream.url, journal=journal, retry=NEVER) as served,
        soon(),
    ):
        client = Leaving(door, stream)
        await journal.until(ModelRetried)
        await client.leave()
        await journal.until(RunFinished)
        await served.all_over()
        [end] = await served.ends

    assert end.reason == "cancelled"
    assert len(upstream.bodies) == 1


async def test_closing_the_connection_stops_every_choice(door: Door, stream: bool) -> None:
    endless = Endless()
    model = ScriptedModel(*[calls(Call("wait", {}, "w"))] * 3)

    async with door.serving(model, endless.tool) as served, soon():
        client = Leaving(door, stream, n=3)
        await endless.began.wait()
        await client.leave()
        await served.all_over()
        ends = await served.ends

    assert endless.running == 0
    assert [end.reason for end in ends] == ["cancelled"] * 3


async def test_closing_the_connection_stops_a_dispatched_call(door: Door, stream: bool) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def waits(exchange: Exchange) -> None:
        asked.set()
        await exchange.until_gone()
        closed.set()

    model = ScriptedModel(calls(Call("search", {}, "s")))
    async with Upstream(waits) as elsewhere, door.serving(model, tool_dispatch_url=elsewhere.url) as served, soon():
        client = Leaving(door, stream, tools=[declared("search")])
        await asked.wait()
        await client.leave()
        await closed.wait()
        await served.all_over()
        [end] = await served.ends

    assert end.reason == "cancelled"


async def test_a_stream_closed_by_the_official_sdk_is_cancelled(door: Door) -> None:
    closed = asyncio.Event()
    journal = Remembering()

    async def mumbles(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send(delta(role="assistant", content="Hel"))
        await exchange.until_gone()
        closed.set()

    async with Upstream(mumbles) as upstream, door.serving(upstream.url, journal=journal) as served, soon():
        chunks = await served.client("leaver").chat.completions.create(
            model="default", messages=[{"role": "user", "content": "go"}], stream=True
        )
        async for chunk in chunks:
            assert chunk.choices[0].delta.content == "Hel"
            break
        await chunks.close()
        await closed.wait()
        await journal.until(RunFinished)
        [events] = await served.events

    broken, end = events[-2:]
    assert getattr(broken, "turn", None) == AssistantTurn((Text("Hel"),), "interrupted")
    assert isinstance(end, RunFinished)
    assert end.reason == "cancelled"


async def test_a_server_that_stops_interrupts_its_runs_and_ends_their_streams(door: Door) -> None:
    endless = Endless()
    journal = Remembering()

    async with (
        door.serving(ScriptedModel(calls(Call("wait", {}, "w"))), endless.tool, journal=journal) as served,
        soon(),
    ):
        request = asyncio.create_task(served.post({"messages": [user("go")], "stream": True}))
        await endless.began.wait()
        await served.server.runs.close()
        answer = await request
        [end] = await served.ends

    assert end.reason == "interrupted"
    assert answer.chunks[-1]["choices"][0]["finish_reason"] is not None
    assert answer.error["message"] == "the run was interrupted: the server is stopping"


async def test_an_upstream_answer_after_a_cancelled_one_is_unharmed(door: Door) -> None:
    """A connection that was cut in the middle must not be used again."""

    async def mumbles(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send(delta(role="assistant", content="Hel"))
        asked.set()
        await exchange.until_gone()

    asked = asyncio.Event()
    again = completes(None, call("lookup", q="x"))
    async with Upstream(mumbles, again) as upstream, door.serving(upstream.url) as served, soon():
        client = Leaving(door, True)
        await asked.wait()
        await client.leave()
        await served.all_over()
        said = await served.ask(stream=True, tools=[declared("lookup", q="string")])

    assert said.calls == [("call_1", "lookup", '{"q": "x"}')]
