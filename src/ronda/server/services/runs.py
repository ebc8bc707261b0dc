"""Runs under way in this process: who drives them, who follows them, and how their events get into the journal."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

from ronda.agent.approve import Approve, Approver
from ronda.agent.start import start_child_of
from ronda.core.calls import HANDED_OVER
from ronda.core.events import Answered, Asked, Event, Preview, RunFinished, RunStarted
from ronda.core.guardrails import Guardrails, guarded_stages
from ronda.core.parts import Turn
from ronda.core.permissions import approved_for_good, may_ask
from ronda.core.plan import ToolSpec
from ronda.core.run import Run, rebuild
from ronda.drive import Inbox, OpenLongResults, Provider, Summarize, Tool
from ronda.files.file_store import FileStore
from ronda.host.extension import tell_facts
from ronda.host.history import SESSION_PLACE
from ronda.host.host import Host
from ronda.host.journal_tail import Tail
from ronda.host.log import ALL_PREVIEWS, START, CursorAhead, Follower, Log, Logs, Position, until_over
from ronda.host.orphans import end_children, waiting_children
from ronda.host.run import BeforeEnd, LiveRun, look_at
from ronda.host.sessions import SessionHost
from ronda.host.supervisor import Sleep
from ronda.journal import DrivenHere, Journal, JournalConflict, OpenQuestion, WrittenByNewer
from ronda.journal.event_rows import check_drivable
from ronda.journal.holds import release_on_error
from ronda.journal.memory import MemoryJournal
from ronda.server.services.marks import RunMarks
from ronda.server.services.rejoin import RejoinedTurns, rejoin
from ronda.server.services.remote_approver import RemoteApprover
from ronda.store import StoreError
from ronda.store.approvals import ApprovedTools
from ronda.store.claims import Claims
from ronda.store.memory import MemoryCatalog
from ronda.store.queue import Queue
from ronda.store.sessions import Sessions
from ronda.store.values.sessions import NO_BOUNDS, Bounds
from ronda.wire.openai_responses.client_calls import APPROVAL_ID
from ronda.wire.shared.call_ids import handed_out

log = logging.getLogger("ronda.server")

_TRIES: Final = 25  # to end a run, while a task of this process takes it up or leaves it
_PAUSE: Final = 0.02  # seconds between two tries
BROKEN_OFF = "the server ended, or broke down, while this was under way"


def open_questions(run: Run) -> tuple[OpenQuestion, ...]:
    """What a list shows of a run. What the run of a call asks, its parent asks."""
    if run.ended is not None or run.start.call:
        return ()
    found = []
    for question in run.questions:
        spec = None if question.child else run.tools.get(question.tool)
        tool = None if spec is None else ToolSpec(spec.name, kind=spec.kind, tool_type=spec.tool_type)
        found.append(OpenQuestion(question, tool, run.round - 1))
    return tuple(found)


def _hand_out(run: Run, journal: Journal, batch: Sequence[Event]) -> None:
    """Let the caller's next request find a run that leaves calls to it, and an answer the run that asks."""
    has_asked = run.questions_asked or run.children_asked
    if has_asked and (question_ids := [one.id for one in batch if type(one) is Asked]):
        journal.expect(run.start.owner, question_ids, run.id)
    if has_asked and run.ended is None:
        journal.note_questions(run.id, open_questions(run), waits=run.waits_for_people)
    if run.ended is not None and run.ended.reason in HANDED_OVER:
        questions = [call.id for call in run.open_calls if call.id.startswith(APPROVAL_ID)]
        if ids := [*handed_out(run), *questions]:
            journal.expect(run.start.owner, ids, run.id)


async def _end_after(task: asyncio.Task[None], before: BeforeEnd | None, live: LiveRun) -> None:
    try:
        await task
    except StoreError as error:  # people are asked again
        log.error("what was approved in run %s is not remembered: %s", live.run.id, error)
    if before is not None:
        await before(live)


def _may_read(tools: Sequence[ToolSpec]) -> bool:
    """Whether calls of these tools may mark their run: those of an agent, of one with labels."""
    return bool(tools) and any(tool.labels or tool.is_agent for tool in tools)


