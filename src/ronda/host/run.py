"""A run under way: what it is driven with, its log, and its followers. The same for the library and for a server.

    drive()     in this task, until it is over or waits      start()    in a task of its own
    follow()    what was, then what comes                    cancel()   end it

What gets events at once, in the task that drives it, is a tap: the journal, spans, `on_event`. Taps must be quick. Followers,
which may be slow, read its log. A run without followers has none.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, cast

from ronda.core.events import PREVIEWS, WITHOUT_ANSWER, Asked, Event, Preview, RunFinished
from ronda.drive import (
    Exclusive,
    Inbox,
    Message,
    OpenLongResults,
    Provider,
    Receipt,
    StopReason,
    Summarize,
    Tool,
    ToolContext,
    ToolOutput,
)
from ronda.drive.contracts import NO_DEPS
from ronda.drive.driver import Driver
from ronda.errors import BadRequest, RondaError
from ronda.host.channel import Channel, ChannelReader
from ronda.host.durable_log import DurableLog
from ronda.host.extension import Extension, FactTaps, Tap, ToolExtension, tell_facts
from ronda.host.log import ALL_PREVIEWS, START, Follower, Log, Position
from ronda.trace.run import RunSpans, run_spans
from ronda.trace.spans import Emit, OpenSpan, Tracer, go_on, span

if TYPE_CHECKING:
    from ronda.core.guardrails import Guardrails
    from ronda.core.run import Run
    from ronda.core.steering import Steering
    from ronda.host.host import Host
    from ronda.journal import Journal

Outcome: TypeAlias = Literal["finished", "waiting"]
# A run, its tool's context, an agent, its inputs, "single" or "agentic" → what the agent said.
StartChildOf: TypeAlias = "Callable[[LiveRun, ToolContext, Any, dict[str, Any], str], Awaitable[ToolOutput]]"

BeforeEnd: TypeAlias = "Callable[[LiveRun], Awaitable[None]]"


class Approver(Protocol):
    """Who answers the run's questions while it is driven, and drives it on when it has."""

    @property
    def approve(self) -> Callable[[Asked], Any] | None:
        """Who is asked about the calls of children; None: no person can be asked."""

    async def drive(self, driving: Callable[..., Awaitable[None]]) -> None: ...


async def drive_on(run: Run, driving: Callable[..., Awaitable[None]], answer: Callable[[], Awaitable[bool]]) -> None:
    """Drive a run for as long as its questions are answered. `answer` returns when there is something to continue; or
    False if it should not be waited for any longer."""
    try:
        await driving()
        while run.is_waiting and await answer():
            await driving()
    except asyncio.CancelledError:
        if run.is_waiting:  # cancelled while it was not driven: it ends as it would have
            await driving(is_cancelled=lambda: True)
        raise


def look_at(task: asyncio.Task[Any]) -> None:
    """Whatever went wrong in a task that is over is reported elsewhere, or has no reader left: it is no loose end."""
    if not task.cancelled():
        task.exception()


class Folding(Protocol):
    def fold(self, sibling: int, batch: Sequence[Event]) -> None: ...


