"""Runs under way in this process: who drives them, who follows them, and how their events get into the journal."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf

from ronda.agent.approve import Approve, Approver
from ronda.agent.start import start_child_of
from ronda.core.calls import HANDED_OVER
from ronda.core.events import Answered, Asked, Event, Preview, RunFinished, RunStarted
from ronda.core.guardrails import Guardrails, guarded_stages
from ronda.core.parts import Turn
from ronda.core.permissions import approved_for_good, may_ask
from ronda.core.run import Run, rebuild
from ronda.drive import Inbox, OpenLongResults, Provider, Summarize, Tool
from ronda.files.file_store import FileStore
from ronda.host.history import is_in_session
from ronda.host.host import Host
from ronda.host.journal_tail import Tail
from ronda.host.log import START, Follower, Log, Logs, Position
from ronda.host.orphans import end_children, waiting_children
from ronda.host.run import BeforeEnd, LiveRun, look_at
from ronda.host.sessions import SessionHost
from ronda.journal import Journal, JournalConflict
from ronda.journal.memory import MemoryJournal
from ronda.server.detached.remote_approver import RemoteApprover
from ronda.server.exchange.rejoin import RejoinedTurns, rejoin
from ronda.store import StoreError
from ronda.store.approvals import ApprovedTools
from ronda.store.claims import Claims
from ronda.store.memory import MemoryCatalog
from ronda.store.queue import Queue
from ronda.store.sessions import NO_BOUNDS, Bounds, Sessions
from ronda.wire.call_ids import handed_out

log = logging.getLogger("ronda.server")

BROKEN_OFF = "the server ended, or broke down, while this was under way"


def _hand_out(run: Run, journal: Journal, batch: Sequence[Event]) -> None:
    """Let the caller's next request find a run that leaves calls to it, and an answer the run that asks."""
    if (run.questions_asked or run.children_asked) and (request := [one.id for one in batch if type(one) is Asked]):
        journal.expect(run.start.owner, request, run.id)
    if run.ended is not None and run.ended.reason in HANDED_OVER and (ids := handed_out(run)):
        journal.expect(run.start.owner, [*ids], run.id)


async def _end_after(task: asyncio.Task[None], before: BeforeEnd | None, live: LiveRun) -> None:
    try:
        await task
    except StoreError as error:  # people are asked again
        log.error("what was approved in run %s is not remembered: %s", live.run.id, error)
    if before is not None:
        await before(live)


def _tell_nobody(run: Run) -> None:
    """Who is told of runs that are left waiting, before a server has said so."""


