"""The library's doors: an agent and inputs → run → drive → result.

    run_agent(agent, "…")            a `Result`: the answer, the conversation, what was used
    invoke_agent(agent, "…")         `run_agent(…).output`; or a stream of text
    stream_agent(agent, "…")         the events, as they happen

One implementation: they start a run the same way and differ in who reads its events; the synchronous ones are thin doors in
front of their async twins. A plain caller gets a plain model call; a caller that watches gets deltas.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Unpack

from ronda.agent.blocking import blocking
from ronda.agent.result import Result, T, outcome
from ronda.agent.start import RunOptions, Start, checked_options
from ronda.agent.toolsets import Tools, open_agent, open_overlay
from ronda.agent.value import Agent, AnyAgent, Inputs
from ronda.core.events import Event
from ronda.core.run import Run
from ronda.host.channel import ChannelReader
from ronda.trace.spans import span

if TYPE_CHECKING:
    from typing import Self

    from ronda.agent.pipeline import Call
    from ronda.prompty.model import Prompty


async def invoke_agent_async(
    agent: AnyAgent,
    inputs: Inputs | None = None,
    tools: Tools | None = None,
    *,
    stream: bool | None = None,
    hold: bool = False,
    **options: Unpack[RunOptions],
) -> Any:
    """Run an agent to its answer and return it: `run_agent(…).output`, the final text or the structured value.

    Takes what `run_agent` takes, and besides:

    Args:
        agent: The agent.
        inputs: What it is asked.
        tools: Tools for this run only.
        stream: Return a `PromptyStream` at once instead; None does what the file says.
        hold: Of a stream: show nothing before a turn is known to be the last.
        options: Those of `run_agent`.
    """
    checked = checked_options(options)
    if isinstance(agent, Agent) and not (stream or hold):
        return (await _run_made(agent, inputs, tools, checked)).output
    call = _call(agent, inputs, tools, checked)
    if stream or hold or (stream is None and call.source.wants_stream):
        return call.stream(hold)
    return (await call.result()).output


async def run_agent_async(
    agent: Agent[T] | Prompty | str | os.PathLike[str],
    inputs: Inputs | None = None,
    tools: Tools | None = None,
    **options: Unpack[RunOptions],
) -> Result[T]:
    """Run an agent to its answer: `output`, with the `messages`, `usage`, `cost`, `tool_calls`, `limit` and `run_id` of the run.

    Args:
        agent: The agent: made in code, loaded from a prompty file, or the path of one.
        inputs: The user's message; or a mapping with it under `input`, whose other members fill bound parameters; or
            a conversation: turns such as `error.messages`, or messages in OpenAI's form. For a file: a mapping of what it
            declares.
        tools: Functions or agents, or name → function, laid over the agent's for this run only.
        options: `history` (what was said before: `result.messages`), `options` (how the model samples: `{"temperature": 0}`),
            `max_iterations` (10), `on_event` (called with every event), `cancel` (a `Cancel`), `parallel_tool_calls`
            (True), `max_tool_calls`, `max_tokens`, `max_seconds`, `on_limit` ("error" or "answer"), `on_unknown_tool`
            ("raise" or "tell"), `retry`, `session`, `journal`, `steering` (a `Steering`), `guardrails` (a `Guardrails`),
            `approve` (asked about calls of tools that need an approval; without it the run waits, and `questions` of the
            result says for what), `approval_timeout` (seconds), `context_budget` (characters), `compaction` (who sums up
            what the budget cuts), `max_result_chars` (65,536: of a tool's result that the model is shown; None shows all)
            and `result_files` (a folder for the rest).
    """
    checked = checked_options(options)
    if isinstance(agent, Agent):
        return await _run_made(agent, inputs, tools, checked)
    return await _call(agent, inputs, tools, checked).result()


def _call(agent: AnyAgent, inputs: Inputs | None, tools: Tools | None, options: RunOptions) -> Call:
    from ronda.agent.pipeline import Call
    from ronda.agent.prompty_run import Source  # agents made in code need none of it

    return Call(Source(agent), inputs, tools, options)


async def _run_made(agent: Agent, inputs: Inputs | None, tools: Tools | None, options: RunOptions) -> Result:
    """An agent that was made in code."""
    start = Start(await open_agent(agent), inputs, await open_overlay(tools), False, options)
    with span("invoke_agent", signature="ronda.invoke_agent", inputs=inputs) as emit:
        await start.drive()
        result = outcome(start)
        emit("result", None if result.questions else result.output)
        return result


invoke_agent = blocking(invoke_agent_async, "invoke_agent")
run_agent = blocking(run_agent_async, "run_agent")


_BLOCK: Final = "write `async with stream_agent(…) as events:` around what reads the events"


class stream_agent(Generic[T]):  # noqa: N801  # used like a function: `async with stream_agent(agent, inputs) as events:`
    """Run an agent and iterate over its events as they happen; `events.result` is the answer once they are over.

    Leaving the block early cancels the run and waits until nothing of it is running. Takes what `run_agent` takes.
    """

    def __init__(
        self,
        agent: Agent[T] | Prompty | str | os.PathLike[str],
        inputs: Inputs | None = None,
        tools: Tools | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        self._args = agent, inputs, tools, checked_options(options)
        self._events: deque[Event] = deque()  # pulled, and not given out
        self._entered: tuple[Start, ChannelReader, asyncio.Task[Any]] | None = None

    async def __aenter__(self) -> Self:
        agent, inputs, tools, options = self._args
        if isinstance(agent, Agent):
            start = Start(await open_agent(agent), inputs, await open_overlay(tools), True, options)
        else:
            start = await _call(agent, inputs, tools, options).start(stream=True)
        reader = start.live.read(with_start=True)
        self._entered = start, reader, asyncio.create_task(start.drive())
        return self

    def _inside(self) -> tuple[Start, ChannelReader, asyncio.Task[Any]]:
        if self._entered is None:
            raise RuntimeError(_BLOCK)
        return self._entered

    if not TYPE_CHECKING:  # which says it anyway

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"{_BLOCK}, and `async for event in events:`; "
                "without async, `for text in invoke_agent(…, stream=True):` gives the text of the answer"
            )

        def __enter__(self) -> NoReturn:
            raise TypeError(_BLOCK)

        def __exit__(self, *_: object) -> None:
            pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._events:
            return self._events.popleft()
        start, reader, task = self._inside()
        while not (events := reader.pull()):
            if reader.is_over:
                await task
                start.result()  # a run without an answer ends the iteration with its error
                raise StopAsyncIteration
            await reader.wait()
        self._events.extend(events)
        return self._events.popleft()

    @property
    def run(self) -> Run:
        return self._inside()[0].run

    @property
    def result(self) -> T:
        """The answer. Asked for before the run is over, it says so."""
        start, _, _ = self._inside()
        if start.run.ended is None:
            raise RuntimeError("the run is not over yet; read its events to the end first")
        answer: T = start.result()
        return answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _, reader, task = self._inside()
        reader.close()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled() and error is None:
            task.exception()  # seen by the reader of the events; nothing more to say of it here
