"""The one place that awaits for a run: does what `Run.todo` says and reports what happened as events.

    emit(batch)    takes events at once and never waits: followers, journal and writers are behind it
    barrier()      waits until everything emitted is kept; before a tool starts, and before the end is shown

What it asks of others are two small protocols, `Provider` and `Tool`. It knows no vendor, no HTTP and no storage. Cancelling
the task that drives a run cancels the run: nothing keeps running, what was shown is kept, and the run ends `cancelled`.

A lone action is awaited inline, and previews go out one batch per socket read: a task and a queue for every action cost
a tenth to a fifth of a whole round.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ronda.core.actions import CallModel, CallTool, Check, Finish
from ronda.core.events import (
    Checked,
    Event,
    Fact,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    Preview,
    RunFinished,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.output import fold
from ronda.core.parts import NULL, AssistantPart, AssistantTurn, Attachment, ToolCall, ToolResult, user
from ronda.core.plan import AUTO, NONE, Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.core.transcript import repair, settle
from ronda.errors import BadRequest, UpstreamError
from ronda.schema.validate import validator_for

Show: TypeAlias = Callable[[list[Preview]], None]
Emit: TypeAlias = Callable[[list[Event]], None]
Barrier: TypeAlias = Callable[[], Awaitable[None]]
Exclusive: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]


class Provider(Protocol):
    """A model somewhere. Raises UpstreamError; once it has shown something it is not asked to repeat it."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished: ...


def check_plan(provider: Provider, plan: Plan) -> None:
    """Let a provider that can tell refuse what it cannot do, by name and before a run starts."""
    check = getattr(provider, "check", None)
    if check is not None:
        check(plan)


class ToolContext(Struct, frozen=True, gc=False):
    """What a tool may know of where it runs. `key` is the same when the same call is tried again."""

    run: str
    session: str
    round: int
    call_id: str

    @property
    def key(self) -> str:
        return f"{self.run}-{self.round}-{self.call_id}"


class ToolOutput(Struct, frozen=True, gc=False):
    content: str
    attachments: tuple[Attachment, ...] = ()
    failed: bool = False


class Tool(Protocol):
    """Something that runs a call. It raises freely: any exception becomes a failed result the model can read."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput: ...


async def drive(
    run: Run,
    *,
    provider: Provider,
    tools: Mapping[str, Tool],
    emit: Emit,
    barrier: Barrier | None = None,
    exclusive: Exclusive | None = None,
    now: Callable[[], float] = time.time,
    jitter: Callable[[], float] = random.random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Drive a run to its end. Returns when it has ended, or raises CancelledError after recording that it was cancelled."""
    await _Driver(run, provider, tools, emit, barrier, exclusive, now, jitter, sleep).drive()


