"""Agents, and the library's doors: agent and inputs → run → drive → result.

One implementation: `invoke_agent_async` and `stream_agent` start a run the same way and differ in who reads its events;
the synchronous `invoke_agent` is a thin door in front. A plain caller gets a plain model call; whoever watches gets deltas.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.blocking import wait_for
from ronda.core.events import PREVIEWS, Event, RunStarted
from ronda.core.guardrails import Guardrails
from ronda.core.limits import LIBRARY_ROUNDS, Limits, Retry, Timeouts
from ronda.core.output import final_text
from ronda.core.parts import SystemTurn, Turn, UserTurn, user
from ronda.core.plan import AUTO, NO_OPTIONS, Options, Plan, ResponseFormat, ToolChoice
from ronda.core.run import Run
from ronda.core.steering import Steering
from ronda.core.summary import written_out
from ronda.drive import Provider, Summarize, Tool, ToolContext, ToolOutput, check_plan, drive, enforces_format
from ronda.errors import (
    BadConfig,
    BadRequest,
    ExecuteError,
    GuardrailError,
    LimitExceeded,
    RunCancelled,
    RunEnded,
    ToolMissing,
)
from ronda.providers import KEY_NAMES, URL_NAMES, Where, open_provider, split_spec
from ronda.tools.function import BoundTool, FunctionTool, as_tool
from ronda.trace.run import RunSpans, run_spans
from ronda.trace.spans import span

if TYPE_CHECKING:
    from typing import Self

    from ronda.children import Family
    from ronda.journal import Journal
    from ronda.prompty.model import Prompty

AnyAgent: TypeAlias = "Agent | Prompty | str | os.PathLike[str]"
Inputs: TypeAlias = str | Mapping[str, Any] | Sequence[Turn]
Tools: TypeAlias = Sequence[Tool | Callable[..., Any]] | Mapping[str, Tool | Callable[..., Any]]
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
            keep(self, "options", replace(self.options, response_format=output_format(self.output)))

    @property
    def provider(self) -> Provider:
        """What its model is called through."""
        return self._provider

    def _open(self, spec: str) -> Provider:
        return open_provider(spec, where_is(spec, self.base_url, self.api_key, self.timeouts))


def where_is(spec: str, base_url: str | None = None, key: str | None = None, timeouts: Timeouts | None = None) -> Where:
    """How to reach a model: what is not said comes from the environment, under the names its vendor's SDK reads.

    An empty key is none at all, wherever it goes.
    """
    provider = split_spec(spec)[0]
    environ = os.environ
    return Where(
        base_url or environ.get(URL_NAMES.get(provider, "")),
        next((environ[name] for name in KEY_NAMES.get(provider, ()) if environ.get(name)), None)
        if key is None
        else key or None,
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

    def _was_cancelled(self) -> bool:
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


class _Stop:
    """Ends one run, from any thread. Once that run is over it does nothing, however late it comes."""

    __slots__ = ("_cancel", "_landed", "_live", "_loop", "_task")

    def __init__(self, cancel: Cancel) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._cancel = cancel
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._live = True
        self._landed = False

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the run with it
            self._loop.call_soon_threadsafe(self._land)

    def _land(self) -> None:
        if self._live:
            self._landed = True
            self._task.cancel()

    def is_why(self) -> bool:
        """Whether the task is being cancelled for our sake alone."""
        return self._cancel.is_cancelled and self._task.cancelling() <= self._landed

    def over(self) -> None:
        self._live = False
        if self._landed:
            self._task.uncancel()


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
    parent: tuple[str, int] | None
    owner: str
    steering: Steering | None
    context_budget: int | None
    compaction: Summarize | AnyAgent | None
    guardrails: Guardrails | Mapping[str, Callable[..., Any]] | None


class FileRun(Protocol):
    """What a run of a prompty file brings along: its messages, and how its answer is read.

    `once` is one model call and no more: calls go to the caller, and an answer in the wrong form is not asked for again.
    """

    once: bool
    overlay: Tools | None  # tools that were given for this run alone

    @property
    def turns(self) -> Sequence[Turn]: ...

    def take(self, batch: Sequence[Event]) -> None: ...

    def answer(self, run: Run) -> Any: ...

    def rescued(self, run: Run) -> str | None: ...


class _Start:
    """A run that is about to be driven, and what it is driven with."""

    __slots__ = (
        "agent",
        "cancel",
        "facts",
        "family",
        "file",
        "guardrails",
        "journal",
        "on_event",
        "run",
        "steering",
        "summarize",
        "tools",
    )

    def __init__(
        self,
        agent: Agent,
        inputs: Inputs,
        tools: Tools | None,
        stream: bool,
        options: RunOptions,
        file: FileRun | None = None,
    ) -> None:
        if not isinstance(agent, Agent):
            raise BadConfig(f"{agent!r} is not an agent; make one with Agent(model=…, instructions=…, tools=[…])")
        self.agent = agent
        self.file = file
        self.facts = 1  # how many there are, with RunStarted: where a child goes on from
        self.family: Family | None = None
        self.on_event = options.get("on_event")
        self.cancel = options.get("cancel")
        self.journal = options.get("journal")
        self.steering = options.get("steering")
        self.guardrails = _guardrails(options.get("guardrails"))
        self.summarize = _summarizer(options.get("compaction"))
        self.tools = _bound(_laid_over(agent._tools, tools), inputs)
        parallel = options.get("parallel_tool_calls", True)
        plan = Plan(
            model=agent.model if isinstance(agent.model, str) else type(agent.model).__name__,
            tools=tuple([tool.spec for tool in self.tools.values()]),
            choice=agent.tool_choice,
            options=agent.options if parallel or file else replace(agent.options, parallel_tool_calls=False),
            limits=_limits(options),
            retry=options.get("retry") or agent.retry or Retry(),
            parallel=parallel,
            stream=stream or self.on_event is not None,
            format_is_enforced=enforces_format(agent._provider, agent.options),
            on_unknown_tool=options.get("on_unknown_tool", "raise"),
            asks_again=file is None or not file.once,
            context_budget=_budget(options.get("context_budget")),
            guards=tuple([stage for stage in _STAGES if getattr(self.guardrails, stage, None) is not None]),
        )
        check_plan(agent._provider, plan)
        start = RunStarted(
            f"run_{os.urandom(12).hex()}",
            plan,
            tuple(file.turns) if file is not None else _turns(agent, inputs),
            time.time(),
            parent=options.get("parent"),
            session=options.get("session", ""),
            owner=options.get("owner", ""),
        )
        self.run = Run(start)
        if self.journal is not None:
            self.journal.append(self.run.id, [start])

    async def drive(self, emit: Callable[[list[Event]], None] | None = None) -> None:
        """Drive the run. `emit` sees every batch after the journal and the caller's `on_event`."""
        stop = self._stop_from_outside()
        spans = run_spans(self.run)
        try:
            if self.on_event is not None:
                self.on_event(self.run.start)
            await drive(
                self.run,
                provider=self.agent._provider,
                tools=self.tools if spans is None else spans.around(self.tools),
                emit=self._emitter(emit, spans),
                barrier=partial(self.journal.barrier, self.run.id) if self.journal is not None else None,
                steering=self.steering,
                guardrails=self.guardrails,
                summarize=self.summarize,
                is_cancelled=None if self.cancel is None else self.cancel._was_cancelled,
                start_child=self._start_child,
                at_once=spans is not None,
            )
        except asyncio.CancelledError:
            if stop is None or not stop.is_why():
                raise  # else it was asked for through the token: an outcome of the run, and not of the task
        finally:
            if stop is not None:
                stop.over()
            if spans is not None:
                spans.close()
            if stop is not None and self.cancel is not None:
                self.cancel._forget(stop)
            if self.journal is not None:
                try:
                    await self.journal.barrier(self.run.id)
                finally:
                    self.journal.release(self.run.id)

    async def _start_child(self, context: ToolContext, agent: Any, inputs: dict[str, Any], mode: str) -> ToolOutput:
        from ronda.children import start_child  # most agents start no other

        return await start_child(self, context, agent, inputs, mode)

    def _emitter(
        self, emit: Callable[[list[Event]], None] | None, spans: RunSpans | None
    ) -> Callable[[list[Event]], None]:
        journal, on_event, id = self.journal, self.on_event, self.run.id
        file = self.file
        if journal is None and on_event is None and spans is None and file is None:
            return emit or _to_nobody

        def all_of_them(batch: list[Event]) -> None:
            if type(batch[0]) not in PREVIEWS:
                self.facts += len(batch)
            if journal is not None:
                journal.append(id, batch)
            if file is not None:
                file.take(batch)
            if spans is not None:
                spans.take(batch)
            if on_event is not None:
                for event in batch:
                    on_event(event)
            if emit is not None:
                emit(batch)

        return all_of_them

    def _stop_from_outside(self) -> _Stop | None:
        if self.cancel is None:
            return None
        stop = _Stop(self.cancel)
        if not self.cancel.is_cancelled:
            self.cancel._stop_with(stop)
        return stop

    def result(self) -> Any:
        """The final text, or the structured value; the exception that says why there is none."""
        run = self.run
        end = run.ended
        if end is None or end.reason == "cancelled":
            raise RunCancelled("the run was cancelled", run.turns, run=run.id)
        if end.reason == "failed":
            if self.file is not None and (said := self.file.rescued(run)) is not None:
                return said
            raise _failure(run)
        if end.reason == "limit" and run.plan.limits.on_limit == "error":
            raise LimitExceeded(end.message or "the run reached a limit", run.turns, run=run.id)
        if self.file is not None:
            return self.file.answer(run)
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


