"""Runs that no client waits for: queued when they come, and driven by whichever process has room.

a request ──► journaled, queued ──► 202 ……… claimed ──► driven as any run ──► taken off the queue
                                     a process that ends gives its runs back; one that dies loses them when its leases
                                     run out, and the next who claims them goes on from the journal
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from ronda.core.events import RunStarted
from ronda.errors import BadRequest, RondaError
from ronda.host.run import LiveRun
from ronda.host.supervisor import Supervisor
from ronda.journal import DrivenHere, JournalConflict, WrittenByNewer
from ronda.server.config import ServerConfig
from ronda.server.services.other_processes import OtherProcesses
from ronda.server.services.recovery import Recovery, report_breakdown
from ronda.server.services.reopening import Reopener
from ronda.server.services.runs import Runs, new_id
from ronda.store.queue import ClaimedRun, Queue, QueuedRun, QueueFull, QueueLimits

log = logging.getLogger("ronda.server")

LEASE_SECONDS: Final = 3.0  # after which the runs of a process that died are another's
# Runs that one statement claims. All processes wait in one line for it, so it takes several; but a process that took as many as
# may be driven at a time would leave nothing to the others.
MOST_CLAIMED: Final = 8
PARTS: Final = 8  # of the places
# Seconds that a process with runs waits for more places to get free, so that one claim fills them.
GATHERS: Final = 0.02
MOST_REMEMBERED: Final = 100  # runs that only a newer Ronda can drive: they wait no longer than a rolling deploy takes
LOOKS_EVERY: Final = 1.0  # seconds: at what others have queued, and at what is to end


class TooManyQueued(BadRequest):
    status_hint = 429


class Background:
    """This server's part in the queue: what it adds, and what it drives."""

    def __init__(
        self,
        config: ServerConfig,
        queue: Queue,
        runs: Runs,
        reopener: Reopener,
        recovery: Recovery,
        supervisor: Supervisor,
        others: OtherProcesses,
    ) -> None:
        self._config = config
        self._queue = queue
        self._runs = runs
        self._reopener = reopener
        self._recovery = recovery
        self._supervisor = supervisor
        self._others = others
        self._limits = QueueLimits(config.background_runs, config.background_per_owner, config.background_per_session)
        self._claims_at_once = max(1, min(MOST_CLAIMED, config.background_runs // PARTS))
        self._worker = new_id("worker")
        self._claimed: set[str] = set()  # runs that are this worker's, driven or not …
        self._may_have_more = False  # … as far as it was told
        self._renew_at = 0.0  # not with each run that is over: that would be a write of all of them for each
        self._driven: dict[str, LiveRun] = {}
        self._taking: dict[str, asyncio.Task[None]] = {}  # runs that are claimed, and not driven yet
        self._of_newer: dict[str, None] = {}  # runs of a newer Ronda's, which claims them itself; the newest last
        self._leaving: set[str] = set()  # runs that are over, and not off the queue yet
        self._taking_off = asyncio.Lock()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- adding ------------------------------------------------------------------------------------------------------

    async def add(self, lives: Sequence[LiveRun]) -> None:
        """Leave runs that were opened to the process that claims them: they are kept before they are queued. All, or none."""
        try:
            for live in lives:
                await live.keep()
                live.leave()
                await self._enqueue(live.run.start)
        except BaseException as error:
            await self._take_back(lives, is_awaited=isinstance(error, QueueFull))
            if isinstance(error, QueueFull):
                raise TooManyQueued(str(error), param="background", code="queue_is_full") from error
            raise
        self.start()
        if (replicas := self._others.replicas) is not None:  # who is not told looks by itself, a little later
            self._supervisor.do("a notice of a background run", replicas.queue_grew())

    async def _enqueue(self, start: RunStarted) -> None:
        await self._runs.journal.barrier(start.run)
        queued = QueuedRun(start.run, start.owner, start.session, start.at)
        config = self._config
        await self._queue.enqueue(queued, config.background_queue, config.background_queue_per_owner)

    async def _take_back(self, lives: Sequence[LiveRun], *, is_awaited: bool) -> None:
        """Have runs end, queued or not: the client that asked for them is told that there are none. That may take until a store
        is there again; only callers that must wait for that do."""
        ends = []
        for live in lives:
            live.leave()
            end = partial(self._runs.end, live.run.id, live.run.start.owner)
            ends.append(self._supervisor.do(f"the end of run {live.run.id}", self._recovery.settle(live.run.id, end)))
        if is_awaited:
            await asyncio.wait(ends)

    async def position(self, run: str, owner: str) -> int | None:
        """How many runs wait before it; None for one that does not wait."""
        entries = await self._queue.list(self._runs.clock(), owner)
        return next((entry.position for entry in entries if entry.run == run), None)

    # ---- driving -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """There may be something to claim."""
        self._news.set()

    def start(self) -> None:
        """Look at the queue, from now on."""
        self._news.set()
        if self._task is None:
            self._task = self._supervisor.keep("the queue of background runs", self._work)

    async def close(self) -> None:
        """When its runs were let go: others may have them at once."""
        tasks = [*self._taking.values()] if self._task is None else [self._task, *self._taking.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._task = None
        if self._claimed or self._may_have_more:
            self._claimed.clear()
            self._driven = {}
            await self._queue.renew(self._worker, 0.0)

    async def _work(self) -> None:
        while not self._runs.stopping:
            self._news.clear()
            try:
                if self._may_have_more or (self._claimed and self._runs.clock() >= self._renew_at):
                    await self._renew()
                await self._claim_all()
            except RondaError as error:
                self._may_have_more = True  # a claim that failed may have been written
                log.error("the queue of background runs cannot be looked at: %s", error)
                await self._supervisor.sleep(LOOKS_EVERY)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOKS_EVERY):
                    await self._news.wait()
            if self._claimed:
                await self._supervisor.sleep(GATHERS)

    async def _renew(self) -> None:
        now = self._runs.clock()
        renewed = await self._queue.renew(self._worker, now + LEASE_SECONDS)
        self._renew_at = now + LOOKS_EVERY
        self._may_have_more = False
        for claimed in renewed:
            live = self._driven.get(claimed.run)
            if claimed.run not in self._claimed:
                self._take_soon(claimed)
            elif claimed.is_cancelled and live is not None:
                live.cancel_was_asked = True
                live.cancel()

    async def _claim_all(self) -> None:
        began = self._runs.clock()
        while not self._runs.stopping:
            now = self._runs.clock()
            if (
                now >= began + LOOKS_EVERY
            ):  # there may be more, and the leases of what is driven are to be renewed first
                self._news.set()
                return
            until, limit = now + LEASE_SECONDS, self._claims_at_once
            found = await self._queue.claim(self._worker, self._limits, now, until, limit, but=[*self._of_newer])
            # Read while the next claim runs: with a database each takes a few milliseconds, in which others have their turn.
            for claimed in found:
                self._take_soon(claimed)
            if len(found) < limit:
                return

    def _take_soon(self, claimed: ClaimedRun, problem: BaseException | None = None) -> None:
        """Drive a run, and try that for as long as it takes: it is ours while we live, so no other process would. `problem`: why
        it was not driven to its end just now."""
        run = claimed.run
        self._claimed.add(run)
        if run in self._taking or run in self._driven:  # claimed again, since its lease ran out meanwhile
            return
        work = self._recovery.settle(run, partial(self._take_or_drop, claimed), problem)
        task = self._taking[run] = self._supervisor.do(f"the background run {run}", work)
        task.add_done_callback(lambda _: self._taking.pop(run, None))

    async def _take_or_drop(self, claimed: ClaimedRun) -> None:
        if not await self._take(claimed):
            await self._take_off(claimed.run)

    async def _take(self, claimed: ClaimedRun) -> bool:
        """Drive a run, or leave it to a process that can; False if there is nothing to drive, or it is driven already."""
        run, runs = claimed.run, self._runs
        try:
            if claimed.is_cancelled:
                await runs.end_left(run)
                return False
            live = await self._reopener.take_up(run, partial(self._over, claimed), was_driven=claimed.claims > 1)
        except DrivenHere:  # a hold of another task, which may not come to drive it
            if run not in runs.live:
                raise
            return False
        except WrittenByNewer as error:
            log.info("left in the queue: %s", error)
            await self._give_back(run)
            return True
        except JournalConflict:  # another process drives it to its end
            return False
        if live is None:
            return False
        self._driven[run] = live
        return True

    async def _give_back(self, run: str) -> None:
        """For a process that can drive it. This one does not claim it again, for as long as it remembers."""
        self._of_newer[run] = None
        if len(self._of_newer) > MOST_REMEMBERED:
            del self._of_newer[next(iter(self._of_newer))]
        self._claimed.discard(run)
        await self._queue.unclaim(run, self._worker)

    def _over(self, claimed: ClaimedRun, live: LiveRun) -> None:
        run, problem = claimed.run, live.error
        if problem is not None:
            report_breakdown(problem, live.run)
        self._runs.sessions.over_soon(run)
        if self._runs.stopping:
            return
        self._driven.pop(run, None)
        if problem is None or isinstance(problem, JournalConflict):
            work = self._recovery.settle(run, partial(self._take_off, run))
            self._supervisor.do(f"taking run {run} off the queue", work)
        else:
            self._take_soon(replace(claimed, claims=claimed.claims + 1), problem)

    async def _take_off(self, run: str) -> None:
        """Together with all that are over meanwhile: while one statement is under way the next waits, and takes those along."""
        self._leaving.add(run)
        async with self._taking_off:
            if run in self._leaving:  # else the statement before has taken it off
                runs = [*self._leaving]
                await self._queue.finish(runs, self._runs.clock(), self._worker)
                self._leaving.difference_update(runs)
        self._claimed.discard(run)
        self._news.set()
