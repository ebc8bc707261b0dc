"""Runs that nobody waits for: queued when they come, and driven by whichever process has room.

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
from typing import TYPE_CHECKING, Final

from ronda.errors import BadRequest, RondaError
from ronda.host.run import LiveRun
from ronda.journal import JournalConflict
from ronda.server.detached.recovery import report_broken, take_up
from ronda.server.runs import new_id
from ronda.store import StoreError, is_logged
from ronda.store.queue import ClaimedRun, QueuedRun, QueueFull, QueueLimits

if TYPE_CHECKING:
    from ronda.server.app import Server

log = logging.getLogger("ronda.server")

LEASE_SECONDS: Final = 3.0  # after which the runs of a process that died are another's
LOOKS_EVERY: Final = 1.0  # seconds: at what others have queued, and at what is to end


class TooManyQueued(BadRequest):
    status_hint = 429


class Background:
    """This server's part in the queue: what it adds, and what it drives."""

    def __init__(self, server: Server) -> None:
        config = server.config
        self._server = server
        self._queue = server.catalog.queue
        self._limits = QueueLimits(config.background_runs, config.background_per_owner, config.background_per_session)
        self._worker = new_id("worker")
        self._driven: dict[str, LiveRun] = {}
        self._taking: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def add(self, lives: Sequence[LiveRun]) -> None:
        """Leave runs that were opened to whoever claims them: they are kept before they are queued."""
        journal = self._server.runs.journal
        for live in lives:
            await live.keep()
            live.leave()
            start = live.run.start
            await journal.barrier(start.run)
            try:
                queued = QueuedRun(start.run, start.owner, start.session, start.at)
                await self._queue.enqueue(queued, self._server.config.background_queue)
            except QueueFull as error:
                for each in lives:
                    await self._server.runs.end(each.run.id, start.owner)
                raise TooManyQueued(str(error), param="background", code="queue_is_full") from error
        self.start()
        if self._server.replicas is not None:
            await self._server.replicas.queue_grew()

    async def position(self, run: str, owner: str) -> int | None:
        """How many runs wait before it; None for one that does not wait."""
        entries = await self._queue.list(self._server.clock(), owner)
        return next((entry.position for entry in entries if entry.run == run), None)

    def look(self) -> None:
        """There may be something to claim."""
        self._news.set()

    def start(self) -> None:
        """Look at the queue, from now on."""
        self._news.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """When its runs were let go: others may have them at once."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        for task in self._taking:
            task.cancel()
        if self._taking:
            await asyncio.wait(self._taking)
        if self._driven:
            self._driven = {}
            await self._queue.renew(self._worker, 0.0)

    async def _work(self) -> None:
        while not self._server.runs.stopping:
            self._news.clear()
            try:
                if self._driven or self._taking:
                    await self._renew()
                await self._claim_all()
            except RondaError as error:
                log.error("the queue of background runs cannot be looked at: %s", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), LOOKS_EVERY)

    async def _renew(self) -> None:
        for claimed in await self._queue.renew(self._worker, self._server.clock() + LEASE_SECONDS):
            live = self._driven.get(claimed.run)
            if claimed.is_cancelled and live is not None:
                live.cancel_was_asked = True
                live.cancel()

    async def _claim_all(self) -> None:
        began = self._server.clock()
        while not self._server.runs.stopping:
            now = self._server.clock()
            if (
                now >= began + LOOKS_EVERY
            ):  # there may be more, and the leases of what is driven are to be renewed first
                self._news.set()
                return
            claimed = await self._queue.claim(self._worker, self._limits, now, now + LEASE_SECONDS)
            if claimed is None:
                return
            # Read beside the next claim: with a database each takes a few milliseconds, in which others have their turn.
            task = asyncio.get_running_loop().create_task(self._take_or_drop(claimed))
            self._taking.add(task)
            task.add_done_callback(self._report_failure)

    def _report_failure(self, task: asyncio.Task[None]) -> None:
        self._taking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not is_logged(error):
            log.error("a background run could not be taken up, and is left for later: %s", error)

    async def _take_or_drop(self, claimed: ClaimedRun) -> None:
        while True:
            try:
                if not await self._take(claimed):
                    await self._queue.cancel(claimed.run, self._server.clock(), self._worker)
                return
            except StoreError as error:  # it is ours for as long as we live, so nobody else would try again
                log.error("a background run could not be taken up; trying again: %s", error)
            await asyncio.sleep(LOOKS_EVERY)

    async def _take(self, claimed: ClaimedRun) -> bool:
        """Drive a run; False if there is nothing to drive."""
        try:
            if claimed.is_cancelled:
                await self._server.runs.end_left(claimed.run)
                return False
            live = await take_up(self._server, claimed.run, was_driven=claimed.claims > 1)
        except JournalConflict:  # somebody else was faster, and drives it to its end
            return False
        if live is None:
            return False
        self._driven[claimed.run] = live
        live.start(self._over)
        return True

    def _over(self, live: LiveRun) -> None:
        report_broken(self._server, live)
        if not self._server.runs.stopping:
            task = asyncio.get_running_loop().create_task(self._take_off(live.run.id))
            self._server.tasks.add(task)
            task.add_done_callback(partial(_looked_at, self._server))

    async def _take_off(self, run: str) -> None:
        self._driven.pop(run, None)
        await self._queue.cancel(run, self._server.clock(), self._worker)
        self._news.set()


def _looked_at(server: Server, task: asyncio.Task[None]) -> None:
    server.tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None and not is_logged(error):
        log.error("a background run that is over stays in the queue: %s", error)
