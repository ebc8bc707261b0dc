"""The loop that awaits: what `Run.todo` says is done, and what happened is recorded, told and kept.

A lone action is awaited inline, and previews go out one batch per socket read: a task and a queue for every action cost
a tenth to a fifth of a whole round.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, assert_never

from msgspec.structs import force_setattr, replace

from ronda.core.actions import Action, Ask, CallModel, CallTool, Check, Compact, Finish
from ronda.core.call_ids import CallIds
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
    Released,
    RunFinished,
    Steered,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from ronda.core.guardrails import Guardrails
from ronda.core.output import announces, fold, was_shown
from ronda.core.parts import NO_USAGE, AssistantTurn, File, KnownTurns, ToolCall, Turn, Usage, UserTurn, known_of, user
from ronda.core.plan import AUTO, NONE, Options
from ronda.core.request import ModelRequest, Wait
from ronda.core.run import PROCESS_ENDED, Run
from ronda.core.steering import Steering
from ronda.core.transcript import repair, settle, whole_results
from ronda.drive import guards, questions
from ronda.drive.answers import fit_calls, problem_with
from ronda.drive.contracts import (
    Barrier,
    Emit,
    Exclusive,
    OpenLongResults,
    StartChild,
    StopReason,
    Summarize,
    Tool,
    child_id,
)
from ronda.drive.inbox import Inbox, wait_for_first
from ronda.drive.model_state import ModelState
from ronda.drive.offload import LIGHT, LIGHT_BYTES, is_heavy
from ronda.drive.provider import Provider
from ronda.drive.tools import Waiting, as_text, call_tool, show_progress
from ronda.errors import BadRequest, ProtocolError, UpstreamError, quote_names

SUPERSEDED: Final = "another request interrupted this run, because it continues the session or deletes it"
LEFT_OUT: Final = "It has read private data and a stranger's words, and its service sends data out without asking"
TIMED_EVERY: Final = 0.05  # seconds: previews of a model call that come closer together do not all say when they came
AT_ONCE = 64  # calls that begin in one turn of the event loop: each takes it some 100 µs


class Driver:
    """Drives a run to its end, or until it `is_waiting`: then it can be driven on when it is answered.

    What the run's plan asks for besides is set on it: `guardrails`, who sums up (`summarize`; else an excerpt will do), what
    people say meanwhile (`steering`) and send to it (`inbox`: their answers), how tools start agents (`start_child`), and a
    folder for them (`workspace`). `is_cancelled` is asked before every step, for callers that cannot wait for the next await.
    With `at_once` a model call is reported before it is made, also where no previews are shown.
    """

    # Many, and read in every round: slots stay quick however many there are, an instance's dictionary does not.
    __slots__ = (
        "at_once", "barrier", "call_ids", "emit", "exclusive", "first_at", "guardrails", "has_callers", "inbox", "is_cancelled",
        "is_listening", "is_strict", "jitter", "long_results", "loop", "model_state", "now", "pending", "progressed",
        "provider", "room", "run", "sampled", "scratch", "shown", "shown_at", "size", "sleep", "start_child", "steering",
        "summarize", "tools", "turns", "turns_before", "warned", "why_stopped", "workspace",
    )  # fmt: skip

    def __init__(
        self, run: Run, provider: Provider, tools: Mapping[str, Tool], emit: Emit, barrier: Barrier | None
    ) -> None:
        self.run = run
        self.provider = provider
        self.tools = tools
        self.emit = emit
        self.barrier = barrier
        self.exclusive: Exclusive | None = None
        self.steering: Steering | None = None
        self.inbox: Inbox | None = None
        self.guardrails: Guardrails | None = None
        self.summarize: Summarize | None = None
        self.is_cancelled: Callable[[], bool] | None = None
        self.start_child: StartChild | None = None
        self.room: Wait | None = None
        self.long_results: OpenLongResults | None = None
        self.model_state: ModelState | None = None
        self.why_stopped: Callable[[], StopReason] | None = None
        self.workspace: str | None = None
        self.at_once = False
        self.is_listening = False  # it waits for a model or for tools: what people send is recorded at once
        # Clock, chance and time, for tests.
        self.now: Callable[[], float] = time.time
        self.jitter: Callable[[], float] = random.random
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.pending: list[Event] = []
        self.shown: list[Preview] = []  # of the model call under way: what is kept of it if it breaks off
        self.first_at = 0.0  # of the same: when the first of it was shown, …
        self.shown_at = 0.0  # … and the last that says when
        self.call_ids: CallIds | None = None  # of the same, once something of it is shown
        self.size = 0  # of the run, at its last model call …
        self.turns_before = 0  # … and how many turns that was
        self.scratch: dict[str, Any] = {}
        self.warned: set[str] = set()  # what a provider says in every round is said once
        self.progressed: dict[str, int] = {}  # bytes that a call has shown
        self.sampled: dict[str, tuple[int, Usage]] = {}  # how often a call has asked the model, and what that used
        self.is_strict = bool(run.plan.tools) and any(spec.strict for spec in run.plan.tools)
        self.has_callers = run.plan.has_callers
        # What the model is shown; the stored copy stays as it was. What began with words has calls of ours, which are answered.
        self.turns = run.turns if run.began_with_words else repair(run.turns, known_of(run.start.turns))

    def go_on_from(self, scratch: dict[str, Any]) -> None:
        """What was written down for a run before, whose turns this one begins with."""
        turns = self.run.start.turns
        if scratch and type(turns) is KnownTurns:
            self.size, self.turns_before = turns.size, turns.known
        self.scratch = scratch

    # ---- telling the world -------------------------------------------------------------------------------------------

    def record(self, event: Fact) -> None:
        self.run.apply(event)
        self.pending.append(event)

    def flush(self) -> None:
        if self.pending:
            batch, self.pending = self.pending, []
            emit = self.emit
            emit(batch)

    def show(self, batch: Sequence[Preview]) -> bool:
        """False if the followers are far behind."""
        if self.has_callers:
            if self.call_ids is None:
                self.call_ids = CallIds(self.run)
            batch = self.call_ids.under_new_ids(batch)
        now = self.now()
        if now - self.shown_at >= TIMED_EVERY or not self.shown:
            if batch:
                force_setattr(batch[0], "at", now)
            self.shown_at = now
            if not self.shown:
                self.first_at = now
        self.shown += batch
        emit = self.emit
        return emit(batch) is not False  # type: ignore[arg-type]  # a list of previews is read as one of events, never written to

    async def keep(self) -> None:
        self.flush()
        if self.barrier is not None:
            await self.barrier()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        self.loop = asyncio.get_running_loop()
        if self.inbox is not None:
            self.inbox.on_arrival = self.listen
        try:
            if (seconds := self.run.plan.limits.seconds) is None:
                await self._loop()
            else:
                await self._loop_for(seconds)
        except asyncio.CancelledError:
            why: StopReason = "cancelled" if self.why_stopped is None else self.why_stopped()
            if why == "let go":
                self._release()
            else:
                self._break_off(why, why)
            self.flush()
            raise
        finally:
            if self.inbox is not None:
                self.inbox.on_arrival = None

    def listen(self) -> None:
        """People have sent something. Guardrails and summaries are not disturbed: the next step looks."""
        if self.is_listening and self.inbox:
            questions.receive(self)
            self.flush()

    async def _loop_for(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds - self.run.driven)) as clock:
                await self._loop()
        except TimeoutError:
            if not clock.expired():
                raise
            self._break_off("limit", f"the run took longer than its {seconds:g} seconds")
            await self.keep()
        finally:
            del clock  # it knows the task, whose cancellation would know it by this frame

    async def _loop(self) -> None:
        todo = self.run.todo
        while True:
            if self.is_cancelled is not None:
                self._stop_if_cancelled()
            if self.steering is not None and self.steering.has_pending and self.run.can_be_steered:
                for text in self.steering.drain():
                    self.record(Steered(user(as_text(text)), self.now()))
            if self.inbox is not None and self.inbox.messages:
                questions.receive(self)
            actions = todo()
            if not actions:
                if not self.run.is_waiting:
                    raise ProtocolError(f"run {self.run.id} has nothing to do, but it neither waits nor has ended")
                await self.keep()
                if not self.inbox and not questions.expire(self):
                    return
                continue
            match actions[0]:
                case CallModel() as action:
                    await self._call_model(action)
                case CallTool() | Ask():
                    await self._call_tools(actions)
                case Finish() as end:
                    self.record(RunFinished(end.reason, end.limit, end.message, end.answer, self.now(), end.code))
                    await self.keep()
                    return
                case Check(stage=stage, text=text):
                    if stage == "format":
                        self.record(Checked(problem_with(text, self.run), self.now()))
                    else:
                        await guards.check(self, actions)
                case Compact() as action:
                    await guards.compact(self, action)
                case action:
                    assert_never(action)

    def _stop_if_cancelled(self) -> None:
        """A run that was cancelled from inside one of its own steps must not take another before the loop comes round."""
        if self.is_cancelled is not None and self.is_cancelled():
            raise asyncio.CancelledError

    def _release(self) -> None:
        """The next driver is to know that this process ended in order."""
        run = self.run
        if run.ended is not None or run.is_waiting:
            return
        if run.model_is_running:
            self.record(ModelInterrupted(fold(self.shown), PROCESS_ENDED, self.now()))
        self.record(Released(self.now()))

    def _break_off(self, reason: Literal["cancelled", "superseded", "interrupted", "limit"], message: str) -> None:
        """Cancelled, or out of time: keep what was shown, answer what was asked, end the run."""
        run = self.run
        if run.ended is not None:
            return
        partial = fold(self.shown)
        said_something = run.model_is_running and bool(partial.text)
        if run.model_is_running:
            self.record(ModelInterrupted(partial, message, self.now()))
        if reason == "cancelled":
            self.record(RunFinished(reason, message="the run was cancelled", at=self.now()))
        elif reason == "superseded":
            self.record(RunFinished("cancelled", message=SUPERSEDED, at=self.now(), code=reason))
        elif reason == "interrupted":
            why = "the run was interrupted: the server is stopping"
            self.record(RunFinished(reason, message=why, at=self.now()))
        elif run.hands_over and run.plan.limits.on_limit == "answer":
            self.record(RunFinished("tool_calls", "max_seconds", message, at=self.now()))
        else:
            answer = None if run.plan.limits.on_limit == "error" or said_something else f"I stopped: {message}."
            self.record(RunFinished("limit", "max_seconds", message, answer, self.now()))

    # ---- models ------------------------------------------------------------------------------------------------------

    async def _call_model(self, action: CallModel) -> None:
        run = self.run
        plan = run.plan
        now = self.now
        round_index, last, nudge = action.round, action.last, action.nudge
        started = ModelStarted(round_index, last, nudge, now(), action.owes)
        self.record(started)
        if plan.stream or self.at_once:
            self.flush()
        turns = self.turns_shown()
        if nudge is not None:
            turns = [*turns, user(nudge)]
        choice = plan.choice
        if last:
            choice = NONE
        elif not action.owes and choice is not AUTO:
            choice = choice.when_met
        stream = plan.stream and "output" not in plan.guards  # what a guardrail has not seen is not shown
        most, new, self.size = plan.limits.answer_bytes, run.size - self.size, run.size
        heavy = (new > LIGHT or len(turns) < self.turns_before) and self._is_heavy(turns, new)
        self.turns_before = len(turns)
        request = ModelRequest(
            turns,
            run.shown_tools,
            choice,
            plan.options,
            stream,
            run.id,
            round_index,
            1,
            self.scratch,
            most,
            heavy,
            self.room,
        )
        if run.left_out:
            self._leave_out(request)
        while True:  # as many tries as the plan allows, but none after something was shown
            self.shown = []
            self.first_at = 0.0
            self.call_ids = None
            self.is_listening = True
            try:
                finished = await self.provider.call(request, self.show)
                break
            except BadRequest as error:  # the provider cannot do what the plan asks for, and nothing changes that
                code = error.code or ""
                self.record(ModelFailed(str(error), error.status_hint, request.attempt, self.now(), code=code))
                return
            except UpstreamError as error:
                if self.model_state is not None:
                    self.model_state.failed(error)
                if was_shown(self.shown, plan, started):
                    await self._break_answer_off(str(error), started)
                    return
                if (wait := self._wait_before_retry(error, request.attempt, started.at)) is None:
                    failed = ModelFailed(
                        str(error), error.status, request.attempt, self.now(), error.too_long, error.code
                    )
                    self.record(failed)
                    return
                retried = ModelRetried(request.attempt + 1, plan.retry.tries, str(error), wait, self.now())
            finally:
                self.is_listening = False
            request.attempt += 1
            self.record(retried)
            self.flush()
            await self.sleep(wait)
            self._stop_if_cancelled()
        if self.model_state is not None and self.model_state.failed_at is not None:
            self.model_state.answered()
        news = self._news_in(finished.warnings) if finished.warnings else []
        finished, warnings = settle(finished, run)
        if _are_to_fit(finished.turn, self.is_strict):
            finished, more = fit_calls(finished, run)
            warnings += more
        self.record(
            ModelFinished(
                finished.turn,
                finished.usage,
                finished.logprobs,
                now(),
                held=finished.held,
                budget=finished.budget,
                first_at=self.first_at,
                model=finished.model,
            )
        )
        for warning in news + warnings:
            self.record(Warned(warning, now()))

    def _leave_out(self, request: ModelRequest) -> None:
        """The model's own service is not asked to run what would send out what the run has read."""
        request.left_out = left_out = self.run.left_out
        request.choice = request.choice.without(left_out)
        what = quote_names(sorted([name.rpartition(":")[2] for name in left_out]))  # hosted:web_search
        for warning in self._news_in([f"{what}: not offered to the model any more. {LEFT_OUT}"]):
            self.record(Warned(warning, self.now()))

    def _news_in(self, warnings: Sequence[str]) -> list[str]:
        news = [warning for warning in warnings if warning not in self.warned]
        self.warned.update(news)
        return news

    async def _break_answer_off(self, reason: str, started: ModelStarted) -> None:
        """Something of the answer was shown before it broke off."""
        run, plan = self.run, self.run.plan
        partial, announced = fold(self.shown), announces(self.shown, plan, started)
        self.record(ModelInterrupted(partial, reason, self.now(), "upstream", announced))
        self.record(Warned(f"the model's answer broke off: {reason}", self.now()))
        if not run.is_ending:
            self.flush()
            await self.sleep(plan.retry.wait(run.breaks, self.jitter()))
            self._stop_if_cancelled()

    def _wait_before_retry(self, error: UpstreamError, tries: int, began: float) -> float | None:
        """Seconds until the model is asked again; None if it is not."""
        retry = self.run.plan.retry
        if not error.retryable or tries >= retry.tries or (error.connection and not retry.retry_connection_errors):
            return None
        wait = retry.wait(tries, self.jitter()) if error.retry_after is None else error.retry_after
        is_late = retry.max_elapsed_time is not None and self.now() + wait - began > retry.max_elapsed_time
        return None if is_late or wait > retry.max_interval else wait

    def _is_heavy(self, turns: Sequence[Turn], new: int) -> bool:
        """Whether what is new in these turns, which is all that a wire writes down, would hold others up."""
        if 0 < self.turns_before <= len(turns):
            return new > LIGHT_BYTES
        return is_heavy(turns, self.run.plan.tools)  # the first, or what was written does not hold any more

    def turns_shown(self) -> Sequence[Turn]:
        """What the model is shown, every call of it answered."""
        run = self.run
        if run.shown is not run.turns:
            return repair(run.shown)
        if self.turns is not run.turns and len(run.turns) > len(run.start.turns):
            # The input needed repair; what came after is ours and needs none.
            self.turns = [*repair(run.start.turns, known_of(run.start.turns)), *run.generated]
        return self.turns

    # ---- tools -------------------------------------------------------------------------------------------------------

    async def _call_tools(self, actions: list[Action]) -> None:
        calls = self._begin(actions)
        await self.keep()
        if len(calls) == 1 and self.run.open_count == 1:
            self.is_listening = True
            if self.inbox is not None and self.inbox.messages:
                self.listen()
            try:
                done = await call_tool(self, calls[0])
            finally:
                self.is_listening = False
            self.finished(done)
            return
        tasks: list[asyncio.Task[ToolFinished | Waiting]] = []
        try:
            while tasks or calls:
                if calls:
                    tasks += [asyncio.create_task(call_tool(self, call)) for call in calls[:AT_ONCE]]
                    calls = calls[AT_ONCE:]
                if calls:
                    await asyncio.sleep(0)  # others have their turn
                else:
                    await self._next_of(tasks)
                for task in tasks:  # in the model's order, so that the same run tells the same story
                    if task.done():
                        self.finished(task.result())
                tasks = [task for task in tasks if not task.done()]
                # One that finished may let another begin: the next of a sequence, or of an exclusive key.
                if calls:
                    continue
                if calls := self._begin(await self._startable()):
                    await self.keep()
                elif tasks:
                    self.flush()
        except asyncio.CancelledError:
            for task in tasks:  # what was done before the cancellation came is done, and not to be called unknown
                if task.done() and not task.cancelled():
                    self.finished(task.result())
            raise
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _begin(self, actions: list[Action]) -> list[ToolCall]:
        """Put the questions, and say which calls start: recorded both, and kept before anything comes of them."""
        started: list[ToolCall] = []
        run, now = self.run, self.now
        for action in actions:
            if type(action) is CallTool:
                call = action.call
                child = child_id(run.id, run.round - 1, call.id) if run.tools[call.name].is_agent else ""
                self.record(ToolStarted(call.id, now(), call.name, child))
                started.append(call)
            elif type(action) is Ask:
                questions.ask(self, action.call)
        return started

    async def _next_of(self, tasks: list[asyncio.Task[ToolFinished | Waiting]]) -> None:
        """Until one of them is done, or a question is answered that keeps another from starting."""
        if self.inbox:
            return
        waits: list[asyncio.Future[Any]] = [*tasks]
        if self.inbox is not None and self.run.questions:
            waits.append(self.inbox.arrival())
        self.is_listening = True
        try:
            await wait_for_first(waits)
        finally:
            self.is_listening = False

    async def _startable(self) -> list[Action]:
        self._stop_if_cancelled()
        if self.inbox:
            questions.receive(self)
        actions = self.run.todo()
        while actions and type(actions[0]) is Check and actions[0].stage == "tool":
            await guards.check(self, actions)
            self._stop_if_cancelled()
            actions = self.run.todo()
        return actions

    def finished(self, done: ToolFinished | Waiting) -> None:
        if isinstance(done, ToolFinished):
            now = self.now
            force_setattr(done, "at", now())  # it was not shown yet
            if self.sampled:
                _, usage = self.sampled.pop(done.result.call_id, (0, NO_USAGE))
                done = replace(done, usage=done.usage + usage)
            self.record(done)
        else:
            for question in done.questions:
                self.record(replace(question, at=self.now()))

    # ---- what tools may ask of us --------------------------------------------------------------------------------------

    @property
    def files(self) -> tuple[File, ...]:
        given = [turn for turn in self.run.start.turns if type(turn) is UserTurn]
        return tuple([part for turn in given for part in turn.parts if type(part) is File])

    @property
    def whole_results(self) -> frozenset[str]:
        return whole_results(self.run.start.turns)

    @property
    def marks(self) -> frozenset[str]:
        return self.run.marks

    def progress(self, call_id: str, text: str, stream: str = "", part: int = 0) -> None:
        show_progress(self, ToolProgressed(call_id, text, stream, part, at=self.now()))

    async def ask(self, call_id: str, message: str, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return await questions.ask_person(self, call_id, message, schema)

    async def ask_model(self, call_id: str, turns: Sequence[Turn], options: Options) -> ModelFinished:
        from ronda.drive.sampling import ask_model  # few tools do

        return await ask_model(self, call_id, turns, options)


def _are_to_fit(turn: AssistantTurn, is_strict: bool) -> bool:
    """Whether calls of a turn must be looked at: most runs have no strict tool, and most calls no null."""
    for part in turn.parts:  # noqa: SIM110  # asked in every round: a generator costs more than the rest of it
        if type(part) is ToolCall and (is_strict or "null" in part.arguments):
            return True
    return False
