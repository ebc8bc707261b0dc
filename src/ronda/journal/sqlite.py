"""A journal in a SQLite file: what all runs say in one tick goes into one transaction.

    append ──► gathered per run ──► one commit ──► barriers return
                   │                    ▲
                   └── 20 ms at most ───┘ where no barrier comes first

Commits are made in the event loop: one costs less than handing it to a thread, because with synchronous=NORMAL it does not wait
for the disk. What does (checkpoints, pruning, the syncs of FULL) is done by threads on connections of their own.

How events lie in the tables is in `rows`, what is forgotten when in `prune`. Several processes may share a file: whoever
starts or resumes a run drives it, as long as its `Presence` lasts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from ronda.core.events import PREVIEWS, Event, RunFinished, RunStarted
from ronda.errors import ProtocolError, RondaError
from ronda.journal import JournalConflict, Unfinished
from ronda.journal.prune import ROOM, forget, prune
from ronda.journal.rows import MIGRATIONS, RowWriter, find
from ronda.store import StoreError
from ronda.store.presence import Presence
from ronda.store.sqlite import MEMORY, checkpoint, connect, explain, is_busy, open_database, transaction
from ronda.store.sync import WalSync

LAZY = 0.02  # seconds until events are written that no barrier waits for
RETRY_LOCKED = 0.02  # seconds between tries while another process holds the lock …
WAIT_LOCKED = 0.005  # … each of which holds the event loop up for so long
CHECKPOINT_AFTER = 8 << 20  # bytes, roughly
PRUNE_EVERY = 600.0  # seconds
COMMIT_BYTES = 3 * 4096  # what a commit writes beside the events: about so many pages are touched

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class _Held:
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

    def __init__(self, held: _Held, error: RondaError) -> None:
        self.held = held
        self.error = error


class SqliteJournal:
    """Keeps runs in the file at `path`, or in ":memory:".

    With "NORMAL", what a barrier has acknowledged survives the end of the process, however violent; with "FULL" also a power
    cut, at the price of waiting for the disk. Runs older than `max_age` seconds are forgotten, and the oldest finished ones
    when there are more than `max_bytes`. A lock that another process keeps for longer than `patience` seconds is an error.

    Text with lone surrogates is no text and no JSON: a run that says such a thing is refused, by its barrier.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        max_age: float | None = None,
        max_bytes: int | None = None,
        patience: float = 5.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path = os.fspath(path)
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._patience = patience
        self._now = now
        self._db = open_database(path, MIGRATIONS, kind="ronda journal", patience=patience)
        self._presence = None if path == MEMORY else self._announce()
        self._writer = 0 if self._presence is None else self._presence.id
        self._sync = WalSync(path) if synchronous == "FULL" and path != MEMORY else None
        self._db.execute(f"PRAGMA busy_timeout = {WAIT_LOCKED * 1000:.0f}")
        self._execute = self._db.cursor().execute
        self._rows = RowWriter(self._db, path, self._writer)

        self._held: dict[str, _Held] = {}
        self._dirty: list[_Held] = []
        self._waiters: list[asyncio.Future[None]] = []
        # The loop in which a commit is due: at once, or lazily. (Not a flag: a loop may end with its calls undone.)
        self._due: asyncio.AbstractEventLoop | None = None
        self._due_lazily: asyncio.AbstractEventLoop | None = None
        self._locked_since: float | None = None
        self._commits = 0
        self._written = 0  # bytes, roughly, since the last checkpoint …
        self._grown = 0  # … and since the last pruning
        self._next_prune = 0.0
        self._upkeep: asyncio.Task[None] | None = None

    def _announce(self) -> Presence:
        try:
            with transaction(self._db, "IMMEDIATE"):
                return Presence(self._path)
        except (sqlite3.Error, OSError) as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise explain(self._path, error) from error
            raise StoreError(self._path, f"no lock file can be made next to it: {error.strerror}") from error

    # ---- the journal -------------------------------------------------------------------------------------------------

    def append(self, run: str, events: Sequence[Event]) -> None:
        if not events or type(events[0]) in PREVIEWS:
            return
        held = self._held.get(run)
        if type(events[0]) is RunStarted:
            if held is not None:
                raise JournalConflict(f"run {run!r} is being driven here already")
            held = self._held[run] = _Held(run, 0, 0)
        elif held is None:
            raise _not_held(run)
        if held.error is not None:
            return
        held.pending += events
        if type(events[-1]) is RunFinished:
            held.finished = True
        if not held.dirty:
            self._mark(held)

    async def barrier(self, run: str) -> None:
        held = self._held.get(run)
        if held is None or held.dirty:
            await self._flush()
        if self._sync is not None:
            await self._sync.reach(self._commits)
        if held is not None and held.error is not None:
            held.told = True
            raise held.error.with_traceback(None)

    async def read(self, run: str) -> list[Event]:
        await self._flush()
        try:
            with transaction(self._db, "DEFERRED"):
                found = find(self._db, self._path, run)
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        return [] if found is None else found.events

    async def resume(self, run: str) -> list[Event]:
        return await self._patiently(lambda: self._take(run))

    async def forget(self, run: str) -> bool:
        return await self._patiently(lambda: self._forget(run))

    async def _patiently(self, job: Callable[[], _T]) -> _T:
        """Do something that others may hold up for a while, after everything that was said before it."""
        await self._flush()
        until = time.monotonic() + self._patience
        while True:
            try:
                return job()
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= until:
                    raise explain(self._path, error) from error
            await asyncio.sleep(RETRY_LOCKED)

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        held = self._held.get(run)
        if held is None:
            raise _not_held(run)
        held.expected += [(owner, id) for id in call_ids]
        if not held.dirty and held.error is None:
            self._mark(held)

    async def waiting(self, owner: str, call_id: str) -> str | None:
        await self._flush()
        question = "SELECT run.name FROM call JOIN run ON run.id = call.run WHERE call.owner = ? AND call.id = ?"
        try:
            row = self._execute(question, (owner, call_id)).fetchone()
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        except UnicodeError:  # no text, so nobody can have kept it
            return None
        return None if row is None else str(row[0])

    async def unfinished(self) -> list[Unfinished]:
        await self._flush()
        return await self._aside(self._find_unfinished)

    def release(self, run: str) -> None:
        held = self._held.pop(run, None)
        if held is None:
            return
        held.released = True
        if held.error is not None:
            self._mourn(held)
        if held.key and not held.finished and not held.dirty:
            self._mark(held)  # to say that nobody drives it any more

    async def prune(self) -> int:
        """Forget what is beyond the limits now; returns how many runs. Done without asking at the start and every so often."""
        await self._flush()
        return await self._aside(self._prune)

    async def close(self) -> None:
        last = self._dirty.copy()
        await self._flush()
        if self._upkeep is not None and not self._upkeep.done():
            await asyncio.wait([self._upkeep])
        try:
            if self._sync is not None:
                await self._sync.reach(self._commits)
        finally:
            await asyncio.to_thread(self._db.close)  # the last to close makes a checkpoint
            presence, self._presence = self._presence, None
            if presence is not None:
                presence.leave()
        for held in last:
            if held.error is not None:
                raise held.error

    # ---- committing --------------------------------------------------------------------------------------------------

    def _mark(self, held: _Held) -> None:
        held.dirty = True
        self._dirty.append(held)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # appended before a loop runs: the first barrier will do
        if self._due_lazily is not loop:
            # Left alone when a barrier comes first: fifty idle calls a second are cheaper than a cancel for each commit.
            self._due_lazily = loop
            loop.call_later(LAZY, self._commit_lazily)

    async def _flush(self) -> None:
        """Wait for the commit at the end of this tick. Each waits on a future of its own: one may be cancelled."""
        if not self._dirty:
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
        if self._dirty and self._due is not asyncio.get_running_loop():
            self._commit()

    def _commit(self) -> None:
        self._due = None
        batch, self._dirty = self._dirty, []
        try:
            self._write_all(batch)
        except sqlite3.Error as error:
            if is_busy(error) and self._may_wait_on():
                self._dirty = batch
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
        self._look_after()

    def _may_wait_on(self) -> bool:
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        return now - self._locked_since < self._patience

    def _write_all(self, batch: list[_Held]) -> None:
        """One transaction. A run that is refused is taken out, and the others are written without it."""
        while batch:
            try:
                self._write(batch)
                return
            except _Refused as refused:
                batch.remove(refused.held)
                self._fail(refused.held, refused.error)

    def _write(self, batch: list[_Held]) -> None:
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
        self._commits += 1
        self._written += written
        self._grown += written

    def _fail(self, held: _Held, error: RondaError) -> None:
        held.error = error
        held.pending = []
        held.expected = []
        held.dirty = False
        held.finished = False
        if held.released:
            self._mourn(held)

    def _mourn(self, held: _Held) -> None:
        """What a driver did not hear because it did not wait is not lost silently."""
        if not held.told:
            held.told = True
            _log.error("the last events of run %s are lost: %s", held.name, held.error)

    # ---- taking up runs ----------------------------------------------------------------------------------------------

    def _take(self, run: str) -> list[Event]:
        if run in self._held:
            raise JournalConflict(f"run {run!r} is being driven here already")
        with transaction(self._db, "IMMEDIATE"):
            found = find(self._db, self._path, run)
            if found is None or not found.events:
                return []
            if found.writer not in (None, self._writer) and self._is_there(found.writer):
                raise JournalConflict(f"run {run!r} is being driven by another process that uses {self._path}")
            self._rows.take(found)
        held = self._held[run] = _Held(run, found.key, len(found.events))
        held.finished = type(found.events[-1]) is RunFinished
        return found.events

    def _forget(self, run: str) -> bool:
        if run in self._held:
            raise JournalConflict(f"run {run!r} is being driven here; it cannot be forgotten")
        with transaction(self._db, "IMMEDIATE"):
            forgotten = forget(self._db, run, now=self._now(), is_driven=self._is_there)
        if forgotten is False:
            raise JournalConflict(f"run {run!r} is being driven by another process that uses {self._path}")
        self._rows.forget()
        return forgotten is True

    def _is_there(self, writer: int | None) -> bool:
        """Is somebody driving the runs that say so?"""
        if writer is None or self._presence is None:
            return writer == self._writer
        return self._presence.is_there(writer)

    def _find_unfinished(self, db: sqlite3.Connection) -> list[Unfinished]:
        unfinished = []
        with transaction(db, "DEFERRED"):
            for name, writer in db.execute("SELECT name, writer FROM run WHERE ended IS NULL ORDER BY id").fetchall():
                if self._is_there(writer):
                    continue
                try:
                    found = find(db, self._path, name)
                except StoreError as error:  # one that cannot be read must not keep the others from going on
                    _log.error("left alone: %s", error)
                    continue
                if found is not None and found.events and type(start := found.events[0]) is RunStarted:
                    unfinished.append(Unfinished(name, len(found.events), start))
        return unfinished

    # ---- upkeep ------------------------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        """After a commit: is it time for a thread to do something about the file?"""
        if self._upkeep is not None and not self._upkeep.done():
            return
        if self._is_time_to_prune():
            self._upkeep = asyncio.get_running_loop().create_task(self._keep_up(self._prune))
        elif self._written >= CHECKPOINT_AFTER and self._path != MEMORY:
            self._upkeep = asyncio.get_running_loop().create_task(self._keep_up(self._checkpoint))

    def _is_time_to_prune(self) -> bool:
        if self._max_bytes is None and self._max_age is None:
            return False
        if self._max_bytes is not None and self._grown > self._max_bytes * (1 - ROOM):
            return True
        return time.monotonic() >= self._next_prune

    async def _keep_up(self, job: Callable[[sqlite3.Connection], object]) -> None:
        try:
            await self._aside(job)
        except StoreError as error:
            _log.error("not done: %s", error)  # nothing is lost: the next time will do

    def _prune(self, db: sqlite3.Connection) -> int:
        self._grown = 0
        self._next_prune = time.monotonic() + PRUNE_EVERY
        forgotten = prune(
            db, max_age=self._max_age, max_bytes=self._max_bytes, now=self._now(), is_driven=self._is_there
        )
        if db is self._db:
            self._rows.forget()
        elif forgotten:
            self._checkpoint(db)
        return forgotten

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        self._written = 0
        checkpoint(db, self._path)

    async def _aside(self, job: Callable[[sqlite3.Connection], _T]) -> _T:
        """In a thread, with a connection of its own; what is only in memory has but one."""
        return job(self._db) if self._path == MEMORY else await asyncio.to_thread(self._on_own_connection, job)

    def _on_own_connection(self, job: Callable[[sqlite3.Connection], _T]) -> _T:
        db = connect(self._path)
        try:
            return job(db)
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        finally:
            db.close()


def _not_held(run: str) -> ProtocolError:
    return ProtocolError(f"nobody holds run {run!r} here: start it with its RunStarted, or resume it")