class _Driver:
    __slots__ = (
        "barrier",
        "emit",
        "exclusive",
        "is_strict",
        "jitter",
        "now",
        "pending",
        "provider",
        "run",
        "scratch",
        "shown",
        "sleep",
        "tools",
        "turns",
    )

    def __init__(
        self,
        run: Run,
        provider: Provider,
        tools: Mapping[str, Tool],
        emit: Emit,
        barrier: Barrier | None,
        exclusive: Exclusive | None,
        now: Callable[[], float],
        jitter: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.run = run
        self.provider = provider
        self.tools = tools
        self.emit = emit
        self.barrier = barrier
        self.exclusive = exclusive
        self.now = now
        self.jitter = jitter
        self.sleep = sleep
        self.pending: list[Event] = []
        self.shown: list[Preview] = []  # of the model call under way: what is kept of it if it breaks off
        self.scratch: dict[str, Any] = {}
        self.is_strict = any(spec.strict for spec in run.plan.tools)
        self.turns = repair(run.turns)  # what the model is shown; the stored copy stays as it was

    # ---- telling the world -------------------------------------------------------------------------------------------

    def record(self, event: Fact) -> None:
        self.run.apply(event)
        self.pending.append(event)

    def flush(self) -> None:
        if self.pending:
            batch, self.pending = self.pending, []
            self.emit(batch)

    def show(self, batch: list[Preview]) -> None:
        self.shown += batch
        self.emit(batch)  # type: ignore[arg-type]  # a list of previews is read as a list of events, never written to

    async def keep(self) -> None:
        self.flush()
        if self.barrier is not None:
            await self.barrier()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        try:
            if (seconds := self.run.plan.limits.seconds) is None:
                await self._loop()
            else:
                await self._loop_for(seconds)
        except asyncio.CancelledError:
            self._break_off("cancelled", "cancelled")
            self.flush()
            raise

    async def _loop_for(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds) as clock:
                await self._loop()
        except TimeoutError:
            if not clock.expired():
                raise
            self._break_off("limit", f"the run took longer than its {seconds:g} seconds")
            await self.keep()

    async def _loop(self) -> None:
        todo = self.run.todo
        while True:
            actions = todo()
            match actions[0]:
                case CallModel() as action:
                    await self._call_model(action)
                case CallTool():
                    await self._call_tools([action.call for action in actions if type(action) is CallTool])
                case Check(text=text):
                    self.record(Checked(_problem_with(text, self.run), self.now()))
                case Finish() as end:
                    self.record(RunFinished(end.reason, end.limit, end.message, end.answer, self.now()))
                    await self.keep()
                    return

    def _break_off(self, reason: str, message: str) -> None:
        """Cancelled, or out of time: keep what was shown, answer what was asked, end the run."""
        run = self.run
        if run.ended is not None:
            return
        partial = fold(self.shown)
        said_something = run.model_is_running and bool(partial.text)
        if run.model_is_running:
            self.record(ModelInterrupted(partial, message, self.now()))
        if reason == "cancelled":
            self.record(RunFinished("cancelled", message="the run was cancelled", at=self.now()))
        else:
            answer = None if run.plan.limits.on_limit == "error" or said_something else f"I stopped: {message}."
            self.record(RunFinished("limit", "max_seconds", message, answer, self.now()))

    # ---- models ------------------------------------------------------------------------------------------------------

    async def _call_model(self, action: CallModel) -> None:
        run = self.run
        plan = run.plan
        round, last, nudge = action.round, action.last, action.nudge
        self.record(ModelStarted(round, last, nudge, self.now()))
        if plan.stream:
            self.flush()
        if self.turns is not run.turns and len(run.turns) > len(run.start.turns):
            # The input needed repair; what came after is ours and needs none.
            self.turns = [*repair(run.start.turns), *run.generated]
        turns = self.turns if nudge is None else [*self.turns, user(nudge)]
        obliged = round == 0 or (nudge is not None and not run.tool_rounds)
        choice = NONE if last else plan.choice if obliged else _after_first(plan.choice)
        request = ModelRequest(turns, plan.tools, choice, plan.options, plan.stream, run.id, round, 1, self.scratch)
        try:
            finished = await self._try(request)
        except _Interrupted as broken:
            self.record(ModelInterrupted(fold(self.shown), broken.reason, self.now()))
            self.record(Warned(f"the model's answer broke off: {broken.reason}", self.now()))
        except _GaveUp as failed:
            self.record(ModelFailed(failed.reason, failed.status, failed.tries, self.now()))
        else:
            finished, warnings = settle(finished, run)
            if self.is_strict and finished.turn.calls:
                finished, more = _fitted(finished, run)
                warnings += more
            self.record(ModelFinished(finished.turn, finished.usage, finished.logprobs, self.now()))
            for warning in warnings:
                self.record(Warned(warning, self.now()))

    async def _try(self, request: ModelRequest) -> ModelFinished:
        """One answer, or as many tries as the plan allows: but none after something was shown."""
        retry = self.run.plan.retry
        began = self.now()
        while True:
            self.shown = []
            try:
                return await self.provider.call(request, self.show)
            except BadRequest as error:  # the provider cannot do what the plan asks for, and nothing changes that
                raise _GaveUp(str(error), error.status_hint, request.attempt) from error
            except UpstreamError as error:
                reason = str(error)
                if self.shown:
                    raise _Interrupted(reason) from error
                tries = request.attempt
                again = error.retryable and tries < retry.tries
                if error.connection and not retry.retry_connection_errors:
                    again = False
                wait = retry.wait(tries, self.jitter()) if error.retry_after is None else error.retry_after
                if wait > retry.max_interval:
                    again = False
                if retry.max_elapsed_time is not None and self.now() + wait - began > retry.max_elapsed_time:
                    again = False
                if not again:
                    raise _GaveUp(reason, error.status, tries) from error
            request.attempt += 1
            self.record(ModelRetried(request.attempt, retry.tries, reason, wait, self.now()))
            self.flush()
            await self.sleep(wait)

    # ---- tools -------------------------------------------------------------------------------------------------------

    async def _call_tools(self, calls: list[ToolCall]) -> None:
        run = self.run
        for call in calls:
            self.record(ToolStarted(call.id, self.now()))
        await self.keep()
        if len(calls) == 1 and len(run.open_calls) == 1:
            self.record(ToolFinished(await self._call_tool(calls[0]), self.now()))
            return
        tasks = [asyncio.create_task(self._call_tool(call)) for call in calls]
        try:
            while tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:  # in the model's order, so that the same run tells the same story
                    if task.done():
                        self.record(ToolFinished(task.result(), self.now()))
                tasks = [task for task in tasks if not task.done()]
                # One that finished may let another begin: the next of a sequence, or of an exclusive key.
                started = [action.call for action in run.todo() if type(action) is CallTool]
                for call in started:
                    self.record(ToolStarted(call.id, self.now()))
                if started:
                    await self.keep()
                    tasks += [asyncio.create_task(self._call_tool(call)) for call in started]
                elif tasks:
                    self.flush()
        except asyncio.CancelledError:
            for task in tasks:  # what was done before the cancellation came is done, and not to be called unknown
                if task.done() and not task.cancelled():
                    self.record(ToolFinished(task.result(), self.now()))
            raise
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _call_tool(self, call: ToolCall) -> ToolResult:
        tool = self.tools.get(call.name)
        if tool is None:  # the plan names a handler that is not here any more, e.g. after a restart with another config
            return ToolResult(call.id, f"Error: Tool '{call.name}' failed: it is not available any more", failed=True)
        spec = tool.spec
        run = self.run
        context = ToolContext(run.id, run.start.session, run.round - 1, call.id)
        try:
            arguments = _checked(call, spec)
            if spec.exclusive is not None and self.exclusive is not None:
                async with self.exclusive(spec.exclusive):
                    output = await _bounded(tool, arguments, context, spec.timeout)
            else:
                output = await _bounded(tool, arguments, context, spec.timeout)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            # Nobody cancelled us: the tool awaited something that was cancelled, which is its own failure.
            return ToolResult(call.id, f"Error: Tool '{call.name}' failed: it was cancelled", failed=True)
        except Exception as error:  # whatever a tool raises is news for the model, never the end of the loop
            return ToolResult(call.id, f"Error: Tool '{call.name}' failed: {_said(error)}", failed=True)
        return ToolResult(call.id, _as_text(output.content), output.failed, output.attachments)


_decode_arguments = msgspec.json.Decoder(dict[str, Any]).decode


def _checked(call: ToolCall, spec: ToolSpec) -> dict[str, Any]:
    """Arguments as the handler may have them: what the model wrote for bound parameters is dropped, the rest is checked."""
    arguments = _decode_arguments(call.arguments)
    for name in spec.bound:
        arguments.pop(name, None)
    problem = validator_for(bytes(spec.parameters)).explain(arguments)
    if problem is not None:
        raise ValueError(f"the arguments do not fit: {problem}")
    return arguments


def _fitted(finished: ModelFinished, run: Run) -> tuple[ModelFinished, list[str]]:
    """Calls of strict tools satisfy their schema from here on, or say why not."""
    from ronda.schema.strict import fit  # where nothing is strict, nothing of it is loaded

    parts: list[AssistantPart] = []
    warnings: list[str] = []
    for part in finished.turn.parts:
        spec = run.tools.get(part.name) if type(part) is ToolCall else None
        if type(part) is ToolCall and spec is not None and spec.strict and part.problem is None:
            fitting = fit(part, spec)
            if len(fitting.repairs) > len(part.repairs):
                warnings.append(f"the arguments of '{part.name}' were repaired: {', '.join(fitting.repairs)}")
            part = fitting
        parts.append(part)
    turn = AssistantTurn(tuple(parts), finished.turn.stop, finished.turn.native)
    return ModelFinished(turn, finished.usage, finished.logprobs, finished.at), warnings


def _problem_with(text: str, run: Run) -> str | None:
    """What keeps an answer from being the JSON that was asked for."""
    asked = run.plan.options.response_format
    assert asked is not None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        return f"it is not JSON ({error})"
    if asked.type == "json_object" or asked.schema == NULL:
        return None if isinstance(value, dict) or asked.type == "json_schema" else "it is JSON, but not an object"
    return validator_for(bytes(asked.schema)).explain(value)


async def _bounded(tool: Tool, arguments: dict[str, Any], context: ToolContext, timeout: float | None) -> ToolOutput:
    if timeout is None:
        return await tool.run(arguments, context)
    try:
        async with asyncio.timeout(timeout) as clock:
            return await tool.run(arguments, context)
    except TimeoutError:
        if clock.expired():
            raise TimeoutError(f"timed out after {timeout:g} seconds") from None
        raise


def _said(error: Exception) -> str:
    return _as_text(str(error)) or type(error).__name__


def _as_text(said: str) -> str:
    """Without lone surrogates, as odd file names have them: no journal and no provider could write them."""
    if said.isascii():
        return said
    return said.encode("utf-8", "replace").decode()


def _after_first(choice: ToolChoice) -> ToolChoice:
    """An obligation binds the first round only; a restriction stays."""
    if choice.mode != "required":
        return choice
    return ToolChoice("auto", choice.names) if choice.names and not choice.named else AUTO


class _Interrupted(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason


class _GaveUp(Exception):
    def __init__(self, reason: str, status: int | None, tries: int) -> None:
        self.reason = reason
        self.status = status
        self.tries = tries