class Runs:
    """`approval_timeout`: for how long a run that asks something is kept in this process. `left_waiting` is told of those
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
    ) -> None:
        self.left_waiting: Callable[[Run], None] = _tell_nobody
        self.clock: Callable[[], float] = time.time  # of all who share the queue
        self.approved_tools: ApprovedTools | None = None  # where is kept what people have approved for a session
        self.files: FileStore | None = None  # where what runs make is kept …
        self.long_results: OpenLongResults | None = None  # … and what tools answer at too great a length
        # Who of this process decides about the calls of a run that is about to begin; None: clients do.
        self.find_approve: Callable[[Run], Approve | None] = lambda run: None
        self._approval_timeout = approval_timeout
        self.journal = journal
        self.guards = guarded_stages(guardrails)  # of the plans of all runs
        self._guardrails = guardrails
        self._summarize = summarize
        self._queue: Queue = queue or MemoryCatalog().queue
        self._tails: dict[str, Tail] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self.memory = MemoryJournal()  # of runs that whoever asked does not want kept; gone with the process
        self.host = Host(claims, logs)
        self.live = self.host.live
        self.logs = self.host.logs
        self.sessions = SessionHost(
            sessions,
            claims,
            find_run=self.find,
            cancel=self.cancel,
            bounds=bounds,
            max_queue=max_queue,
            clock=lambda: self.clock(),
        )

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
        """A run whose input is journaled, and which nobody drives yet. `waits`: somebody stays with it while it asks people."""
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
            live.exclusive = self.host.exclusive_in(run.start.owner, run.start.session or run.id)
            live.start_child_of = start_child_of
            live.files = self.files
            live.long_results = self.long_results
            live.add_tap(partial(_hand_out, run, journal))
            if live.approver is not None and (approve := self.find_approve(run)) is not None:
                live.approver = approver = Approver(approve, run, live.inbox)
                live.add_tap(approver.take)
        if run.start.about and is_in_session(run.start):
            live.before_end = self._keep_session
        return live

    def _remember(self, run: Run, batch: Sequence[Event]) -> None:
        """What a person has approved for good holds in the run's session, too."""
        if not run.questions_asked:
            return
        is_told = any(type(event) is Answered and event.remember for event in batch)
        if is_told and (approved := approved_for_good(run.plan, run.tools)) and self.approved_tools is not None:
            live, start = self.live[run.id], run.start
            adding = self.approved_tools.add(start.owner, start.session, approved, self.clock())
            task = asyncio.get_running_loop().create_task(adding)
            live.before_end = partial(_end_after, task, live.before_end)  # whoever comes next finds it

    async def _keep_session(self, live: LiveRun) -> None:
        await self.sessions.keep(live.run)

    async def find(self, id: str, owner: str) -> Run | None:
        """A run as the journal has it; with an end, where nobody drives it and nobody will."""
        events = await self.read(id, owner)
        return rebuild(events) if events else None

    async def read(self, id: str, owner: str) -> list[Event]:
        """The events of a run that was stored; none for one that is not there, or not this owner's."""
        events = await self.journal.read(id)
        if not events or type(events[0]) is not RunStarted or events[0].owner != owner:
            return []
        is_over = type(events[-1]) is RunFinished or id in self.live
        return events if is_over else await self._with_end(id, events)

    async def _with_end(self, id: str, events: list[Event]) -> list[Event]:
        """Where nobody drives it any more, a run is told with an end; the journal keeps it as it was left."""
        run = rebuild(events)
        if run.outlives or run.start.call:  # it goes on, or its parent does with it
            return events
        try:
            events = await self.journal.resume(id)
        except JournalConflict:
            return events  # under way, in another process
        self.journal.release(id)
        if not events or type(events[-1]) is RunFinished:  # pruned, or finished, meanwhile
            return events
        run = rebuild(events)
        last = max([getattr(event, "at", 0.0) for event in events])
        return [*events, *run.recover(), RunFinished("interrupted", message=BROKEN_OFF, at=last)]

    async def follow(self, events: list[Event], after: Position | None = START) -> tuple[Run, Follower]:
        """Everything that happens in a run after a position, and the run that comes to its end with it; `events` are what the
        journal has of it."""
        start = events[0]
        assert type(start) is RunStarted
        live = self.live.get(start.run)
        if live is not None:
            return live.run, live.follow(after)
        run = rebuild(events)
        previews: Mapping[int, list[Preview]] = self.logs.previews(start.run)
        if not previews and run.outlives:
            previews = await self.journal.previews(start.run)
        if run.ended is not None or run.is_waiting:
            return run, Log.of(events, dict(previews)).follow(after)
        tail = self._tails.get(start.run)
        if tail is not None and not tail.is_over:
            return tail.run, tail.follow(after)
        tail = Tail(events, previews, self.journal, self.live, partial(self.read, start.run, start.owner))
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

    def cancel(self, id: str, owner: str) -> LiveRun | None:
        """End a run that is under way here; None if there is none."""
        live = self.live.get(id)
        if live is None or live.run.start.owner != owner:
            return None
        live.cancel_was_asked = True
        live.cancel()
        return live

    async def end(self, id: str, owner: str) -> bool:
        """Cancel a run that is under way here, and wait until it is over, or one that nobody drives; False if there is none."""
        live = self.cancel(id, owner)
        if live is None:
            return await self._end_undriven(id, owner)
        follower = live.follow()
        try:
            while not follower.is_over:
                if not follower.pull():
                    await follower.wait()
        finally:
            follower.close()
        return True

    async def _end_undriven(self, id: str, owner: str) -> bool:
        """Cancel a run that nobody drives, since it waits for people, or in the queue."""
        events = await self.read(id, owner)
        if not events or type(events[-1]) is RunFinished:
            return False
        if not rebuild(events).is_waiting and not await self._queue.cancel(id, self.clock()):
            return False
        return await self.end_left(id)

    async def end_left(self, id: str) -> bool:
        """Cancel a run that nobody drives; False if it is over. A conflict if somebody has just begun to."""
        events = await self.journal.resume(id)
        run = rebuild(events) if events else None
        is_open = run is not None and run.ended is None
        if run is not None and is_open:
            end = RunFinished("cancelled", message="the run was cancelled", at=time.time())
            children = waiting_children(run)
            self.journal.append(id, [*run.recover(), end])
            await end_children(self.journal, children)
        self.journal.release(id)
        await self.journal.barrier(id)
        return is_open

    async def rejoin(self, turns: tuple[Turn, ...], owner: str) -> RejoinedTurns:
        """Our half of mixed turns beside the caller's."""
        return await rejoin((self.memory, self.journal), turns, owner)

    async def close(self) -> None:
        await self.stop()
        await self.sessions.close()
        await self.journal.close()

    async def stop(self, seconds: float = 0.0) -> None:
        """`seconds`: for runs that somebody waits for."""
        await self.host.stop(seconds)
        for pump in list(self._pumps):
            pump.cancel()


def new_id(kind: str) -> str:
    """Nobody can guess it. Ids of the same time begin alike, so that they lie side by side in an index: a commit of many runs
    then writes a few of its pages, and not one for each run."""
    return f"{kind}_{((int(time.time() * 16) & 0xFFFFFFFF).to_bytes(4) + os.urandom(8)).hex()}"
