"""The library's doors: an agent and inputs → run → drive → result.

One implementation: `invoke_agent_async` and `stream_agent` start a run the same way and differ in who reads its events;
the synchronous `invoke_agent` is a thin door in front. A plain caller gets a plain model call; whoever watches gets deltas.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ronda.agent.blocking import blocking
from ronda.agent.start import RunOptions, Start, checked_options
from ronda.agent.value import Agent, AnyAgent, Inputs, Tools
from ronda.core.events import Event
from ronda.core.run import Run
from ronda.trace.spans import span

if TYPE_CHECKING:
    from typing import Self


async def _start(
    agent: AnyAgent, inputs: Inputs | None, tools: Tools | None, stream: bool, options: RunOptions
) -> Start:
    """An agent made in code, or a file, and its inputs → a run that is about to be driven."""
    if isinstance(agent, Agent):
        return Start(agent, () if inputs is None else inputs, tools, stream, options)
    from ronda.agent.join import start_file  # those who make their agents in code need none of it

    return await start_file(agent, inputs, tools, stream, options)


async def invoke_agent_async(
    agent: AnyAgent,
    inputs: Inputs | None = None,
    tools: Tools | None = None,
    *,
    stream: bool | None = None,
    hold: bool = False,
    **options: Any,
) -> Any:
    """Run an agent to its answer and return it: the final text, or the structured value if the agent asks for one.

    Args:
        agent: The agent: made in code, loaded from a prompty file, or the path of one.
        inputs: The user's message; or a mapping with it under `input`, whose other members fill bound parameters; or
            the turns of a conversation, such as `error.messages`. For a file: a mapping of what it declares.
        tools: Functions, or name → function, laid over the agent's for this run alone.
        stream: Return a `PromptyStream` at once instead; None does what the file says.
        hold: Of a stream: show nothing before a turn is known to be the last.
        options: `max_iterations` (10), `on_event` (called with every event), `cancel` (a `Cancel`), `parallel_tool_calls`
            (True), `max_tool_calls`, `max_tokens`, `max_seconds`, `on_limit` ("error" or "answer"), `on_unknown_tool`
            ("raise" or "tell"), `retry`, `session`, `journal`, `steering` (a `Steering`), `guardrails` (a `Guardrails`),
            `context_budget` (characters) and `compaction` (who sums up what the budget cuts).
    """
    checked = checked_options(options)
    if stream or hold or not isinstance(agent, Agent):
        from ronda.agent.pipeline import invoke_file

        return await invoke_file(agent, inputs, tools, stream, hold, checked)
    start = Start(agent, () if inputs is None else inputs, tools, False, checked)
    with span("invoke_agent", signature="ronda.invoke_agent", inputs=inputs) as emit:
        await start.drive()
        result = start.result()
        emit("result", result)
        return result


invoke_agent = blocking(invoke_agent_async, "invoke_agent")


class stream_agent:  # noqa: N801  # used like a function: `async with stream_agent(agent, inputs) as events:`
    """Run an agent and iterate over its events as they happen; `events.result` is the answer once they are over.

    Leaving the block early cancels the run and waits until nothing of it is running. Takes what `invoke_agent` takes.
    """

    def __init__(
        self, agent: AnyAgent, inputs: Inputs | None = None, tools: Tools | None = None, **options: Any
    ) -> None:
        self._args = (agent, inputs, tools, True, checked_options(options))
        self._batches: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._entered: tuple[Start, asyncio.Task[None]] | None = None

    async def __aenter__(self) -> Self:
        start = await _start(*self._args)
        self._batches.append(start.run.start)
        task = asyncio.create_task(start.drive(self._take))
        task.add_done_callback(self._ring)
        self._entered = start, task
        return self

    def _inside(self) -> tuple[Start, asyncio.Task[None]]:
        if self._entered is None:
            raise RuntimeError("write `async with stream_agent(…) as events:` around what reads the events")
        return self._entered

    def _take(self, batch: list[Event]) -> None:
        self._batches.extend(batch)
        if self._wake is not None:
            self._ring()

    def _ring(self, _: object = None) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        start, task = self._inside()
        while not self._batches:
            if task.done():
                task.result()
                start.result()  # a run without an answer ends the iteration with its error
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        return self._batches.popleft()

    @property
    def run(self) -> Run:
        return self._inside()[0].run

    @property
    def result(self) -> Any:
        """The answer. Asked for before the run is over, it says so."""
        start, _ = self._inside()
        if start.run.ended is None:
            raise RuntimeError("the run is not over yet; read its events to the end first")
        return start.result()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _, task = self._inside()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled() and error is None:
            task.exception()  # seen by whoever read the events; nothing more to say of it here