_STAGES: tuple[Literal["input", "output", "tool"], ...] = ("input", "output", "tool")


def _guardrails(given: Guardrails | Mapping[str, Callable[..., Any]] | None) -> Guardrails | None:
    if given is None or isinstance(given, Guardrails):
        return given
    unknown = given.keys() - set(_STAGES)
    if unknown:
        raise BadRequest(f"there is no guardrail {min(unknown)!r}; there are {', '.join(_STAGES)}", param="guardrails")
    return Guardrails(**given)


def _budget(characters: int | None) -> int | None:
    if characters is not None and characters < 1:
        raise BadRequest(f"context_budget is {characters}; it counts characters, from 1 on", param="context_budget")
    return characters


def _summarizer(compaction: Summarize | AnyAgent | None) -> Summarize | None:
    """Whoever sums up: a function of the turns that go, or an agent that is given them as text."""
    if compaction is None or (callable(compaction) and not isinstance(compaction, Agent)):
        return compaction
    agent = compaction

    async def ask(turns: Sequence[Turn]) -> str:
        text = written_out(turns)
        return str(await invoke_agent_async(agent, {"input": text, "conversation": text}))

    return ask


def _failure(run: Run) -> RunEnded:
    assert run.ended is not None
    message = run.ended.message or "the run failed"
    if (denied := run.denied) is not None:
        return GuardrailError(message, run.turns, run=run.id, stage=denied.stage, reason=denied.problem)
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