def _tell_no_client(run: Run) -> None:
    """Called with a run that is left waiting, before a server has set its own function."""


class Runs:
    """`approval_timeout`: for how long a run that asks something is kept in this process. `left_waiting` is called with those
    that are not any more."""

    def __init__(
        self,
        journal: Journal,
        claims: Claims,
        approval_timeout: float = inf,
        guardrails: Guardrails | None = None,
        summarize: Summarize | None = None,
        *,
        sessions: Sessions,
        bounds: Bounds = NO_BOUNDS,  # of the sessions
        max_queue: int = 32,  # for one of them
        queue: Queue | None = None,
        logs: Logs | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.left_waiting: Callable[[Run], None] = _tell_no_client
        self.clock: Callable[[], float] = time.time  # of all who share the queue
        self.approved_tools: ApprovedTools | None = None  # where is kept what people have approved for a session
        self.marks: RunMarks | None = None  # where is kept what runs have read
        self.files: FileStore | None = None  # where what runs make is kept …
        self.long_results: OpenLongResults | None = None  # … and what tools answer at too great a length
        # Who of this process decides about the calls of a run that is about to begin; None: clients do.
        self.find_approve: Callable[[Run], Approve | None] = lambda run: None
        self._approval_timeout = approval_timeout
        self.journal = journal
        self.guard(guardrails, summarize)
        self._queue: Queue = queue or MemoryCatalog().queue
        self._tails: dict[str, Tail] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self.memory = MemoryJournal()  # of runs that the client does not want kept; gone with the process
        self.host = Host(claims, logs)
        self.live = self.host.live
        self.logs = self.host.logs
        self.sessions = SessionHost(
            sessions,
            claims,
            find_run=self.find,
            cancel=self.supersede,
            bounds=bounds,
            max_queue=max_queue,
            clock=lambda: self.clock(),
            sleep=sleep,
        )

    def guard(self, guardrails: Guardrails | None, summarize: Summarize | None) -> None:
        """What looks at every run that begins from now on, and what sums up what a context has no room for."""
        self.guards = guarded_stages(guardrails)  # of the plans of all runs
        self._guardrails = guardrails
        self._summarize = summarize

    @property
    def stopping(self) -> bool:
        return self.host.is_stopping

    def new(
        self,
        started: RunStarted,
        provider: Provider,
        tools: Mapping[str, Tool],
        journal: Journal,
        *,
        waits: bool = False,
    ) -> LiveRun:
        """A run whose input is journaled, and which is not driven yet. `waits`: a client stays with it while it asks people."""
        run = Run(started)
        journal.append(run.id, [started], run.size)
        return self._live(run, provider, tools, journal, waits)

    def reopen(
        self,
        run: Run,
        provider: Provider,
        tools: Mapping[str, Tool],
        events: Sequence[Event],
        previews: Mapping[int, Sequence[Preview]],
        *,
        waits: bool = False,
    ) -> LiveRun:
        """A run that goes on; `events` are all of it, and journaled, and `previews` what was shown after some of them."""
        live = self._live(run, provider, tools, self.journal, waits)
        live.replay(events, previews)
        return live

    def _live(self, run: Run, provider: Provider, tools: Mapping[str, Tool], journal: Journal, waits: bool) -> LiveRun:
        live = LiveRun(run, provider, tools, journal, self.host)
        live.inbox = Inbox(run, self._approval_timeout)
        live.guardrails = self._guardrails
        live.summarize = self._summarize
        if run.plan.tools:
            if may_ask(run.plan, run.tools) or any(tool.is_agent for tool in run.plan.tools):
                seconds = self._approval_timeout if waits else 0.0
                live.approver = RemoteApprover(run, live.inbox, seconds, self.left_waiting)
                live.add_tap(partial(self._remember, run))
            live.exclusive = partial(self.host.hold_key, run.start.owner, run.start.session or run.id)
            live.start_child_of = start_child_of
            live.files = self.files
            live.long_results = self.long_results
            live.add_tap(partial(_hand_out, run, journal))
            if live.approver is not None and (approve := self.find_approve(run)) is not None:
                live.approver = approver = Approver(approve, run, live.inbox)
                live.add_tap(approver.take)
        if SESSION_PLACE in run.start.about:
            live.before_end = self._keep_session
        if self.marks is not None and (run.marks or _may_read(run.plan.tools)):
            self.marks.follow(live)
        return live

    def _remember(self, run: Run, batch: Sequence[Event]) -> None:
        """What a person has approved for good holds in the run's session, too."""
        if not run.questions_asked:
            return
        is_told = any(type(event) is Answered and event.remember for event in batch)
        if not is_told or self.approved_tools is None:
            return
        live, start = self.live[run.id], run.start
        approved = self.approved_tools
        for kept, names in ((approved, approved_for_good(run.plan, run.tools)), (approved.sends, run.sends_approved)):
            if names:
                adding = kept.add(start.owner, start.session, names, self.clock())
                task = asyncio.get_running_loop().create_task(adding)
                live.before_end = partial(_end_after, task, live.before_end)  # the next one finds it

    async def _keep_session(self, live: LiveRun) -> None:
        await self.sessions.keep(live.run)

    async def find(self, run_id: str, owner: str) -> Run | None:
        """A run as the journal has it; with an end, where no process drives it and none will."""
        events = await self.read(run_id, owner)
        return rebuild(events) if events else None

    async def read(self, run_id: str, owner: str) -> list[Event]:
        """The events of a run that was stored; none for one that is not there, or not this owner's."""
        events = await self.journal.read(run_id)
        if not events or type(events[0]) is not RunStarted or events[0].owner != owner:
            return []
        is_over = type(events[-1]) is RunFinished or run_id in self.live
        return events if is_over else await self._with_end(run_id, events)

    async def _with_end(self, run_id: str, events: list[Event]) -> list[Event]:
        """Where no process drives it any more, a run is told with an end; the journal keeps it as it was left."""
        run = rebuild(events)
        if run.outlives or run.start.call:  # it goes on, or its parent does with it
            return events
        try:
            events = await self.journal.resume(run_id)
            self.journal.release(run_id)
        except DrivenHere:
            if run_id in self.live:
                return events
        except JournalConflict:
            return events  # under way, in another process
        if not events or type(events[-1]) is RunFinished:  # pruned, or finished, meanwhile
            return events
        run = rebuild(events)
        last = max([getattr(event, "at", 0.0) for event in events])
        return [*events, *run.recover(), RunFinished("interrupted", message=BROKEN_OFF, at=last)]

    async def follow(
        self, events: list[Event], after: Position | None = START, param: str = "after"
    ) -> tuple[Run, Follower]:
        """Everything that happens in a run after a position, and the run that comes to its end with it; `events` are what the
        journal has of it. Raises CursorAhead, which names the `param` that the position came in."""
        start = events[0]
        assert type(start) is RunStarted
        live = self.live.get(start.run)
        if live is not None:
            _check_cursor(after, max(live.last, (len(events) - 1, 0)), param)
            return live.run, live.follow(after)
        run = rebuild(events)
        previews: Mapping[int, list[Preview]] = self.logs.previews(start.run)
        if not previews and run.outlives:
            previews = await self.journal.previews(start.run)
        if run.ended is not None or run.is_waiting:
            _check_cursor(after, (len(events) - 1, ALL_PREVIEWS), param)  # of which some may not be kept any more
            return run, Log.of(events, dict(previews)).follow(after)
        tail = self._tails.get(start.run)
        if tail is not None and not tail.is_over:
            tail.fill(events, previews)
            _check_cursor(after, tail.last, param)
            return tail.run, tail.follow(after)
        tail = Tail(events, previews, self.journal, self.live, partial(self.read, start.run, start.owner))
        _check_cursor(after, tail.last, param)
        self._tails[start.run] = tail
        follower = tail.follow(after)
        pump = asyncio.get_running_loop().create_task(tail.pump())
        self._pumps.add(pump)
        pump.add_done_callback(partial(self._pumped, start.run, tail))
        return tail.run, follower

    def _pumped(self, run: str, tail: Tail, pump: asyncio.Task[None]) -> None:
        look_at(pump)
        self._pumps.discard(pump)
        if self._tails.get(run) is tail:
            del self._tails[run]

    def cancel(self, run_id: str, owner: str) -> LiveRun | None:
        """End a run that is under way here; None if there is none."""
        if (live := self._own(run_id, owner)) is not None:
            live.cancel_was_asked = True
            live.cancel()
        return live

    def supersede(self, run_id: str, owner: str) -> LiveRun | None:
        """End a run that is under way here, because another request interrupts its session; None if there is none."""
        if (live := self._own(run_id, owner)) is not None:
            live.cancel_was_asked = True
            live.supersede()
        return live

    def _own(self, run_id: str, owner: str) -> LiveRun | None:
        """A run of this owner that is under way here."""
        live = self.live.get(run_id)
        return live if live is not None and live.run.start.owner == owner else None

    async def end(self, run_id: str, owner: str) -> bool:
        """Cancel a run that is under way here, or that no process drives, and return once its end is kept; False if there is
        none, or another process drives it. Raises what keeps its end from being kept, and WrittenByNewer."""
        for _ in range(_TRIES):
            if (live := self.cancel(run_id, owner)) is not None:
                await until_over(live.follow())
                if live.error is not None:
                    raise live.error
                return True
            try:
                return await self._end_undriven(run_id, owner)
            except DrivenHere:  # by a task that is about to drive it, or to leave it
                await asyncio.sleep(_PAUSE)
            except WrittenByNewer:
                raise
            except JournalConflict:
                return False
        return False

    async def _end_undriven(self, run_id: str, owner: str) -> bool:
        """Cancel a run that no process drives: it waits for people, or in the queue, or was left."""
        events = await self.read(run_id, owner)
        if not events or type(events[-1]) is RunFinished:
            return False
        check_drivable(run_id, events)  # a newer Ronda's stays in the queue
        if not rebuild(events).is_waiting:
            await self._queue.cancel(run_id, self.clock())
        return await self.end_left(run_id)

    async def end_left(self, run_id: str) -> bool:
        """Cancel a run that no process drives; False if it is over. A conflict if one has just begun to."""
        events = await self.journal.resume(run_id)
        with release_on_error(self.journal, run_id):
            run = rebuild(events) if events else None
            children: frozenset[str] = frozenset()
            is_open = run is not None and run.ended is None
            if run is not None and is_open:
                end = RunFinished("cancelled", message="the run was cancelled", at=time.time())
                children = waiting_children(run)
                facts = [*run.recover(), end]
                self.journal.append(run_id, facts)
                await self.journal.barrier(run_id)
                tell_facts(self.host.extensions, run, facts)
            self.journal.release(run_id)
        await end_children(self.journal, children, self.host.left_child)
        return is_open

    async def forget(self, run_id: str, owner: str) -> None:
        """Cancel a run that is under way, and forget it. What only a newer Ronda can end is forgotten as it stands."""
        with suppress(WrittenByNewer):
            await self.end(run_id, owner)
        self.logs.forget(run_id)
        await self.journal.forget(run_id)

    async def rejoin(self, turns: tuple[Turn, ...], owner: str) -> RejoinedTurns:
        """Our half of mixed turns next to the caller's."""
        return await rejoin((self.memory, self.journal), turns, owner)

    async def close(self) -> None:
        await self.stop()
        await self.sessions.close()
        await self.journal.close()

    async def stop(self, seconds: float = 0.0) -> None:
        """`seconds`: for runs that a client waits for."""
        await self.host.stop(seconds)
        for pump in list(self._pumps):
            pump.cancel()


def _check_cursor(after: Position | None, last: Position, param: str) -> None:
    """ALL_PREVIEWS stands for where a fact's previews end, however many there are."""
    if after is not None and after > last and after != (last[0], ALL_PREVIEWS):
        raise CursorAhead(after, (last[0], 0 if last[1] == ALL_PREVIEWS else last[1]), param)


def new_id(kind: str) -> str:
    """It cannot be guessed. Ids of the same time begin alike, so that they lie side by side in an index: a commit of many runs
    then writes a few of its pages, and not one for each run."""
    return f"{kind}_{((int(time.time() * 16) & 0xFFFFFFFF).to_bytes(4) + os.urandom(8)).hex()}"
