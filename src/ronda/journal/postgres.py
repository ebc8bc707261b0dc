"""A journal in PostgreSQL, which any number of processes on any number of machines share.

    append ──► gathered per run ──► one transaction, in a thread ──► barriers return ──► NOTIFY: these runs have grown
                                          │
                                          └── what comes meanwhile is the next one

How runs lie in the tables is in `postgres_tables`. A run is driven by the process that its row names, for as long as that one is
there (`PostgresPresence`). While the database is away, those that wait for a barrier are held up; see `store.postgres`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import psycopg

from ronda.core.events import Event
from ronda.errors import RondaError
from ronda.journal import (
    JournalConflict,
    RunCounts,
    RunPage,
    RunQuery,
    RunQuestions,
    RunSurvey,
    UnfinishedRun,
    driven_elsewhere,
    driven_here,
    is_text,
)
from ronda.journal.buffers import BufferedJournal, Portion, RunBuffer
from ronda.journal.event_rows import read_unfinished
from ronda.journal.postgres_prune import bytes_of_owners, forget, forget_old, forget_oldest, forget_previews, newest
from ronda.journal.postgres_reader import (
    bytes_used,
    count_runs,
    find,
    find_driver,
    list_runs,
    open_runs,
    read_previews,
    survey_runs,
    take,
)
from ronda.journal.postgres_tables import JOURNAL
from ronda.journal.postgres_writer import Batch, BatchWriter, MissingPart, notices
from ronda.journal.previews import KEEP_PREVIEWS, KEEP_PREVIEWS_BYTES, PreviewsAfter
from ronda.journal.run_lists import mark_kept, open_questions
from ronda.store import RemoteStoreError, StoreError
from ronda.store.postgres import Database
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.prune_clock import PruneClock
from ronda.store.shares import beyond
from ronda.store.sql import Sql
from ronda.store.thread_waits import OutOfTime

LAZY: Final = 0.02  # seconds until events are written that no barrier waits for
PRUNE_EVERY: Final = 600.0  # seconds
ROOM: Final = 0.9  # of `max_bytes` is what a pruned journal has, so that it need not be pruned again at once
_TRIES: Final = 3  # of a commit that counts on rows which another process has just deleted
_AT_ONCE: Final = 500  # calls that one query looks up
_SHOWN_RUNS: Final = 5  # in a line of the log

_log = logging.getLogger(__name__)


class PostgresJournal(BufferedJournal):
    """What a barrier has acknowledged is as safe as PostgreSQL's commits are. Runs older than `max_age` seconds are forgotten,
    and the oldest where all runs have more than `max_bytes`, or those of one owner more than `owner_bytes` (`store.shares`).
    What was shown piece by piece of runs that outlive their process is kept for `keep_previews` seconds after their ends, and
    no more than `keep_previews_bytes` of it. `close` does not close the database, which is for a catalog, too."""

    def __init__(
        self,
        database: Database,
        presence: PostgresPresence,
        *,
        max_age: float | None = None,
        max_bytes: int | None = None,
        owner_bytes: int | None = None,
        keep_previews: float = KEEP_PREVIEWS,
        keep_previews_bytes: int = KEEP_PREVIEWS_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._presence = presence
        self._me = presence.id
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._owner_bytes = owner_bytes
        self._clock = PruneClock("runs", now(), table="run_prune_clock")
        self._keep_previews = keep_previews
        self._keep_previews_bytes = keep_previews_bytes
        self._now = now
        self._next_prune = time.monotonic() + PRUNE_EVERY / 10  # a server that has just started has more to do
        self._pruning: asyncio.Task[None] | None = None
        database.migrate("journal", JOURNAL)
        self._commits = _Commits(database, presence, now)
        super().__init__(self._commits)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by run

    async def barrier(self, run: str) -> None:
        buffer = self._buffers.get(run) or self._released.get(run)
        if buffer is None or buffer.dirty:
            await self._commits.flush()
        if buffer is not None:
            buffer.raise_error()
        if time.monotonic() >= self._next_prune:
            self._next_prune = time.monotonic() + PRUNE_EVERY
            self._pruning = asyncio.get_running_loop().create_task(self._prune_quietly())

    async def read(self, run: str) -> list[Event]:
        await self._commits.flush()
        return await self._database.read(lambda db: self._read(db, run))

    async def previews(self, run: str, after: int = 0) -> PreviewsAfter:
        await self._commits.flush()
        return {} if not is_text(run) else await self._database.read(lambda db: read_previews(db, run, after))

    async def extent(self, run: str) -> tuple[int, int]:
        await self._commits.flush()
        if not is_text(run):
            return 0, 0

        def look(db: Sql) -> tuple[int, int]:
            row = db.execute(
                """SELECT coalesce((SELECT max(number) FROM event WHERE run = :run), -1) + 1, coalesce((SELECT
                    fact::bigint * 16777216 + number + 1 FROM preview WHERE run = :run ORDER BY fact DESC, number DESC LIMIT 1
                ), 0)""",
                {"run": run},
            ).fetchone()
            return row[0], row[1]

        return await self._database.read(look)

    async def wait_for_change(self, run: str) -> None:
        await self._presence.news_of(run)

    async def resume(self, run: str) -> list[Event]:
        async with self._alone(run):
            if run in self._buffers:
                raise driven_here(run)
            found = await self._database.write(lambda db: take(db, self._database.place, run, self._me))
            if found is None:
                return []
            self._resume(run, 1, found.events, is_waiting=found.is_waiting)
            return found.events

    @asynccontextmanager
    async def _alone(self, run: str) -> AsyncIterator[None]:
        """One task of this process at a time changes who holds a run, and begins when what was said of the run is written. A
        release that is written after another task has taken the run would take it away from that task."""
        lock = self._locks.get(run)
        if lock is None:
            lock = self._locks[run] = asyncio.Lock()
        async with lock:
            await self._commits.flush()
            yield

    async def forget(self, run: str) -> bool:
        async with self._alone(run):
            return await self._forget(run)

    async def _forget(self, run: str) -> bool:
        if run in self._buffers:
            raise JournalConflict(f"run {run!r} is being driven here; it cannot be forgotten")

        def forget_one(db: Sql) -> bool:
            found = find(db, self._database.place, run, self._me, lock=True)
            if found is not None and found.driver not in (None, self._me):
                raise driven_elsewhere(run)
            return found is not None and forget(db, [run]) > 0

        is_gone = await self._database.write(forget_one)
        self._commits.forget_known()
        return is_gone

    async def runs_of_calls(self, owner: str, call_ids: Sequence[str]) -> dict[str, str]:
        await self._commits.flush()
        ids = [call_id for call_id in call_ids if is_text(call_id)]
        if not ids or not is_text(owner):
            return {}

        def look(db: Sql) -> dict[str, str]:
            found: dict[str, str] = {}
            for index in range(0, len(ids), _AT_ONCE):
                some = ids[index : index + _AT_ONCE]
                question = f"SELECT id, run FROM call WHERE owner = ? AND id IN ({', '.join('?' * len(some))})"
                found |= dict(db.execute(question, (owner, *some)).fetchall())
            return found

        return await self._database.read(look)

    async def open_questions(self, owner: str, limit: int) -> list[RunQuestions]:
        await self._commits.flush()
        return await self._database.read(lambda db: open_questions(db, owner, limit, "name"))

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        await self._commits.flush()
        held = frozenset(self._buffers)
        return await self._database.read(lambda db: self._find_unfinished(db, held))

    def _find_unfinished(self, db: Sql, held: Set[str]) -> list[UnfinishedRun]:
        return read_unfinished(self._left_runs(db, held), lambda run: self._read(db, run))

    def _left_runs(self, db: Sql, held: Set[str]) -> list[tuple[str, bool]]:
        """Those that no other process drives, and that this one does not hold, neither before (`held`) nor now."""
        return [one for one in open_runs(db, self._me) if one[0] not in held and one[0] not in self._buffers]

    def _read(self, db: Sql, run: str) -> list[Event]:
        found = find(db, self._database.place, run, self._me)
        return [] if found is None else found.events

    async def abandoned_runs(self) -> set[str]:
        """Runs without a driver that do not wait for people."""
        held = frozenset(self._buffers)
        found = await self._database.read(lambda db: self._left_runs(db, held))
        return {name for name, is_waiting in found if not is_waiting}

    async def driver_of(self, run: str) -> str | None:
        """The process that drives a run, if it is another one, and alive."""
        if not is_text(run):
            return None
        driver = await self._database.read(lambda db: find_driver(db, run, self._me))
        return None if driver in (None, self._me) else str(driver)

    async def list_runs(self, query: RunQuery) -> RunPage:
        await self._commits.flush()
        return await self._database.read(lambda db: list_runs(db, query))

    async def mark_kept(self, run: str, owner: str, *, kept: bool) -> bool:
        await self._commits.flush()
        if not is_text(run) or not is_text(owner):
            return False
        return await self._database.write(lambda db: mark_kept(db, run, owner, kept))

    async def count_runs(self, query: RunQuery, since: float, until: float, pieces: int) -> RunCounts:
        await self._commits.flush()
        return await self._database.read(lambda db: count_runs(db, query, since, until, pieces))

    async def survey_runs(self, since: float, until: float, pieces: int) -> RunSurvey:
        await self._commits.flush()
        return await self._database.read(lambda db: survey_runs(db, since, until, pieces))

    async def size(self) -> int:
        return await self._database.read(bytes_used)

    async def prune(self) -> int:
        """Forget what is too old; returns how many runs. Done without asking every so often, by one process of all."""
        await self._commits.flush()
        now = self._now()
        await self._database.write(
            lambda db: forget_previews(db, now - self._keep_previews, self._keep_previews_bytes), "prune"
        )
        now = await self._database.write(lambda db: self._clock.advance(db, now, newest(db)), "prune")
        then, forgotten = None if self._max_age is None else now - self._max_age, 0
        while then is not None and (
            some := await self._database.write(lambda db: forget_old(db, then, self._me), "prune")
        ):
            forgotten += some
        if self._max_bytes is not None or self._owner_bytes is not None:
            forgotten += await self._prune_large()
        if forgotten:
            self._commits.forget_known()
        return forgotten

    async def _prune_large(self) -> int:
        kept = await self._database.read(bytes_of_owners)
        forgotten = 0
        for owner, excess in beyond(kept, self._max_bytes, self._owner_bytes, ROOM).items():
            while excess > 0:
                runs, size = await self._database.write(partial(forget_oldest, owner=owner, excess=excess), "prune")
                if not runs:
                    break  # all that is left of it is under way
                forgotten, excess = forgotten + runs, excess - size
        return forgotten

    async def _prune_quietly(self) -> None:
        try:
            await self.prune()
        except StoreError as error:
            _log.error("not done: %s", error)  # nothing is lost: the next time will do

    async def close(self) -> None:
        last = self._commits.dirty.copy()
        if self._pruning is not None:
            await asyncio.wait([self._pruning])
        try:
            await self._commits.flush()
            await self._commits.close()
            await self._database.waits.do(self._presence.leave)
        except OutOfTime:
            if runs := self._commits.unwritten:
                raise Unwritten(self._database.place, runs) from None
            raise
        for buffer in last:
            if buffer.error is not None and not buffer.is_reported:
                raise buffer.error


class Unwritten(StoreError):
    def __init__(self, place: str, runs: Sequence[str]) -> None:
        shown = ", ".join(runs[:_SHOWN_RUNS]) + (", …" if len(runs) > _SHOWN_RUNS else "")
        super().__init__(
            place,
            "it could not be reached before this process had to end, so it does not know what happened last in "
            f"{len(runs)} run{'s' if len(runs) > 1 else ''} ({shown}); the next process goes on from what it knows",
        )


class _Commits:
    """One transaction after the other. Each takes all that was said since the one before it."""

    def __init__(self, database: Database, presence: PostgresPresence, now: Callable[[], float]) -> None:
        self._database = database
        self._presence = presence
        self._now = now
        self._rows = BatchWriter(database.place, presence.id)
        self._thread = ThreadPoolExecutor(1, "ronda-journal")
        self.dirty: list[RunBuffer] = []
        self.unwritten: list[str] = []  # runs, since this process has no time left
        self._waiters: list[asyncio.Future[None]] = []
        self._is_due = False
        self._is_due_lazily = False
        self._task: asyncio.Task[None] | None = None

    def mark(self, buffer: RunBuffer) -> None:
        buffer.dirty = True
        self.dirty.append(buffer)
        if not self._is_due_lazily:
            self._is_due_lazily = True
            asyncio.get_running_loop().call_later(LAZY, self._commit_lazily)

    async def flush(self) -> None:
        """Return once everything that was said is written."""
        if self.dirty or self._task is not None:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.append(waiter)
            if not self._is_due and self._task is None:
                self._is_due = True
                loop.call_soon(self._commit)
            await waiter

    def forget_known(self) -> None:
        self._thread.submit(self._rows.forget)

    async def close(self) -> None:
        await self._database.waits.do(self._thread.shutdown)

    def _commit_lazily(self) -> None:
        self._is_due_lazily = False
        if self.dirty and not self._is_due and self._task is None:
            self._commit()

    def _commit(self) -> None:
        self._is_due = False
        if self._task is None:
            portions = [Portion.of(buffer) for buffer in self.dirty]
            self.dirty = []
            waiters, self._waiters = self._waiters, []
            self._task = asyncio.get_running_loop().create_task(self._write(portions, waiters))

    async def _write(self, portions: list[Portion], waiters: list[asyncio.Future[None]]) -> None:
        if portions:
            try:
                await self._database.waits.do(partial(self._write_in_thread, portions), self._thread)
            except OutOfTime as error:
                for portion in portions:
                    portion.error = error
        for portion in portions:
            self._conclude(portion)
        self._task = None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self.dirty or self._waiters:
            self._commit()

    def _conclude(self, portion: Portion) -> None:
        buffer = portion.buffer
        if portion.error is not None:
            if isinstance(portion.error, OutOfTime):
                buffer.is_reported = True  # by the end of the journal, for all of them
                if portion.events or portion.expected or portion.previews:
                    self.unwritten.append(buffer.name)
            buffer.fail(portion.error)
            return
        if portion.events:
            buffer.key = 1
            buffer.next += len(portion.events)
        buffer.dirty = False
        if portion.leaves_more():
            self.mark(buffer)

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _write_in_thread(self, portions: list[Portion]) -> None:
        """What is wrong with one of them is in it, and the others are written without it."""
        try:
            self._write_batch(portions)
        except Exception as error:  # whatever it is, those that wait must hear of it, or would wait for ever
            client_message = "the server's database did not take this; the server's log says why"
            why = (
                error
                if isinstance(error, RondaError)
                else RemoteStoreError(self._database.place, str(error), client_message)
            )
            left = [portion for portion in portions if portion.error is None]
            if len(left) > 1 and isinstance(error.__cause__, psycopg.DataError | psycopg.ProgrammingError):
                for portion in left:
                    self._write_in_thread([portion])
            else:
                for portion in left:
                    portion.error = why

    def _write_batch(self, portions: list[Portion]) -> None:
        for _ in range(_TRIES):
            batch = self._rows.prepare(portions, self._now())
            try:
                written = self._database.do(
                    lambda db, batch=batch: self._rows.write(db, batch),  # type: ignore[misc]
                    self._database.begin_write(),
                )
            except MissingPart:
                self._rows.forget()
                continue
            self._rows.remember(batch)
            self._conclude_batch(portions, batch, written)
            return
        problem = "what these runs share with others was deleted while they were written, again and again"
        raise StoreError(self._database.place, problem)

    def _conclude_batch(self, portions: list[Portion], batch: Batch, written: set[str]) -> None:
        for portion in portions:
            name = portion.buffer.name
            if portion.events and portion.error is None and name not in written:
                portion.error = JournalConflict(
                    f"event {portion.buffer.next} of run {name!r} was written by another driver"
                )
        self._tell(batch, written)

    def _tell(self, batch: Batch, written: set[str]) -> None:
        """Afterwards, outside any transaction; a process that hears nothing looks after a second."""
        try:
            self._database.quickly(lambda connection: self._presence.notify(connection, notices(batch, written)))
        except psycopg.Error as error:
            _log.debug("no process was told: %s", error)
