"""Agents, and the library's doors: agent and inputs → run → drive → result.

One implementation: `invoke_agent_async` and `stream_agent` start a run the same way and differ in who reads its events;
the synchronous `invoke_agent` is a thin door in front. A plain caller gets a plain model call; whoever watches gets deltas.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Raw

from ronda.core.events import Event, RunStarted
from ronda.core.limits import LIBRARY_ROUNDS, Limits, Retry, Timeouts
from ronda.core.output import final_text
from ronda.core.parts import SystemTurn, Turn, UserTurn, user
from ronda.core.plan import AUTO, NO_OPTIONS, Options, Plan, ResponseFormat, ToolChoice
from ronda.core.run import Run
from ronda.drive import Provider, Tool, check_plan, drive
from ronda.errors import (
    BadConfig,
    BadRequest,
    ExecuteError,
    LimitExceeded,
    RunCancelled,
    RunEnded,
    ToolMissing,
)
from ronda.providers import KEY_NAMES, URL_NAMES, Where, open_provider, split_spec
from ronda.tools.function import BoundTool, FunctionTool, as_tool

if TYPE_CHECKING:
    from typing import Self

    from ronda.journal import Journal

Inputs: TypeAlias = str | Mapping[str, Any] | Sequence[Turn]
Tools: TypeAlias = Sequence[Tool | Callable[..., Any]] | Mapping[str, Callable[..., Any]]
OnEvent: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True, eq=False)
class Agent:
    """Instructions, a model, tools and limits: a value, made in code. Sharing one between threads and loops is fine.

    `model` is a spec such as `"openai-chat:gpt-5"`, or anything with a `call` (a `ScriptedModel`). `output` asks for
    JSON: a JSON Schema (the result is the decoded value) or a type msgspec can read (the result is an instance of it).
    """

    model: str | Provider
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    instructions: str = ""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    options: Options = NO_OPTIONS
    tool_choice: ToolChoice = AUTO
    output: Any = None
    retry: Retry | None = None
    timeouts: Timeouts | None = None
    name: str = "agent"
    _provider: Provider = field(init=False, repr=False)
    _tools: dict[str, Tool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "_tools", tool_table(self.tools))
        keep(self, "_provider", self._open(self.model) if isinstance(self.model, str) else self.model)
        if self.output is not None:
            keep(self, "options", msgspec.structs.replace(self.options, response_format=output_format(self.output)))

    def _open(self, spec: str) -> Provider:
        return open_provider(spec, where_is(spec, self.base_url, self.api_key, self.timeouts))


def where_is(spec: str, base_url: str | None = None, key: str | None = None, timeouts: Timeouts | None = None) -> Where:
    """How to reach a model: what is not said comes from the environment, under the names its vendor's SDK reads."""
    provider = split_spec(spec)[0]
    environ = os.environ
    return Where(
        base_url or environ.get(URL_NAMES.get(provider, "")),
        environ.get(KEY_NAMES.get(provider, "")) if key is None else key,
        timeouts,
    )


