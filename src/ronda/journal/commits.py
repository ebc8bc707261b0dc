"""What all runs say in one tick goes into one transaction.

    append ──► gathered per run ──► one commit ──► barriers return
                   │                    ▲
                   └── 20 ms at most ───┘ where no barrier comes first

Commits are made in the event loop: one costs less than handing it to a thread, because with synchronous=NORMAL it does not wait
for the disk. A run that cannot be written is left out, and told so; the others are not disturbed.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable

from ronda.core.events import Event
from ronda.errors import RondaError
from ronda.journal.rows import RowWriter
from ronda.journal.upkeep import Upkeep
from ronda.store import StoreError
from ronda.store.sqlite import explain, is_busy

LAZY = 0.02  # seconds until events are written that no barrier waits for
RETRY_LOCKED = 0.02  # seconds between tries while another process holds the lock
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


class _Refused(Exception):
    """One run of a transaction cannot be written."""

    def __init__(self, held: Held, error: RondaError) -> None:
        self.held = held
        self.error = error


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
        """Wait for the commit at the end of this tick. Each waits on a future of its own: one may be cancelled."""
        if not self.dirty:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        if self._due is not loop:
            self._due = loop
            loop.call_soon(self._commit)
        await waiter

    def _commit_lazily(self) -> None:
        self._due_lazily = None
        if self.dirty and self._due is not asyncio.get_running_loop():
            self._commit()

    def _commit(self) -> None:
        self._due = None
        batch, self.dirty = self.dirty, []
        try:
            self._write_all(batch)
        except sqlite3.Error as error:
            if is_busy(error) and self._may_wait_on():
                self.dirty = batch
                self._due = loop = asyncio.get_running_loop()
                loop.call_later(RETRY_LOCKED, self._commit)
                return
            for held in batch:
                self._fail(held, explain(self._path, error))
        except Exception as error:  # a bug; but whoever waits must hear of it, or would wait for ever
            for held in batch:
                self._fail(held, StoreError(self._path, f"{type(error).__name__}: {error}"))
        self._locked_since = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._upkeep.look_after()

    def _may_wait_on(self) -> bool:
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        return now - self._locked_since < self._patience

    def _write_all(self, batch: list[Held]) -> None:
        """One transaction. A run that is refused is taken out, and the others are written without it."""
        while batch:
            try:
                self._write(batch)
                return
            except _Refused as refused:
                batch.remove(refused.held)
                self._fail(refused.held, refused.error)

    def _write(self, batch: list[Held]) -> None:
        execute = self._execute
        rows = self._rows
        keys: list[int] = []
        written = COMMIT_BYTES
        execute("BEGIN IMMEDIATE")
        try:
            rows.begin()
            now = self._now()
            for held in batch:
                key = held.key
                try:
                    if held.pending:
                        key, size = rows.write(held.name, key, held.next, held.pending, now)
                        written += size
                    for owner, call_id in held.expected:
                        rows.expect(key, owner, call_id)
                except RondaError as error:
                    raise _Refused(held, error) from error
                if held.released and not held.finished:
                    rows.let_go(key)
                keys.append(key)
            execute("COMMIT")
        except BaseException:
            rows.forget()
            self._db.rollback()
            raise
        for held, key in zip(batch, keys, strict=True):
            held.key = key
            held.next += len(held.pending)
            held.pending = []
            held.expected = []
            held.dirty = False
        self.count += 1
        self._upkeep.wrote(written)

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
