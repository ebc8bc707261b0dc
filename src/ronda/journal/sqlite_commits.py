"""What all runs say in one tick goes into one transaction.

    append ──► gathered per run ──► one commit ──► barriers return
                   │                    ▲
                   └── 20 ms at most ───┘ where no barrier comes first

A run that no barrier waits for is left out of the others' commits until its time is over: by then most have ended, and are
written in one piece. One that goes on from another run is not left out: a handover is kept whole, or not at all.

Commits are made in the event loop: one costs less than handing it to a thread, because with synchronous=NORMAL it does not wait
for the disk. Large ones are the exception: encoding, hashing and writing 30 MB takes a good part of a second, so a thread does
it, on the same connection, and all others wait for that connection (`flush`). A run that cannot be written is left out,
and told so; the others are not disturbed.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable

from ronda.errors import RondaError
from ronda.journal.buffers import LARGE, Portion, RunBuffer
from ronda.journal.previews import write_previews
from ronda.journal.sqlite_upkeep import Upkeep
from ronda.journal.sqlite_writer import LARGE_VALUE, RowWriter
from ronda.journal.tally import NO_FIGURES
from ronda.store import StoreError
from ronda.store.fork import GATE
from ronda.store.sqlite import FILE_MOVED, MEMORY, explain, is_busy

PERIOD = 0.01  # seconds; events that no barrier waits for are written when the second of them is over
RETRY_LOCKED = 0.02  # seconds between tries while another process holds the lock
LOOK_EVERY = 1.0  # seconds between two looks whether the file is still there
COMMIT_BYTES = 3 * 4096  # what a commit writes besides the events: about so many pages are touched


def _place(path: str) -> tuple[int, int] | None:
    """Which file is at a path; none if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Commits:
    """`count` is how many there were. A lock that another process keeps for longer than `timeout` seconds is an error."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: str,
        rows: RowWriter,
        upkeep: Upkeep,
        timeout: float,
        now: Callable[[], float],
    ) -> None:
        self._db = db
        self._path = path
        self._rows = rows
        self._upkeep = upkeep
        self._timeout = timeout
        self._now = now
        self._execute = db.cursor().execute
        self.count = 0
        self.dirty: list[RunBuffer] = []
        self._waiters: list[asyncio.Future[None]] = []
        # The loop in which a commit is due, and in which a period ends. (Not a flag: a loop may end with its calls undone.)
        self._due: asyncio.AbstractEventLoop | None = None
        self._period_ends: asyncio.AbstractEventLoop | None = None
        self._period = 0
        self._takes_all = False  # the next commit leaves out none
        self._locked_since: float | None = None
        self._place = None if path == MEMORY else _place(path)
        self._looked_at = 0.0  # when the place was looked at last
        self._aside: asyncio.Task[None] | None = None  # a commit that a thread makes

    def mark(self, buffer: RunBuffer) -> None:
        """Something of this run is to be written."""
        buffer.dirty = True
        buffer.marked = self._period
        self.dirty.append(buffer)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._takes_all = True  # appended before a loop runs: the first barrier will do
            return
        if self._period_ends is not loop:
            self._begin_period(loop)

    async def flush(self) -> None:
        """Wait until everything is written; after it no other task uses the connection until the next await."""
        if self.dirty:
            self._takes_all = True
            await self._next_commit()
        while self._aside is not None:
            await asyncio.wait([self._aside])

    def reach(self, buffer: RunBuffer) -> asyncio.Future[None]:
        """Done when everything of this run is written, of which something is not."""
        buffer.is_awaited = True
        return self._next_commit()

    def _next_commit(self) -> asyncio.Future[None]:
        """The commit at the end of this tick. Each waits on a future of its own: one may be cancelled."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        if self._due is not loop:
            self._due = loop
            loop.call_soon(self._commit)
        return waiter

    def _begin_period(self, loop: asyncio.AbstractEventLoop) -> None:
        """Its end is left alone when a barrier comes first: idle calls are cheaper than a cancel for each commit."""
        self._period_ends = loop
        loop.call_later(PERIOD, self._end_period)

    def _end_period(self) -> None:
        self._period += 1
        self._period_ends = None
        if self.dirty:
            loop = asyncio.get_running_loop()
            if self._due is not loop:
                self._commit()
            if self.dirty and self._period_ends is not loop:
                self._begin_period(loop)

    def _commit(self) -> None:
        self._due = None
        if self._aside is not None:
            return  # which continues what has come meanwhile
        size = 0
        portions = []
        left_out = []
        for buffer in self.dirty:
            if buffer.is_awaited or not buffer.can_wait or self._takes_all or self._period - buffer.marked > 1:
                portion = Portion.of(buffer)
                portions.append(portion)
                size += portion.size
            else:
                left_out.append(buffer)
        self.dirty = left_out
        self._takes_all = False
        waiters, self._waiters = self._waiters, []
        if not portions and not waiters:
            return
        if size > LARGE and self._path != MEMORY:
            self._aside = asyncio.get_running_loop().create_task(self._commit_aside(portions, waiters))
        else:
            self._conclude(portions, waiters, self._try_to_write(portions))

    async def _commit_aside(self, portions: list[Portion], waiters: list[asyncio.Future[None]]) -> None:
        try:
            error = await asyncio.to_thread(self._try_to_write, portions)
        finally:
            self._aside = None
        self._conclude(portions, waiters, error)
        if self._due is None and (self.dirty or self._waiters):
            self._commit()

    def _try_to_write(self, portions: list[Portion]) -> Exception | None:
        """What went wrong with all of them, if anything did; what is wrong with one of them only is in it."""
        try:
            with GATE:
                self._write_all(portions)
        except Exception as error:
            return error
        return None

    def _conclude(self, portions: list[Portion], waiters: list[asyncio.Future[None]], error: Exception | None) -> None:
        if error is not None:
            if isinstance(error, sqlite3.Error) and is_busy(error) and self._may_wait_on():
                self._try_later(portions, waiters)
                return
            self._fail_all(portions, error)
        for portion in portions:
            buffer = portion.buffer
            if portion.error is not None:
                buffer.fail(portion.error)
            elif (
                buffer.pending
                or buffer.expected
                or buffer.released
                or buffer.waiting
                or buffer.previews is not None
                or buffer.questions is not None
            ):
                if portion.leaves_more():
                    self.mark(buffer)
                else:
                    buffer.dirty = False
            else:
                buffer.dirty = False
        self._locked_since = None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._upkeep.look_after()

    def _try_later(self, portions: list[Portion], waiters: list[asyncio.Future[None]]) -> None:
        """Another process holds the lock."""
        again = []
        for portion in portions:
            if portion.error is not None:
                portion.buffer.fail(portion.error)
            else:
                portion.put_back()
                again.append(portion.buffer)
        self.dirty = again + self.dirty
        self._waiters = waiters + self._waiters
        self._takes_all = True
        self._due = loop = asyncio.get_running_loop()
        loop.call_later(RETRY_LOCKED, self._commit)

    def _fail_all(self, portions: list[Portion], error: Exception) -> None:
        if isinstance(error, StoreError):
            why = error
        elif isinstance(error, sqlite3.Error):
            why = explain(self._path, error)
        else:  # a bug; but those that wait must hear of it, or would wait for ever
            why = StoreError(self._path, f"{type(error).__name__}: {error}")
        for portion in portions:
            portion.error = portion.error or why

    def _may_wait_on(self) -> bool:
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        return now - self._locked_since < self._timeout

    def _write_all(self, portions: list[Portion]) -> None:
        """One transaction. A run that is refused is taken out, and the others are written without it."""
        if self._place is not None:
            self._check_place()
        while refused := self._write(portions):
            portions = [portion for portion in portions if portion is not refused]

    @property
    def is_in_place(self) -> bool:
        return self._place is None or _place(self._path) == self._place

    def _check_place(self) -> None:
        """SQLite goes on writing into a file that was deleted, and all of it would be gone with the process."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY:
            if not self.is_in_place:
                raise StoreError(self._path, FILE_MOVED)
            self._looked_at = now

    def _write(self, portions: list[Portion]) -> Portion | None:
        """Nothing is written if one of them cannot be: which one it is."""
        if not portions:
            return None
        execute = self._execute
        rows = self._rows
        size = COMMIT_BYTES
        keys: list[int] = []  # given only once they are committed
        execute("BEGIN IMMEDIATE")
        try:
            rows.begin()
            now = self._now()
            for portion in portions:
                buffer, key = portion.buffer, portion.key
                figures = portion.figures or NO_FIGURES
                try:
                    if portion.events:
                        is_large = portion.size > LARGE_VALUE
                        key, added = rows.write(buffer.name, key, buffer.next, portion.events, now, is_large, figures)
                        size += added
                        if buffer.was_waiting:
                            rows.unpause(key)
                    if portion.previews or portion.are_over:
                        self._upkeep.has_previews = True
                        size += write_previews(execute, key, portion.previews, are_over=portion.are_over)
                    for owner, call_id in portion.expected:
                        rows.expect(key, owner, call_id)
                    if portion.questions is not None:
                        rows.note_questions(key, portion.questions, portion.waits_within)
                    if portion.figures is not None and portion.only_counts():
                        rows.count(key, portion.figures)
                except RondaError as error:
                    portion.error = error
                    rows.forget()
                    self._db.rollback()
                    return portion
                if portion.is_waiting:
                    rows.pause(key)
                if portion.is_let_go:
                    rows.release(key)
                keys.append(key)
            execute("COMMIT")
        except BaseException:
            rows.forget()
            self._db.rollback()
            raise
        for portion, key in zip(portions, keys, strict=True):
            portion.buffer.key = key
            portion.buffer.next += len(portion.events)
        self.count += 1
        self._upkeep.wrote(size)
        return None
