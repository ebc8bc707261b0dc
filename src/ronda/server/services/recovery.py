"""Runs that no process drives, although they have no end → driven on, or ended with a reason. Each by itself.

    a server starts · another process is gone · a run broke down here · a question's time is up ──► `recover`

Whatever goes wrong with one run is logged with its name, and the next is looked at. The run is tried again: soon and often where
a store could not be reached, else after 1, 5 and 30 minutes. What still fails then is the run's own fault, if its end can be
written: it is ended as `failed`, with the reason. How a run is driven again is in `reopening`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

from ronda.core.events import Event, Fact, RunFinished, RunStarted
from ronda.core.run import Run, rebuild
from ronda.drive.tools import describe_error
from ronda.errors import ProtocolError, RondaError
from ronda.host.extension import tell_facts
from ronda.host.recovery import seconds_left
from ronda.host.run import LiveRun
from ronda.host.supervisor import Supervisor, problem_with, report
from ronda.journal import DrivenHere, JournalConflict
from ronda.journal.event_rows import DamagedRun
from ronda.journal.holds import release_on_error
from ronda.server.services.reopening import Reopener
from ronda.server.services.runs import Runs
from ronda.store import StoreError
from ronda.store.queue import Queue

log = logging.getLogger("ronda.server")

RETRY_AFTER: Final = (60.0, 300.0, 1800.0)  # seconds
RETRY_STORE_AFTER: Final = (
    1.0,
    2.0,
    4.0,
    8.0,
    16.0,
    32.0,
)  # before those, where a store may have been away for a moment


class Patience:
    """How long to wait before a run is tried again, from what went wrong so far."""

    def __init__(self) -> None:
        self._quick, self._slow = iter(RETRY_STORE_AFTER), iter(RETRY_AFTER)

    def after(self, problem: BaseException) -> float | None:
        """Seconds; None if it was tried often enough."""
        is_away = isinstance(problem, StoreError | JournalConflict) and not isinstance(problem, DamagedRun)
        pause = next(self._quick, None) if is_away else None
        return next(self._slow, None) if pause is None else pause


class Recovery:
    """`settle` is for other services that have something to do about a run that must not stay undone."""

    def __init__(self, runs: Runs, reopener: Reopener, queue: Queue, supervisor: Supervisor) -> None:
        self._runs = runs
        self._reopener = reopener
        self._queue = queue
        self._supervisor = supervisor
        self._settling: dict[str, asyncio.Task[None]] = {}  # by run
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of questions, by run

    async def recover_all(self) -> None:
        """Everything that no process drives, once. Raises StoreError if it cannot be looked for."""
        unfinished = await self._runs.journal.unfinished_runs()  # parents come before their children
        queued = {
            entry.run for entry in await self._queue.list(self._runs.clock())
        }  # the process that claims one drives it
        for left in unfinished:
            if left.run not in queued:
                await self.recover(left.run, left.start)
            await asyncio.sleep(0)  # others have their turn

    async def recover(self, run: str, start: RunStarted | None = None) -> None:
        """Try it once, and leave the rest to a task of its own. Raises nothing."""
        if run in self._settling:
            return
        if (problem := await problem_with(self._try(run, start))) is not None:
            self.recover_soon(run, problem)

    def recover_soon(self, run: str, problem: BaseException | None = None) -> None:
        """The same, for callers that do not wait. `problem`: what went wrong with it just now."""
        if run not in self._settling and not self._runs.stopping:
            work = self.settle(run, lambda: self._try(run), problem)
            task = self._settling[run] = self._supervisor.do(f"the recovery of run {run}", work)
            task.add_done_callback(lambda _: self._settling.pop(run, None))

    async def _try(self, run: str, start: RunStarted | None = None) -> None:
        if start is None:
            events = await self._runs.journal.read(run)
            start = events[0] if events and type(events[0]) is RunStarted else None
        if start is None or (start.call and not await self._is_orphan(start)):
            return
        try:
            await self._reopener.take_up(run, self.over)
        except DrivenHere:
            if run not in self._runs.live:  # another task has it just now, and may not succeed
                raise
        except JournalConflict:
            return  # another process was faster

    async def _is_orphan(self, start: RunStarted) -> bool:
        """Of a run that is a call of another: the driver of the parent drives it, unless the parent is over."""
        parent = [] if start.parent is None else await self._runs.journal.read(start.parent[0])
        return not parent or type(parent[-1]) is RunFinished

    # ---- what must not stay undone -----------------------------------------------------------------------------------

    async def settle(
        self, run: str, job: Callable[[], Awaitable[object]], problem: BaseException | None = None
    ) -> None:
        """Do something about a run, until that succeeds; at last for a run that was ended here because nothing else did.
        `problem`: why it has just failed."""
        patience, is_ended = Patience(), False
        while True:
            if problem is not None:
                seconds = patience.after(problem)
                if seconds is None and not is_ended:
                    is_ended = await self._give_up(run, problem)
                    seconds = 0.0 if is_ended else None
                await self._pause(run, problem, RETRY_AFTER[0] if seconds is None else seconds)
            if (problem := await problem_with(job())) is None:
                return

    async def _pause(self, run: str, problem: BaseException, seconds: float) -> None:
        what = f"and is tried again in {seconds:g} s" if seconds else "and was ended"
        report(f"run {run} could not be taken up, {what}", problem)
        await self._supervisor.sleep(seconds)

    async def _give_up(self, run: str, problem: BaseException) -> bool:
        """End a run that cannot be driven, unless its end cannot be written either: then it may be a store's fault."""
        journal = self._runs.journal
        try:
            events = await journal.resume(run)
            with release_on_error(journal, run):
                if events and type(events[-1]) is not RunFinished:
                    message = f"it could not be driven on: {_reason(problem)}"
                    facts = [*_closing_facts(events), RunFinished("failed", message=message, at=time.time())]
                    journal.append(run, facts)
                    await journal.barrier(run)
                    start = events[0]
                    if type(start) is RunStarted:
                        tell_facts(self._runs.host.extensions, Run(start), facts)
                journal.release(run)
        except Exception as error:
            report(f"run {run} could not be ended", error)
            return False
        return True

    def over(self, live: LiveRun) -> None:
        """A run that was taken up is over, waits, or broke down."""
        if live.error is not None:
            self.broke_down(live, live.error)
        self._runs.sessions.over_soon(live.run.id)

    def broke_down(self, live: LiveRun, problem: BaseException) -> None:
        """Say so. A run that goes on without its client is not lost because something of ours broke, or a store was away."""
        report_breakdown(problem, live.run)
        is_stored = live.journal is self._runs.journal
        if live.run.outlives and is_stored and not isinstance(problem, JournalConflict):
            self.recover_soon(live.run.id, problem)

    # ---- what waits for people ---------------------------------------------------------------------------------------

    def expire_later(self, run: Run) -> None:
        """A run waits, and no process drives it: resume it when the first of its questions closes by itself."""
        if (timer := self._timers.pop(run.id, None)) is not None:
            timer.cancel()
        if (seconds := seconds_left(run)) != inf:
            loop = asyncio.get_running_loop()
            self._timers[run.id] = loop.call_later(seconds, self._expire, run.id)

    def _expire(self, run: str) -> None:
        self._timers.pop(run, None)
        if run not in self._runs.live:
            self.recover_soon(run)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def report_breakdown(error: BaseException, run: Run) -> None:
    """Something of ours broke. The client is told that much; the log has the rest."""
    if isinstance(error, StoreError):  # a disk that is full is no riddle
        if not error.is_logged:
            log.error("run %s broke down: %s", run.id, error)
        error.is_logged = True
    elif isinstance(error, JournalConflict):  # this process was frozen, or cut off from the database
        log.warning("run %s is driven by another process by now: %s", run.id, error)
    else:
        log.error("run %s broke down", run.id, exc_info=error)


def _reason(problem: BaseException) -> str:
    """For the client that asked for the run."""
    return problem.public if isinstance(problem, RondaError) else describe_error(problem)


def _closing_facts(events: list[Event]) -> list[Fact]:
    """What comes before an end, so that every call has a result; nothing for a run whose events make no sense."""
    try:
        return rebuild(events).recover()
    except ProtocolError:
        return []
