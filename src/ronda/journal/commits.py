"""What all runs say in one tick goes into one transaction.

    append ──► gathered per run ──► one commit ──► barriers return
                   │                    ▲
                   └── 20 ms at most ───┘ where no barrier comes first

Commits are made in the event loop: one costs less than handing it to a thread, because with synchronous=NORMAL it does not wait
for the disk. Large ones are the exception: encoding, hashing and writing 30 MB takes a good part of a second, so a thread does
it, on the same connection, and everybody else waits for that connection (`flush`). A run that cannot be written is left out,
and told so; the others are not disturbed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from typing import NamedTuple

from ronda.core.events import Event, RunStarted
from ronda.core.sizes import text_size
from ronda.drive.aside import is_heavy
from ronda.errors import RondaError
from ronda.journal.rows import RowWriter
from ronda.journal.upkeep import Upkeep
from ronda.store import StoreError
from ronda.store.sqlite import MEMORY, MOVED, explain, is_busy

LAZY = 0.02  # seconds until events are written that no barrier waits for
RETRY_LOCKED = 0.02  # seconds between tries while another process holds the lock
LARGE = 1 << 20  # characters: more than this is for a thread
COMMIT_BYTES = 3 * 4096  # what a commit writes beside the events: about so many pages are touched

_log = logging.getLogger(__name__)


class Held:
    """A run that is driven here, and what of it waits to be written."""

    __slots__ = ("dirty", "error", "expected", "finished", "key", "name", "next", "pending", "released", "told")

    def __init__(self, name: str, key: int, next: int) -> None:
        self.name = name
        self.key = key  # 0: not in the database yet
        self.next = next  # the number of the first pending event
        self.pending: list[Event] = []
        self.expected: list[tuple[str, str]] = []
        self.dirty = False
        self.finished = False
        self.released = False
        self.error: RondaError | None = None  # events are missing: nothing more can be kept
        self.told = False  # the driver knows


def _place(path: str) -> tuple[int, int] | None:
    """Which file is at a path; none if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Refused(Exception):
    """One run of a transaction cannot be written."""

    def __init__(self, held: Held, error: RondaError) -> None:
        self.held = held
        self.error = error


class _Written(NamedTuple):
    """What a transaction has written of a run."""

    held: Held
    key: int
    events: int
    expected: int
    is_let_go: bool