class Driven(ABC):
    """A run, or several one after another, that one task drives."""

    __slots__ = ("cancel_was_asked", "error", "task")

    task: asyncio.Task[Any] | None  # while it is driven
    error: BaseException | None  # of ours; what went wrong with a model or a tool is in the run
    cancel_was_asked: bool  # through another request than its own

    @abstractmethod
    def drive(self) -> Coroutine[Any, Any, object]:
        """Drive it in this task. Who waits for one run needs no second task for it."""

    @abstractmethod
    def _close(self) -> None:
        """Nothing more will come."""

    def start(self, finished: Callable[[Self], None] | None = None) -> None:
        """Drive it in a task of its own."""

        def over(task: asyncio.Task[object]) -> None:
            look_at(task)
            self.task = None
            self._close()  # a task that was cancelled before its first step has not done so
            if finished is not None:
                finished(self)

        self.task = asyncio.create_task(self.drive())
        self.task.add_done_callback(over)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class LiveRun(Driven):
    """Its maker sets what the run is driven with next to model and tools."""

    # Many, and nearly all read by every run: slots stay quick however many there are, an instance's dictionary does not.
    __slots__ = (
        "_calls", "_end", "_fact_taps", "_facts", "_handlers", "_host", "_size", "_taps", "_told", "_why",
        "approver", "before_end", "deps", "exclusive", "extensions", "facts", "family", "files", "goes_on", "guardrails",
        "inbox", "is_cancelled", "journal", "log", "long_results", "parent", "provider", "read_answer", "run",
        "scratch", "sleeping", "span", "start_child_of", "steering", "summarize", "tools", "workspace",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        provider: Provider,
        tools: Mapping[str, Tool],
        journal: Journal | None = None,
        host: Host | None = None,
        taps: Sequence[Tap] = (),
    ) -> None:
        self.task = self.error = None
        self.cancel_was_asked = False
        self.run = run
        self.provider = provider
        self.tools = tools
        self.journal = journal
        self.facts = 1  # how many there are, with RunStarted: where a child goes on from
        # Of most runs these stay as they are.
        self.inbox: Inbox | None = None  # None: its questions cannot be answered while it is driven
        self.approver: Approver | None = None
        self.guardrails: Guardrails | None = None
        self.steering: Steering | None = None
        self.summarize: Summarize | None = None
        self.exclusive: Exclusive | None = None
        self.is_cancelled: Callable[[], bool] | None = None
        self.start_child_of: StartChildOf | None = None
        self.span: OpenSpan | None = None  # that began before it was driven
        self.read_answer: Callable[[Run], Any] | None = None  # in a span of its own; called where there is a tracer
        self.workspace: str | None = None  # a folder for its tools
        self.long_results: OpenLongResults | None = None  # who keeps those that are too long for a model
        self.deps: Any = NO_DEPS  # what a program gave its tools
        self.files: Any = None  # where what its children make is kept; theirs to know
        self.goes_on = False  # it was begun before: what it has started may be there
        self.parent: LiveRun | None = None  # of a run that is a call of another: both stop for the same reason
        self.sleeping: frozenset[str] = frozenset()  # children that wait for people, or did
        self.family: Any = None  # what its children share; theirs to know
        self.scratch: dict[str, Any] | None = None  # what a provider wrote down for the run before it in its session
        self.before_end: BeforeEnd | None = None  # what is to be kept with its end, or not at all
        self._end: Sequence[Event] | None = None  # what is shown once it is kept
        self._why: StopReason = "cancelled"  # if it is stopped
        self.log: Log | None = None  # None without followers
        # Who is told first: the log, who waits until it is kept, or the one reader.
        self._told: Log | DurableLog | Channel | None = None
        self._facts: list[Event] = [run.start]  # that a log would have; a run of the library cannot be followed later
        self._host = host
        self._taps = taps
        self.extensions: Sequence[Extension] = () if host is None else host.extensions
        self._fact_taps: FactTaps | None = None  # of the extensions, while it is driven
        self._calls: Provider | None = None  # what its model calls go through, where an extension is around them
        self._handlers: Mapping[str, Tool] | None = None  # what its tool calls go through, likewise
        self._size = run.size  # of what was told
        if host is not None:
            must_be_kept = run.start.outlives or run.questions_asked > 0
            if run.plan.stream or must_be_kept:
                self._told = self.log = host.logs.open(run.start)
            if must_be_kept and self.log is not None and journal is not None:
                self._told = DurableLog(self.log, journal, run.id)

    def add_tap(self, tap: Tap) -> None:
        self._taps = (*self._taps, tap)

    def replay(self, events: Sequence[Event], previews: Mapping[int, Sequence[Preview]] | None = None) -> None:
        """What happened before another driver continues it: its facts, from RunStarted on, and what was shown after some."""
        self.facts = len(events)
        self.goes_on = True
        from ronda.host.orphans import waiting_children

        self.sleeping = waiting_children(self.run)
        if self.log is None:
            self._facts += events[1:]
            return
        for fact, event in enumerate(events):
            if fact:
                self.log.append([event])
            if previews and (shown := previews.get(fact)):
                self.log.show(shown)

    # ---- following ---------------------------------------------------------------------------------------------------

    def read(self, *, with_start: bool = False) -> ChannelReader:
        """Everything that happens in a run that was not driven yet, for its one reader."""
        assert self._told is None
        assert self.facts == 1
        self._told = channel = Channel([self.run.start] if with_start else [])
        return ChannelReader(channel)

    def follow(self, after: Position | None = START) -> Follower:
        """Everything after this position, which is the run's beginning if it is not given; None: with RunStarted."""
        if self.log is None:
            assert self._host is not None  # a run without a host keeps nothing for later followers
            self._told = self.log = self._host.logs.open(self.run.start)
            if len(self._facts) > 1:
                self.log.append(self._facts[1:])
        return self.log.follow(after)

    @property
    def last(self) -> Position:
        """The last position that a follower can have seen. What the journal keeps of a run is seen elsewhere a moment earlier."""
        if self.log is None:
            return len(self._facts) - 1, 0
        if type(self._told) is DurableLog and self._told.is_behind:
            return self.facts - 1, ALL_PREVIEWS
        return self.log.last

    @property
    def followers(self) -> int:
        return 0 if self.log is None else self.log.followers

    def fold_into(self, writer: Folding) -> None:
        """What happened, for a plain answer."""
        writer.fold(self.run.start.sibling, self.shown_facts())

    def shown_facts(self) -> Sequence[Event]:
        """The facts after RunStarted that may be shown."""
        return (self._facts if self.log is None else self.log.facts)[1:]

    # ---- driving -----------------------------------------------------------------------------------------------------

    async def drive(self) -> Outcome:
        run, host, journal = self.run, self._host, self.journal
        self.task = asyncio.current_task()
        if host is not None:
            host.live[run.id] = self
            if host.is_stopping:  # it came too late to be told with the others
                self.stop()
        if journal is not None:
            journal.count(run)
        spans: RunSpans | None = None
        try:
            if self.extensions:
                self._extend()
            if self.span is None and not Tracer.backends:  # nearly always
                await self._drive(None)
            elif host is None:  # the library's doors have spans of their own
                spans = run_spans(run)
                await self._drive(spans)
            else:
                with self._around() as emit:
                    spans = run_spans(run)
                    await self._drive(spans)
                    if spans is not None:
                        emit("result", self._answer())
        except asyncio.CancelledError:
            await self._end_cancelled()
            raise
        except Exception as error:
            self.error = error  # before the log is closed: its followers ask then
            raise
        finally:
            self._close()  # first: a follower that comes now finds the log among those that are over
            if host is not None:
                del host.live[run.id]
            if spans is not None:
                spans.close()
            self.task = None  # which knows us: a cycle would leave every run to the collector
            if journal is not None:
                try:
                    if host is None:
                        await journal.barrier(run.id)
                finally:
                    is_waiting = run.ended is None and run.is_waiting
                    journal.release(run.id, waiting=is_waiting)
                if self.sleeping and run.ended is not None:
                    from ronda.host.orphans import end_children  # for runs that have started others

                    await end_children(journal, self.sleeping, None if host is None else host.left_child)
                if is_waiting:  # the next answer may resume it at once, in another process
                    with suppress(RondaError):  # its questions are kept; their readers see that it waits
                        await journal.barrier(run.id)
        return "waiting" if run.ended is None else "finished"

    def _extend(self) -> None:
        self._fact_taps = FactTaps(self.run, self.extensions) or None
        calls, tools = self.provider, self.tools
        for extension in self.extensions:
            calls = extension.around(self.run, calls)
            if isinstance(extension, ToolExtension):
                tools = {name: extension.around_tool(self.run, tool) for name, tool in tools.items()}
        self._calls = None if calls is self.provider else calls
        self._handlers = None if tools is self.tools else tools

    async def _end_cancelled(self) -> None:
        """A client that asked for the end through another request is told about it when it is kept. Else it promises nothing."""
        try:
            if self._end is not None and self.cancel_was_asked:
                await self._barrier()
            elif self._end is not None and self.before_end is not None:
                await self.before_end(self)
        except Exception as error:
            self.error = error
            raise
        finally:
            self._keep_end()
            if self.error is None:
                self._show_end()

    def _around(self) -> AbstractContextManager[Emit]:
        """The span that this run is told in: it may have begun when the run was opened."""
        begun = self.span
        if begun is None:
            return span("invoke_agent", signature="ronda.invoke_agent", inputs=self.run.start.turns)
        self.span = None
        begun.emit("inputs", self.run.start.turns)
        return go_on(begun)

    def _answer(self) -> Any:
        end, read = self.run.ended, self.read_answer
        if end is None or end.reason in WITHOUT_ANSWER or read is None:
            return self.run.turns[-1:]
        return read(self.run)

    def _drive(self, spans: RunSpans | None) -> Awaitable[None]:
        if spans is not None:
            self._taps = (spans.take, *self._taps)
        if self.approver is None:
            return self._driver(spans).drive()
        return self.approver.drive(partial(self._drive_once, spans))

    async def _drive_once(self, spans: RunSpans | None, is_cancelled: Callable[[], bool] | None = None) -> None:
        driver = self._driver(spans)
        if is_cancelled is not None:
            driver.is_cancelled = is_cancelled
        await driver.drive()
        if self.journal is not None and self.run.is_waiting:
            self.journal.pause(self.run.id)

    def _driver(self, spans: RunSpans | None) -> Driver:
        told = self._told
        is_told = self._host is not None or self.journal is not None or told is not None or bool(self._taps)
        tools = self.tools if self._handlers is None else self._handlers
        driver = Driver(
            self.run,
            self.provider if self._calls is None else self._calls,
            tools if spans is None else spans.around(tools),
            self._emit if is_told or self._fact_taps is not None else _drop,
            None if self.journal is None else self._barrier,
        )
        driver.exclusive = self.exclusive
        driver.steering = self.steering
        driver.guardrails = self.guardrails
        driver.summarize = self.summarize
        driver.is_cancelled = self.is_cancelled
        driver.start_child = None if self.start_child_of is None else self._start_child
        driver.room = told.room if type(told) is Channel or type(told) is Log else None
        driver.why_stopped = self._why_stopped
        driver.inbox = self.inbox
        driver.workspace = self.workspace
        driver.long_results = self.long_results
        driver.at_once = spans is not None
        if (host := self._host) is not None and host.model is not None and host.model.provider is self.provider:
            driver.model_state = host.model
        if self.scratch is not None:
            driver.go_on_from(self.scratch)
        return driver

    def submit(self, message: Message) -> Receipt:
        """To the run while it is driven: an answer, or what the model is to hear. Raises what is wrong with an answer. The
        receipt is done once it is recorded; `tell` waits until it is kept."""
        if self.inbox is None:
            raise BadRequest(f"run '{self.run.id}' takes no messages")
        return self.inbox.submit(message)

    async def tell(self, receipts: Sequence[Receipt]) -> None:
        """Return once everything that these are of is recorded, and kept."""
        await asyncio.wait(receipts)
        for receipt in receipts:
            receipt.result()
        await self.keep()
        if self.error is not None:
            raise self.error

    def keep(self) -> Awaitable[None]:
        """Done once everything that happened so far is kept."""
        if type(self._told) is DurableLog:
            return self._told.keep()
        return _keep_nothing() if self.journal is None else self.journal.barrier(self.run.id)

    def end(self, finished: RunFinished) -> None:
        """End a run that is not driven: it has no result."""
        self.run.apply(finished)
        if self.journal is not None:
            self.journal.append(self.run.id, [finished])
            self.journal.release(self.run.id)
        tell_facts(self.extensions, self.run, [finished])
        self._tell([finished])
        self._close()

    def discard(self, why: str) -> None:
        """Of a run that was opened: it will not be driven, so that it ends, unless it has."""
        if self.run.ended is None:
            self.end(RunFinished("cancelled", message=why, at=time.time()))
        else:
            self._close()

    def leave(self) -> None:
        """It is not driven here any more: its next driver resumes it from the journal."""
        if self.journal is not None:
            self.journal.release(self.run.id)
        self._close()

    def stop(self) -> None:
        """Its process ends. A run that outlives it is let go, for the next one to drive on; another is interrupted."""
        self._why = "let go" if self.run.outlives else "interrupted"
        self.cancel()

    def supersede(self) -> None:
        """Another request continues its session."""
        self._why = "superseded"
        self.cancel()

    def _why_stopped(self) -> StopReason:
        return self._why if self.parent is None else self.parent._why_stopped()

    def _close(self) -> None:
        if self.inbox is not None and self.inbox.messages:
            self.inbox.close(self.error)
        if self._told is not None:
            self._told.close(is_broken=self.error is not None)
        if self.span is not None:  # it was not driven
            self.span.close()

    async def _start_child(self, context: ToolContext, agent: Any, inputs: dict[str, Any], mode: str) -> ToolOutput:
        assert self.start_child_of is not None
        return await self.start_child_of(self, context, agent, inputs, mode)

    # ---- telling -----------------------------------------------------------------------------------------------------

    def _emit(self, batch: list[Event]) -> bool | None:
        log = self._told
        if type(batch[0]) in PREVIEWS:
            for tap in self._taps:
                tap(batch)
            return None if log is None else log.show(cast("list[Preview]", batch))
        run, journal = self.run, self.journal
        self.facts += len(batch)
        is_end = run.ended is not None
        is_late = is_end and self.before_end is not None and journal is not None
        if journal is not None and not is_late:
            journal.append(run.id, batch, run.size - self._size)
        for tap in self._taps:
            tap(batch)
        if self._fact_taps is not None and not is_late:
            self._fact_taps.tell(batch)
        if is_end and journal is not None:
            self._end = batch
        elif log is not None:
            log.append(batch, run.size - self._size)
        elif self._host is not None:
            self._facts += batch
        self._size = run.size
        return None

    async def _barrier(self) -> None:
        if self._end is not None and self.before_end is not None:
            try:
                await self.before_end(self)
            finally:
                self._keep_end()
        await self.keep()
        if self._end is not None:
            self._show_end()

    def _keep_end(self) -> None:
        """Of a run whose end waited for what is kept with it."""
        if self._end is not None and self.before_end is not None and self.journal is not None:
            self.before_end = None
            self.journal.append(self.run.id, self._end)
            if self._fact_taps is not None:
                self._fact_taps.tell(self._end)

    def _show_end(self) -> None:
        self._keep_end()
        end, self._end = self._end, None
        if end is not None:
            self._tell(end)

    def _tell(self, facts: Sequence[Event]) -> None:
        if self._told is not None:
            self._told.append(facts)
        elif self._host is not None:
            self._facts += facts


async def _keep_nothing() -> None:
    return


def _drop(batch: list[Event]) -> None:
    return
