"""An agent, its inputs and the caller's options → a run that is about to be driven, and in the end its result."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.agent.cancel import Cancel, Stop
from ronda.agent.checks import AGENT_FIELDS, RUN_OPTIONS, misfit, unknown_name
from ronda.agent.toolsets import Tools, split_tools
from ronda.agent.value import Agent, AnyOptions, Inputs, ModelOptions, read_options
from ronda.core.events import AgentFile, Event, RunStarted
from ronda.core.guardrails import AnyGuardrails, Guardrails, guarded_stages, read_guardrails
from ronda.core.limits import LEAST_RESULT_CHARS, MAX_ITERATIONS, RESULT_CHARS, RETRY, Limits, Retry
from ronda.core.parts import SystemTurn, Turn, user
from ronda.core.permissions import check_rules
from ronda.core.plan import PermissionRule, Plan, ToolSpec
from ronda.core.run import Run
from ronda.core.steering import Steering
from ronda.core.transcript import final_text, whole_results
from ronda.drive import Inbox, LongResults, OpenLongResults, Tool, ToolContext, ToolOutput, capabilities_of
from ronda.drive.contracts import NO_DEPS
from ronda.drive.offload import load
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
from ronda.host.extension import Extension
from ronda.host.run import LiveRun
from ronda.tools.deps import give_deps
from ronda.tools.function import BoundTool, FunctionTool, as_tool
from ronda.wire.shared.conversation import Messages, read_turns, without_instructions

if TYPE_CHECKING:
    from ronda.agent.approve import Approve
    from ronda.agent.compaction import AnyCompaction
    from ronda.files.file_store import FileStore
    from ronda.journal import Journal

OnEvent: TypeAlias = Callable[[Event], None]


class RunOptions(TypedDict, total=False):
    """What the doors take besides agent, inputs and tools."""

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
    compaction: AnyCompaction | None
    guardrails: AnyGuardrails | None
    approve: Approve | None  # asked about each call of a tool whose approval is "ask"
    permissions: Sequence[PermissionRule] | None  # which calls are asked about, or refused
    approval_timeout: float | None  # seconds that a question stays open
    workspace: str | os.PathLike[str] | None  # a folder that tools find in their ToolContext
    max_result_chars: int | None  # of a tool's result that the model is shown; the rest it reads from a file. None: all
    result_files: str | os.PathLike[str] | FileStore | None  # a folder for those files
    history: Messages | None  # what was said before: `result.messages`, or messages in OpenAI's form
    record: str | os.PathLike[str] | None  # a file to write the run to, as a cassette: see `ronda.testing.replay`
    options: AnyOptions | None  # how the model samples in this run: {"temperature": 0}
    deps: Any  # what tools find in their ToolContext[…].deps; children have it, too
    extensions: Sequence[Extension]  # what is around each model call, and is told about facts; children have them, too


def checked_options(options: RunOptions) -> RunOptions:
    if (unknown := unknown_name(options, RunOptions.__annotations__)) is not None:
        name, hint = unknown
        if name in ModelOptions.__annotations__:
            hint = f"write options={{{name!r}: …}}"
        elif name in AGENT_FIELDS:
            hint = f"it belongs to the agent: Agent(…, {name}=…)"
        raise TypeError(f"unknown option {name!r}; {hint}")
    if (wrong := misfit(options, RUN_OPTIONS)) is not None:
        raise BadRequest(wrong[1], param=wrong[0])
    for name, allowed in (("on_limit", ("error", "answer")), ("on_unknown_tool", ("raise", "tell"))):
        if options.get(name, allowed[0]) not in allowed:
            value = options.get(name)
            raise BadRequest(f"{name} is {value!r}; it can be '{allowed[0]}' or '{allowed[1]}'", param=name)
    return options


class FileRun(Protocol):
    """What a run of a prompty file brings along: its messages, and how its answer is read.

    `once` is one model call and no more: calls go to the caller, and an answer in the wrong form is not asked for again.
    """

    once: bool

    @property
    def turns(self) -> Sequence[Turn]: ...

    def origin(self) -> tuple[AgentFile | None, dict[str, Raw]]:
        """What the run is opened again with: its file, and its inputs."""

    def take(self, batch: Sequence[Event]) -> None: ...

    def answer(self, run: Run) -> Any: ...


class Link(Struct, frozen=True):
    """Of a run that is a call of another: its id, the call's, the version of the agent, where that has several, and what the
    model that wrote its input had read."""

    run: str
    call: str
    version: int = 0
    marks: tuple[str, ...] = ()


class Start:
    """A run that is about to be driven, and what it is driven with."""

    __slots__ = ("agent", "cancel", "file", "live", "on_event", "run")

    def __init__(
        self,
        agent: Agent,
        inputs: Inputs | None,
        tools: Tools | None,
        stream: bool,
        options: RunOptions,
        file: FileRun | None = None,
        run: Run | None = None,
        link: Link | None = None,
    ) -> None:
        if not isinstance(agent, Agent):
            raise BadConfig(f"{agent!r} is not an agent; make one with Agent(model=…, instructions=…, tools=[…])")
        self.agent = agent
        self.file = file
        self.on_event = options.get("on_event")
        self.cancel = options.get("cancel")
        guards, journal = options.get("guardrails"), options.get("journal")
        guardrails = None if guards is None else read_guardrails(guards)
        deps = options.get("deps", NO_DEPS)
        if table := _bind_tools(_laid_over(agent._tools, tools), inputs):
            table = give_deps(table, deps)
        limit = options.get("max_result_chars", RESULT_CHARS) if run is None else run.plan.limits.result_chars
        long_results = LongResultsWhenNeeded(options.get("result_files"), journal, limit)
        # One that was started before goes on as it was planned then.
        self.run = self._new(inputs, table, stream, guardrails, options, link, long_results) if run is None else run
        provider, recorder = agent._provider, None
        if (path := options.get("record")) is not None:
            from ronda.agent.cassettes.recording import Recorder  # most runs are not recorded

            provider = recorder = Recorder(path, self.run, provider)
        live = self.live = LiveRun(self.run, provider, table, journal)
        if recorder is not None:
            live.add_tap(recorder.take)
        live.extensions = options.get("extensions", ())
        live.deps = deps
        live.steering = options.get("steering")
        live.guardrails = guardrails
        if (compaction := options.get("compaction")) is not None:
            from ronda.agent.compaction import read_summarizer  # for runs that are summed up

            live.summarize = read_summarizer(compaction)
        live.is_cancelled = None if self.cancel is None else self.cancel._was_cancelled
        live.start_child_of = start_child_of
        live.long_results = long_results
        if (workspace := options.get("workspace")) is not None:
            live.workspace = os.fspath(workspace)
        if file is not None:
            live.add_tap(file.take)
        if self.on_event is not None:
            live.add_tap(partial(_tell, self.on_event))
        if (approve := options.get("approve")) is not None:
            from ronda.agent.approve import Approver  # for runs that ask people

            live.inbox = Inbox(self.run)
            live.approver = Approver(approve, self.run, live.inbox)
            live.add_tap(live.approver.take)

    def _new(
        self,
        inputs: Inputs | None,
        table: dict[str, Tool],
        stream: bool,
        guardrails: Guardrails | None,
        options: RunOptions,
        link: Link | None,
        long_results: OpenLongResults,
    ) -> Run:
        agent, file = self.agent, self.file
        turns = tuple(file.turns) if file is not None else _turns(agent, inputs, options.get("history"))
        specs = [tool.spec for tool in table.values()]
        if whole_results(turns) and (file is None or not file.once):
            specs = _with_reader(specs, long_results)
        sampling, given = agent._options, options.get("options")
        if given is not None:
            sampling = read_options(given, sampling)
        parallel = options.get("parallel_tool_calls", True) and sampling.parallel_tool_calls is not False
        able = capabilities_of(agent._provider)
        if permissions := tuple(options.get("permissions") or ()):
            check_rules(permissions)
        plan = Plan(
            model=agent.model if isinstance(agent.model, str) else type(agent.model).__name__,
            tools=tuple(specs),
            choice=agent._choice,
            options=sampling if parallel or file else replace(sampling, parallel_tool_calls=False),
            limits=_limits(options),
            retry=options.get("retry") or agent.retry or RETRY,
            parallel=parallel,
            stream=stream or self.on_event is not None,
            format_is_enforced=able.enforces_format(sampling),
            format_is_wish=file is not None,  # as the specification has it: what is no JSON is text
            on_unknown_tool=options.get("on_unknown_tool", "raise"),
            asks_again=file is None or not file.once,
            context_budget=_read_budget(options.get("context_budget")),
            guards=() if guardrails is None else guarded_stages(guardrails),
            permissions=permissions,
        )
        able.check(plan)
        journal = options.get("journal")
        is_kept = journal is not None or options.get("record") is not None
        origin, kept = (None, {}) if file is None or not is_kept else file.origin()
        start = RunStarted(
            f"run_{os.urandom(12).hex()}" if link is None else link.run,
            plan,
            turns,
            time.time(),
            parent=options.get("parent"),
            session=options.get("session", ""),
            owner=options.get("owner", ""),
            agent=agent.name,
            inputs=kept,
            file=origin,
            call="" if link is None else link.call,
            version=0 if link is None else link.version,
            marks=() if link is None else link.marks,
        )
        run = Run(start)
        if journal is not None:
            journal.append(run.id, [start], run.size)
        return run

    def drive(self) -> Coroutine[Any, Any, object]:
        """Drive the run to its end, or until it waits."""
        if self.on_event is not None and self.live.facts == 1:
            self.on_event(self.run.start)
        return self.live.drive() if self.cancel is None else self._drive_unless(self.cancel)

    async def _drive_unless(self, cancel: Cancel) -> None:
        stop = Stop(cancel)
        if not cancel.is_cancelled:
            cancel._stop_with(stop)
        try:
            await self.live.drive()
        except asyncio.CancelledError:
            if not stop.is_why():
                raise  # else it was asked for through the token: an outcome of the run, and not of the task
        finally:
            stop.over()
            cancel._forget(stop)

    def result(self) -> Any:
        """The final text, or the structured value; the exception that says why there is none."""
        run = self.run
        end = run.ended
        if run.is_waiting:
            from ronda.agent.approve import waiting  # few runs wait

            raise waiting(run)
        if end is None or end.reason in ("cancelled", "interrupted"):
            raise RunCancelled("the run was cancelled", run.turns, run=run.id)
        if end.reason == "failed":
            raise _failure(run, of_file=self.file is not None)
        if end.reason == "limit" and run.plan.limits.on_limit == "error":
            raise LimitExceeded(end.message or "the run reached a limit", run.turns, run=run.id)
        if self.file is not None:
            return self.file.answer(run)
        text = final_text(run)
        return text if self.agent.output in (None, str) else self._structured(text)

    def _structured(self, text: str) -> Any:
        try:
            from ronda.schema.output import read_output  # for agents that answer with a value

            return read_output(self.agent.output, text)
        except ValueError as error:
            message = f"the model's answer is not what `output` asks for: {error}"
            raise RunEnded(message, self.run.turns, run=self.run.id) from error


def _tell(on_event: OnEvent, batch: Sequence[Event]) -> None:
    for event in batch:
        on_event(event)


class LongResultsWhenNeeded:
    """Where a run keeps the results that are too long for its model, opened for the first of them: most runs have none."""

    __slots__ = ("_journal", "_most", "_opened", "_place")

    def __init__(
        self, place: str | os.PathLike[str] | FileStore | None, journal: Journal | None, limit: int | None
    ) -> None:
        self._place = place
        self._journal = journal
        self._most = limit
        self._opened: LongResults | None = None

    def __call__(self) -> LongResults:
        if self._opened is None:
            from ronda.tools.files.long_result import open_long_results

            self._opened = open_long_results(self._place, self._journal, self._most)
        return self._opened


async def start_child_of(
    live: LiveRun, context: ToolContext, agent: Any, inputs: dict[str, Any], mode: str
) -> ToolOutput:
    await load("ronda.agent.children")
    from ronda.agent.children import start_child  # most agents start no other

    return await start_child(live, context, agent, inputs, mode)


def _failure(run: Run, *, of_file: bool) -> RunEnded:
    assert run.ended is not None
    message = run.ended.message or "the run failed"
    if (denied := run.denied) is not None:
        return GuardrailError(message, run.turns, run=run.id, stage=denied.stage, reason=denied.problem)
    if run.failure is None and run.ended.code == "tool_missing":
        return ToolMissing(message, run.turns, run=run.id)
    if run.failure is not None and run.failure.tries > 1:
        tries = run.failure.tries
        problem = (
            f"LLM call failed after {tries} retries"
            if of_file
            else f"the model was asked {tries} times, and failed each time"
        )
        message = f"{problem}: {message}"  # of a file: in the words that Prompty prescribes
    return ExecuteError(message, run.turns, run=run.id)


def _limits(options: RunOptions) -> Limits:
    rounds = options.get("max_iterations", MAX_ITERATIONS)
    for name in (
        "max_iterations",
        "max_tool_calls",
        "max_tokens",
        "max_seconds",
        "approval_timeout",
        "max_result_chars",
    ):
        limit = options.get(name)
        if limit is not None and (not isinstance(limit, (int, float)) or limit < 0):
            raise BadRequest(f"{name} is {limit!r}; it is a number, and not below 0", param=name)
    if rounds < 1:
        raise BadRequest(f"max_iterations is {rounds}; a run needs at least 1", param="max_iterations")
    maximum = options.get("max_result_chars", RESULT_CHARS)
    if maximum is not None and maximum < LEAST_RESULT_CHARS:
        problem = f"it counts characters, from {LEAST_RESULT_CHARS} on; None shows the model all of a result"
        raise BadRequest(f"max_result_chars is {maximum}; {problem}", param="max_result_chars")
    return Limits(
        rounds=rounds,
        tool_calls=options.get("max_tool_calls"),
        tokens=options.get("max_tokens"),
        seconds=options.get("max_seconds"),
        approval_seconds=options.get("approval_timeout"),
        repeats=None,  # a run ends at its own limit, with its own text; the model is told that it goes round in circles
        on_limit=options.get("on_limit", "error"),
        result_chars=maximum,
    )


def _with_reader(specs: list[ToolSpec], long_results: OpenLongResults) -> list[ToolSpec]:
    """A conversation in which a result was too long is continued: the model may still want to read the rest."""
    reader = long_results().reader.spec
    return specs if any(spec.name == reader.name for spec in specs) else [*specs, reader]


def _laid_over(table: dict[str, Tool], tools: Tools | None) -> dict[str, Tool]:
    """This run's tools: the agent's, with those given for this run on top. Neither is changed."""
    if tools is None:
        return table
    if isinstance(tools, Mapping):
        return {**table, **{name: as_tool(handler, name) for name, handler in tools.items()}}
    return {**table, **split_tools(tools)[0]}  # toolsets were opened before


def _bind_tools(table: dict[str, Tool], inputs: Inputs | None) -> dict[str, Tool]:
    bound = {
        name: BoundTool(tool, _bound_values(name, tool.bindings, inputs))
        for name, tool in table.items()
        if isinstance(tool, FunctionTool) and tool.bindings
    }
    return {**table, **bound} if bound else table


def _bound_values(name: str, bindings: Mapping[str, str], inputs: Inputs | None) -> dict[str, Any]:
    given = inputs if isinstance(inputs, Mapping) else {}
    for parameter, source in bindings.items():
        if source not in given:
            raise BadRequest(
                f"tool '{name}' binds {parameter!r} to the input {source!r}, which was not given", param=source
            )
    return {parameter: given[source] for parameter, source in bindings.items()}


def _turns(agent: Agent, inputs: Inputs | None, history: Messages | None) -> tuple[Turn, ...]:
    instructions: tuple[Turn, ...] = (SystemTurn(agent.instructions),) if agent.instructions else ()
    turns = _input_turns(() if inputs is None else inputs, history is not None)
    if history is not None:
        before: Sequence[Turn] = read_turns(history, "history")
        if instructions:  # the agent that is asked now answers, whichever answered before
            before = without_instructions(before)
        return (*instructions, *before, *turns)
    # A conversation that was saved brings its own instructions.
    return turns if isinstance(turns[0], SystemTurn) else (*instructions, *turns)


def _input_turns(inputs: Inputs, goes_on: bool) -> tuple[Turn, ...]:
    if isinstance(inputs, str):
        return (user(inputs),)
    if isinstance(inputs, Mapping):
        if not isinstance(text := inputs.get("input"), str):
            raise BadRequest(
                "inputs need the user's message under 'input' when the agent is made in code", param="input"
            )
        return (user(text),)
    if not isinstance(inputs, Iterable) or not (inputs or goes_on):
        raise BadRequest(
            "inputs are the user's message, a mapping with 'input', or a list of messages, {'role': …, 'content': …}"
        )
    return read_turns(inputs, "inputs")


def _read_budget(characters: int | None) -> int | None:
    if characters is not None and characters < 1:
        raise BadRequest(f"context_budget is {characters}; it counts characters, from 1 on", param="context_budget")
    return characters