class Commits:
    """`count` is how many there were. A lock that another process keeps for longer than `patience` seconds is an error."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: str,
        rows: RowWriter,
        upkeep: Upkeep,
        patience: float,
        now: Callable[[], float],
    ) -> None:
        self._db = db
        self._path = path
        self._rows = rows
        self._upkeep = upkeep
        self._patience = patience
        self._now = now
        self._execute = db.cursor().execute
        self.count = 0
        self.dirty: list[Held] = []
        self._waiters: list[asyncio.Future[None]] = []
        # The loop in which a commit is due: at once, or lazily. (Not a flag: a loop may end with its calls undone.)
        self._due: asyncio.AbstractEventLoop | None = None
        self._due_lazily: asyncio.AbstractEventLoop | None = None
        self._locked_since: float | None = None
        self._place = None if path == MEMORY else _place(path)
        self._aside: asyncio.Task[None] | None = None  # a commit that a thread makes

    def mark(self, held: Held) -> None:
        """Something of this run is to be written."""
        held.dirty = True
        self.dirty.append(held)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # appended before a loop runs: the first barrier will do
        if self._due_lazily is not loop:
            # Left alone when a barrier comes first: fifty idle calls a second are cheaper than a cancel for each commit.
            self._due_lazily = loop
            loop.call_later(LAZY, self._commit_lazily)

    async def flush(self) -> None:
        """Wait for the commit at the end of this tick; after it nobody else uses the connection until the next await.

        Each waits on a future of its own: one may be cancelled.
        """
        if self.dirty:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.append(waiter)
            if self._due is not loop:
                self._due = loop
                loop.call_soon(self._commit)
            await waiter
        while self._is_aside:
            assert self._aside is not None
            await asyncio.wait([self._aside])

    @property
    def _is_aside(self) -> bool:
        return self._aside is not None and not self._aside.done()

    def _commit_lazily(self) -> None:
        self._due_lazily = None
        if self.dirty and self._due is not asyncio.get_running_loop():
            self._commit()

    def _commit(self) -> None:
        self._due = None
        if self._is_aside:
            return  # which goes on with what has come meanwhile
        batch, self.dirty = self.dirty, []
        waiters, self._waiters = self._waiters, []
        if self._path != MEMORY and _is_large(batch):
            self._aside = asyncio.get_running_loop().create_task(self._commit_aside(batch, waiters))
        else:
            self._conclude(batch, waiters, *self._try_to_write(batch))

    async def _commit_aside(self, batch: list[Held], waiters: list[asyncio.Future[None]]) -> None:
        outcome = await asyncio.to_thread(self._try_to_write, batch)
        self._aside = None
        self._conclude(batch, waiters, *outcome)
        if self._due is None and (self.dirty or self._waiters):
            self._commit()

    def _try_to_write(self, batch: list[Held]) -> tuple[list[_Written], list[_Refused], Exception | None]:
        """What was written, which runs were refused, and what went wrong with all of them."""
        refused: list[_Refused] = []
        try:
            return self._write_all(batch, refused), refused, None
        except Exception as error:
            return [], refused, error

    def _conclude(
        self,
        batch: list[Held],
        waiters: list[asyncio.Future[None]],
        written: list[_Written],
        refused: list[_Refused],
        error: Exception | None,
    ) -> None:
        for one in refused:
            self._fail(one.held, one.error)
        left = [held for held in batch if held.error is None]
        if isinstance(error, sqlite3.Error) and is_busy(error) and self._may_wait_on():
            self.dirty = left + self.dirty
            self._waiters = waiters + self._waiters
            self._due = loop = asyncio.get_running_loop()
            loop.call_later(RETRY_LOCKED, self._commit)
            return
        if error is not None:
            if isinstance(error, StoreError):
                why = error
            elif isinstance(error, sqlite3.Error):
                why = explain(self._path, error)
            else:  # a bug; but whoever waits must hear of it, or would wait for ever
                why = StoreError(self._path, f"{type(error).__name__}: {error}")
            for held in left:
                self._fail(held, why)
        for done in written:
            self._has_written(done)
        self._locked_since = None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._upkeep.look_after()

    def _has_written(self, written: _Written) -> None:
        """Take away what is in the database; a thread may have written while more was said."""
        held = written.held
        held.key = written.key
        held.next += written.events
        del held.pending[: written.events]
        del held.expected[: written.expected]
        is_left = held.released and not held.finished and not written.is_let_go
        held.dirty = bool(held.pending or held.expected or is_left)
        if held.dirty:
            self.mark(held)

    def _may_wait_on(self) -> bool:
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        return now - self._locked_since < self._patience

    def _write_all(self, batch: list[Held], refused: list[_Refused]) -> list[_Written]:
        """One transaction. A run that is refused is taken out, and the others are written without it."""
        self._check_place()
        left = batch.copy()
        while left:
            try:
                return self._write(left)
            except _Refused as error:
                left.remove(error.held)
                refused.append(error)
        return []

    def _check_place(self) -> None:
        """SQLite goes on writing into a file that was deleted, and all of it would be gone with the process."""
        if self._place is not None and _place(self._path) != self._place:
            raise StoreError(self._path, MOVED)

    def _write(self, batch: list[Held]) -> list[_Written]:
        execute = self._execute
        rows = self._rows
        written: list[_Written] = []
        size = COMMIT_BYTES
        execute("BEGIN IMMEDIATE")
        try:
            rows.begin()
            now = self._now()
            for held in batch:
                key, events, expected = held.key, held.pending.copy(), held.expected.copy()
                try:
                    if events:
                        key, added = rows.write(held.name, key, held.next, events, now)
                        size += added
                    for owner, call_id in expected:
                        rows.expect(key, owner, call_id)
                except RondaError as error:
                    raise _Refused(held, error) from error
                if is_let_go := held.released and not held.finished:
                    rows.let_go(key)
                written.append(_Written(held, key, len(events), len(expected), is_let_go))
            execute("COMMIT")
        except BaseException:
            rows.forget()
            self._db.rollback()
            raise
        self.count += 1
        self._upkeep.wrote(size)
        return written

    def _fail(self, held: Held, error: RondaError) -> None:
        held.error = error
        held.pending = []
        held.expected = []
        held.dirty = False
        held.finished = False
        if held.released:
            self.mourn(held)

    def mourn(self, held: Held) -> None:
        """What a driver did not hear because it did not wait is not lost silently."""
        if not held.told:
            held.told = True
            _log.error("the last events of run %s are lost: %s", held.name, held.error)


def _is_large(batch: list[Held]) -> bool:
    events = [event for held in batch for event in held.pending]
    if any(is_heavy(event.turns, event.plan.tools) for event in events if type(event) is RunStarted):
        return True  # many small turns take as long as a large one
    return sum([text_size(event) for event in events]) > LARGE