def tool_table(tools: Sequence[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    table: dict[str, Tool] = {}
    for item in tools:
        tool = as_tool(item)
        if tool.spec.name in table:
            raise BadConfig(f"two tools are named '{tool.spec.name}'; give one of them another name")
        table[tool.spec.name] = tool
    return table


def output_format(output: Any) -> ResponseFormat:
    schema = output if isinstance(output, Mapping) else msgspec.json.schema(output)
    name = "answer" if isinstance(output, Mapping) else getattr(output, "__name__", "answer")
    return ResponseFormat("json_schema", name, Raw(msgspec.json.encode(schema)))


class Cancel:
    """Stops a run from anywhere, any thread: `cancel()` once, and every run it was given to ends `cancelled`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []
        self._cancelled = False

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def _stop_with(self, stop: Callable[[], None]) -> None:
        with self._lock:
            if not self._cancelled:
                self._stops.append(stop)
                return
        stop()

    def _forget(self, stop: Callable[[], None]) -> None:
        with self._lock:
            if stop in self._stops:
                self._stops.remove(stop)


class RunOptions(TypedDict, total=False):
    """What the doors take beside agent, inputs and tools."""

    max_iterations: int
    max_tool_calls: int | None
    max_tokens: int | None
    max_seconds: float | None
    on_limit: Literal["error", "answer"]
    on_unknown_tool: Literal["raise", "tell"]
    on_event: OnEvent | None
    cancel: Cancel | None
    parallel_tool_calls: bool
    retry: Retry | None
    session: str
    journal: Journal | None


class _Start:
    """A run that is about to be driven, and what it is driven with."""

    __slots__ = ("agent", "cancel", "journal", "on_event", "run", "tools")

    def __init__(self, agent: Agent, inputs: Inputs, tools: Tools | None, stream: bool, options: RunOptions) -> None:
        if not isinstance(agent, Agent):
            raise BadConfig(f"{agent!r} is not an agent; make one with Agent(model=…, instructions=…, tools=[…])")
        self.agent = agent
        self.on_event = options.get("on_event")
        self.cancel = options.get("cancel")
        self.journal = options.get("journal")
        self.tools = _bound(_laid_over(agent._tools, tools), inputs)
        parallel = options.get("parallel_tool_calls", True)
        plan = Plan(
            model=agent.model if isinstance(agent.model, str) else type(agent.model).__name__,
            tools=tuple([tool.spec for tool in self.tools.values()]),
            choice=agent.tool_choice,
            options=agent.options if parallel else msgspec.structs.replace(agent.options, parallel_tool_calls=False),
            limits=_limits(options),
            retry=options.get("retry") or agent.retry or Retry(),
            parallel=parallel,
            stream=stream or self.on_event is not None,
            format_is_enforced=getattr(agent._provider, "enforces_format", False),
            on_unknown_tool=options.get("on_unknown_tool", "raise"),
        )
        check_plan(agent._provider, plan)
        start = RunStarted(
            f"run_{os.urandom(12).hex()}", plan, _turns(agent, inputs), time.time(), session=options.get("session", "")
        )
        self.run = Run(start)
        if self.journal is not None:
            self.journal.append(self.run.id, [start])

    async def drive(self, emit: Callable[[list[Event]], None] | None = None) -> None:
        """Drive the run. `emit` sees every batch after the journal and the caller's `on_event`."""
        stop = self._stop_from_outside()
        try:
            if self.cancel is not None and self.cancel.is_cancelled:
                raise asyncio.CancelledError
            await drive(
                self.run,
                provider=self.agent._provider,
                tools=self.tools,
                emit=self._emitter(emit),
                barrier=partial(self.journal.barrier, self.run.id) if self.journal is not None else None,
            )
        except asyncio.CancelledError:
            if self.cancel is None or not self.cancel.is_cancelled:
                raise
            # Asked for through the token, so it is an outcome of the run and not of the task.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        finally:
            if stop is not None and self.cancel is not None:
                self.cancel._forget(stop)
            if self.journal is not None:
                try:
                    await self.journal.barrier(self.run.id)
                finally:
                    self.journal.release(self.run.id)

    def _emitter(self, emit: Callable[[list[Event]], None] | None) -> Callable[[list[Event]], None]:
        journal, on_event, id = self.journal, self.on_event, self.run.id
        if journal is None and on_event is None:
            return emit or _to_nobody

        def all_of_them(batch: list[Event]) -> None:
            if journal is not None:
                journal.append(id, batch)
            if on_event is not None:
                for event in batch:
                    on_event(event)
            if emit is not None:
                emit(batch)

        return all_of_them

    def _stop_from_outside(self) -> Callable[[], None] | None:
        if self.cancel is None or self.cancel.is_cancelled:
            return None
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            loop.call_soon_threadsafe(task.cancel)

        self.cancel._stop_with(stop)
        return stop

    def result(self) -> Any:
        """The final text, or the structured value; the exception that says why there is none."""
        run = self.run
        end = run.ended
        if end is None or end.reason == "cancelled":
            raise RunCancelled("the run was cancelled", run.turns, run=run.id)
        if end.reason == "failed":
            raise _failure(run)
        if end.reason == "limit" and run.plan.limits.on_limit == "error":
            raise LimitExceeded(end.message or "the run reached a limit", run.turns, run=run.id)
        text = final_text(run)
        return text if self.agent.output is None else self._structured(text)

    def _structured(self, text: str) -> Any:
        output = self.agent.output
        try:
            if isinstance(output, Mapping):
                return msgspec.json.decode(text)
            return msgspec.json.decode(text, type=output)
        except msgspec.DecodeError as error:
            message = f"the model's answer is not what `output` asks for: {error}"
            raise RunEnded(message, self.run.turns, run=self.run.id) from error


def _failure(run: Run) -> RunEnded:
    assert run.ended is not None
    message = run.ended.message or "the run failed"
    if (failed := run.failure) is not None:
        if failed.tries > 1:
            message = f"LLM call failed after {failed.tries} retries: {message}"
        return ExecuteError(message, run.turns, run=run.id)
    if message.startswith(("Tool not registered", "No handler registered")):
        return ToolMissing(message, run.turns, run=run.id)
    return ExecuteError(message, run.turns, run=run.id)


def _to_nobody(batch: list[Event]) -> None:
    return


def _limits(options: RunOptions) -> Limits:
    rounds = options.get("max_iterations", LIBRARY_ROUNDS)
    if rounds < 1:
        raise BadRequest(f"max_iterations is {rounds}; a run needs at least 1", param="max_iterations")
    return Limits(
        rounds=rounds,
        tool_calls=options.get("max_tool_calls"),
        tokens=options.get("max_tokens"),
        seconds=options.get("max_seconds"),
        # Whoever says how many rounds a run may have means it, even of a tool that is polled with the same arguments.
        repeats=max(Limits().repeats, rounds + 1) if "max_iterations" in options else Limits().repeats,
        on_limit=options.get("on_limit", "error"),
    )


def _laid_over(table: dict[str, Tool], tools: Tools | None) -> dict[str, Tool]:
    """This run's tools: the agent's, with those given for this run on top. Neither is changed."""
    if tools is None:
        return table
    if isinstance(tools, Mapping):
        over = {name: as_tool(handler, name) for name, handler in tools.items()}
        return {**table, **over}
    return {**table, **tool_table(tools)}


def _bound(table: dict[str, Tool], inputs: Inputs) -> dict[str, Tool]:
    if not any(isinstance(tool, FunctionTool) and tool.bindings for tool in table.values()):
        return table
    bound: dict[str, Tool] = {}
    for name, tool in table.items():
        if not isinstance(tool, FunctionTool) or not tool.bindings:
            bound[name] = tool
            continue
        values = {}
        for parameter, source in tool.bindings.items():
            if not isinstance(inputs, Mapping) or source not in inputs:
                raise BadRequest(
                    f"tool '{name}' binds {parameter!r} to the input {source!r}, which was not given", param=source
                )
            values[parameter] = inputs[source]
        bound[name] = BoundTool(tool, values)
    return bound


def _turns(agent: Agent, inputs: Inputs) -> tuple[Turn, ...]:
    instructions: tuple[Turn, ...] = (SystemTurn(agent.instructions),) if agent.instructions else ()
    if isinstance(inputs, str):
        return (*instructions, user(inputs))
    if isinstance(inputs, Mapping):
        if not isinstance(text := inputs.get("input"), str):
            raise BadRequest(
                "inputs need the user's message under 'input' when the agent is made in code", param="input"
            )
        return (*instructions, user(text))
    turns = tuple(inputs)
    if not turns or not all(isinstance(turn, Turn) for turn in turns):
        raise BadRequest("inputs are the user's message, a mapping with 'input', or the turns of a conversation")
    # A conversation that was saved brings its own instructions.
    return turns if not isinstance(turns[0], UserTurn) else (*instructions, *turns)


async def invoke_agent_async(agent: Agent, inputs: Inputs, tools: Tools | None = None, **options: Any) -> Any:
    """Run an agent to its answer. See `invoke_agent`."""
    start = _Start(agent, inputs, tools, False, _checked(options))
    await start.drive()
    return start.result()


def invoke_agent(agent: Agent, inputs: Inputs, tools: Tools | None = None, **options: Any) -> Any:
    """Run an agent to its answer and return it: the final text, or the structured value if the agent asks for one.

    Args:
        agent: The agent.
        inputs: The user's message; or a mapping with it under `input`, whose other members fill bound parameters; or
            the turns of a conversation, such as `error.messages`.
        tools: Functions, or name → function, laid over the agent's for this run alone.
        options: `max_iterations` (10), `on_event` (called with every event), `cancel` (a `Cancel`), `parallel_tool_calls`
            (True), `max_tool_calls`, `max_tokens`, `max_seconds`, `on_limit` ("error" or "answer"), `on_unknown_tool`
            ("raise" or "tell"), `retry`, `session`, `journal`.
    """
    call = invoke_agent_async(agent, inputs, tools, **options)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call)
    return _in_another_thread(call)


def _in_another_thread(call: Any) -> Any:
    """From inside a running loop (a notebook): the run gets a loop of its own; this thread waits, as it was asked to."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append((asyncio.run(call), None))
        except BaseException as error:  # raised again in the thread that asked
            outcome.append((None, error))

    thread = threading.Thread(target=work, name="ronda-invoke")
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _checked(options: dict[str, Any]) -> RunOptions:
    unknown = options.keys() - RunOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(sorted(RunOptions.__annotations__))
        raise TypeError(f"unknown option {min(unknown)!r}; there is {known}")
    return options  # type: ignore[return-value]  # its keys were just checked


class stream_agent:  # noqa: N801  # used like a function: `async with stream_agent(agent, inputs) as events:`
    """Run an agent and iterate over its events as they happen; `events.result` is the answer once they are over.

    Leaving the block early cancels the run and waits until nothing of it is running. Takes what `invoke_agent` takes.
    """

    def __init__(self, agent: Agent, inputs: Inputs, tools: Tools | None = None, **options: Any) -> None:
        self._args = (agent, inputs, tools, True, _checked(options))
        self._batches: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._start: _Start
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._start = _Start(*self._args)
        self._batches.append(self._start.run.start)
        self._task = asyncio.create_task(self._start.drive(self._take))
        self._task.add_done_callback(self._ring)
        return self

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
        while not self._batches:
            if self._task.done():
                self._task.result()
                self._start.result()  # a run without an answer ends the iteration with its error
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        return self._batches.popleft()

    @property
    def run(self) -> Run:
        return self._start.run

    @property
    def result(self) -> Any:
        """The answer. Asked for before the run is over, it says so."""
        if self._start.run.ended is None:
            raise RuntimeError("the run is not over yet; read its events to the end first")
        return self._start.result()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if not self._task.cancelled() and error is None:
            self._task.exception()  # seen by whoever read the events; nothing more to say of it here