async def _start(
    agent: AnyAgent, inputs: Inputs | None, tools: Tools | None, stream: bool, options: RunOptions
) -> _Start:
    """An agent made in code, or a file, and its inputs → a run that is about to be driven."""
    if isinstance(agent, Agent):
        return _Start(agent, () if inputs is None else inputs, tools, stream, options)
    from ronda.join import start_file  # those who make their agents in code need none of it

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
    """Run an agent to its answer. See `invoke_agent`."""
    checked = _checked(options)
    if stream or hold or not isinstance(agent, Agent):
        from ronda.pipeline import invoke_file

        return await invoke_file(agent, inputs, tools, stream, hold, checked)
    start = _Start(agent, () if inputs is None else inputs, tools, False, checked)
    with span("invoke_agent", signature="ronda.invoke_agent", inputs=inputs) as emit:
        await start.drive()
        result = start.result()
        emit("result", result)
        return result


def invoke_agent(
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
    return wait_for(invoke_agent_async(agent, inputs, tools, stream=stream, hold=hold, **options))


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

    def __init__(
        self, agent: AnyAgent, inputs: Inputs | None = None, tools: Tools | None = None, **options: Any
    ) -> None:
        self._args = (agent, inputs, tools, True, _checked(options))
        self._batches: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._start: _Start
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._start = await _start(*self._args)
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
