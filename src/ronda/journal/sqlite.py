"""A journal in a SQLite file: who holds which run, and what is read of all of them.

When events are written is in `sqlite_commits`, how they lie in `sqlite_tables`, what is forgotten when in `sqlite_prune`. What
waits for the disk (checkpoints, pruning, the syncs of FULL) is done by threads: see `sqlite_upkeep`. Several processes may
share a file: the process that starts or resumes a run drives it, as long as its `Presence` lasts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Literal, TypeVar

from ronda.core.events import Event
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
from ronda.journal.buffers import BufferedJournal
from ronda.journal.event_rows import check_drivable, read_unfinished
from ronda.journal.previews import (
    KEEP_PREVIEWS,
    KEEP_PREVIEWS_BYTES,
    PreviewsAfter,
    read_previews,
)
from ronda.journal.run_lists import mark_kept, open_questions
from ronda.journal.sqlite_commits import RETRY_LOCKED, Commits
from ronda.journal.sqlite_prune import bytes_used, forget
from ronda.journal.sqlite_reader import FoundRun, count_runs, find, is_long, list_runs, survey_runs
from ronda.journal.sqlite_tables import MIGRATIONS
from ronda.journal.sqlite_upkeep import Upkeep
from ronda.journal.sqlite_writer import RowWriter
from ronda.store import StoreError
from ronda.store.fork import GATE
from ronda.store.presence import Presence
from ronda.store.sqlite import MEMORY, explain, is_busy, open_database, transaction
from ronda.store.wal_sync import WalSync

AT_ONCE = 128  # calls that one query looks up, some 5 µs each, before others have their turn
LOOKS_EVERY = 0.05  # seconds between two looks at what other processes write
WAIT_LOCKED = 0.005  # seconds for which a try to write holds the event loop up

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class SqliteJournal(BufferedJournal):
    """Keeps runs in the file at `path`, or in ":memory:".

    With "NORMAL", what a barrier has acknowledged survives the end of the process, however violent; with "FULL" also a power
    cut, at the price of waiting for the disk. Runs older than `max_age` seconds are forgotten, and the oldest finished ones
    when there are more than `max_bytes`. What was shown piece by piece of runs that outlive their process is kept for
    `keep_previews` seconds after their ends, and no more than `keep_previews_bytes` of it. A lock that another process keeps
    for longer than `timeout` seconds is an error.

    Text with lone surrogates is no text and no JSON: a run that says such a thing is refused, by its barrier.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        max_age: float | None = None,
        max_bytes: int | None = None,
        owner_bytes: int | None = None,
        keep_previews: float = KEEP_PREVIEWS,
        keep_previews_bytes: int = KEEP_PREVIEWS_BYTES,
        timeout: float = 5.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        path = os.fspath(path)
        # Also for a program that changes its folder.
        self.path = self._path = path = path if path == MEMORY else os.path.abspath(path)
        self._timeout = timeout
        self._now = now
        self._db = open_database(path, MIGRATIONS, kind="ronda journal", timeout=timeout)
        self._presence = None if path == MEMORY else self._announce()
        self._writer = 0 if self._presence is None else self._presence.id
        self._sync = WalSync(path) if synchronous == "FULL" and path != MEMORY else None
        with GATE:
            self._db.execute(f"PRAGMA busy_timeout = {WAIT_LOCKED * 1000:.0f}")
            self._execute = self._db.cursor().execute
            self._rows = RowWriter(self._db, path, self._writer)
        self._upkeep = Upkeep(
            self._db,
            path,
            max_age=max_age,
            max_bytes=max_bytes,
            owner_bytes=owner_bytes,
            keep_previews=keep_previews,
            keep_previews_bytes=keep_previews_bytes,
            now=now,
            is_driven=self._is_there,
            forgot=self._rows.forget,
        )
        self._commits = Commits(self._db, path, self._rows, self._upkeep, timeout, now)
        super().__init__(self._commits)

    def _announce(self) -> Presence:
        try:
            with transaction(self._db, "IMMEDIATE"):
                return Presence(self._path)
        except (sqlite3.Error, OSError) as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise explain(self._path, error) from error
            raise StoreError(self._path, f"no lock file can be made next to it: {error.strerror}") from error

    @property
    def is_in_place(self) -> bool:
        """Whether its file is still where it was opened. Waits for the disk."""
        return self._commits.is_in_place

    # ---- the journal -------------------------------------------------------------------------------------------------

    async def barrier(self, run: str) -> None:
        buffer = self._buffers.get(run) or self._released.get(run)
        if buffer is None:
            await self._commits.flush()
        elif buffer.dirty:
            await self._commits.reach(buffer)
        if self._sync is not None:
            await self._sync.reach(self._commits.count)
        if buffer is not None and buffer.error is not None:
            buffer.raise_error()

    async def read(self, run: str) -> list[Event]:
        await self._commits.flush()
        try:
            found = await self._find_long(run) or self._find(run, self._db)
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        return _events(found)

    async def _find_long(self, run: str) -> FoundRun | None:
        """A run that takes long to read, read by a thread; None for another."""
        with GATE:
            takes_long = is_long(self._db, run)
        return await self._upkeep.aside(partial(self._find, run)) if takes_long else None

    def _find(self, run: str, db: sqlite3.Connection) -> FoundRun | None:
        with transaction(db, "DEFERRED"):
            return find(db, self._path, run)

    async def previews(self, run: str, after: int = 0) -> PreviewsAfter:
        await self._commits.flush()
        return await self._upkeep.aside(lambda db: read_previews(db, run))

    async def extent(self, run: str) -> tuple[int, int]:
        await self._commits.flush()
        try:
            with GATE:
                row = self._execute(
                    """SELECT coalesce((SELECT max(number) FROM event WHERE run = id), -1) + 1,
                    coalesce((SELECT max(rowid) FROM preview WHERE run = id), 0) FROM run WHERE name = ?""",
                    (run,),
                ).fetchone()
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        except UnicodeError:  # no text, so it cannot have been kept
            return 0, 0
        return (0, 0) if row is None else (row[0], row[1])

    async def wait_for_change(self, run: str) -> None:
        await asyncio.sleep(LOOKS_EVERY)

    @property
    def process(self) -> str:
        """By which the processes that share the file know this one."""
        return f"{self._writer:012x}"

    def is_alive(self, process: str) -> bool:
        return self._is_there(int(process, 16))

    async def driver_of(self, run: str) -> str | None:
        """The process that drives a run, if it is another one, and alive."""
        try:
            with GATE:
                row = self._execute("SELECT writer FROM run WHERE name = ? AND ended IS NULL", (run,)).fetchone()
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        except UnicodeError:  # no text, so it cannot have been kept
            return None
        writer = None if row is None else row[0]
        is_other = writer not in (None, self._writer) and self._is_there(writer)
        return f"{writer:012x}" if is_other else None

    async def resume(self, run: str) -> list[Event]:
        await self._commits.flush()
        try:
            known = await self._find_long(run)
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        return await self._patiently(lambda: self._take(run, known))

    async def forget(self, run: str) -> bool:
        return await self._patiently(lambda: self._forget(run))

    async def _patiently(self, job: Callable[[], _T]) -> _T:
        """Do something that others may hold up for a while, after everything that was said before it."""
        until = time.monotonic() + self._timeout
        while True:
            await self._commits.flush()
            try:
                return job()
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= until:
                    raise explain(self._path, error) from error
            await asyncio.sleep(RETRY_LOCKED)

    async def runs_of_calls(self, owner: str, call_ids: Sequence[str]) -> dict[str, str]:
        await self._commits.flush()
        ids = [call_id for call_id in call_ids if is_text(call_id)]
        found: dict[str, str] = {}
        for index in range(0, len(ids) if is_text(owner) else 0, AT_ONCE):
            if index:
                await asyncio.sleep(0)
            some = ids[index : index + AT_ONCE]
            question = f"""SELECT call.id, run.name FROM call JOIN run ON run.id = call.run
                WHERE call.owner = ? AND call.id IN ({", ".join("?" * len(some))})"""
            try:
                with GATE:
                    found |= dict(self._execute(question, (owner, *some)).fetchall())
            except sqlite3.Error as error:
                raise explain(self._path, error) from error
        return found

    async def open_questions(self, owner: str, limit: int) -> list[RunQuestions]:
        await self._commits.flush()
        return await self._upkeep.aside(lambda db: open_questions(db, owner, limit, "id"))

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        await self._commits.flush()
        return await self._upkeep.aside(partial(self._find_unfinished, frozenset(self._buffers)))

    async def list_runs(self, query: RunQuery) -> RunPage:
        await self._commits.flush()
        return await self._upkeep.aside(lambda db: list_runs(db, query))

    async def mark_kept(self, run: str, owner: str, *, kept: bool) -> bool:
        def mark() -> bool:
            with transaction(self._db, "IMMEDIATE"):
                return mark_kept(self._db, run, owner, kept)

        return is_text(run) and is_text(owner) and await self._patiently(mark)

    async def count_runs(self, query: RunQuery, since: float, until: float, pieces: int) -> RunCounts:
        await self._commits.flush()
        return await self._upkeep.aside(lambda db: count_runs(db, query, since, until, pieces))

    async def survey_runs(self, since: float, until: float, pieces: int) -> RunSurvey:
        await self._commits.flush()
        return await self._upkeep.aside(lambda db: survey_runs(db, since, until, pieces))

    async def size(self) -> int:
        return await self._upkeep.aside(bytes_used)

    async def prune(self) -> int:
        """Forget what is beyond the limits now; returns how many runs. Done without asking at the start and every so often."""
        await self._commits.flush()
        return await self._upkeep.aside(self._upkeep.prune)

    async def close(self) -> None:
        last = self._commits.dirty.copy()
        await self._commits.flush()
        await self._upkeep.finish()
        try:
            if self._sync is not None:
                await self._sync.reach(self._commits.count)
        finally:
            await asyncio.to_thread(self._db.close)  # the last to close makes a checkpoint
            presence, self._presence = self._presence, None
            if presence is not None:
                presence.leave()
        for buffer in last:
            if buffer.error is not None:
                raise buffer.error

    # ---- taking up runs ----------------------------------------------------------------------------------------------

    def _take(self, run: str, known: FoundRun | None) -> list[Event]:
        if run in self._buffers:
            raise driven_here(run)
        with transaction(self._db, "IMMEDIATE"):
            found = find(self._db, self._path, run, known)
            if found is None or not found.events:
                return []
            if found.writer not in (None, self._writer) and self._is_there(found.writer):
                raise driven_elsewhere(run)
            check_drivable(run, found.events)
            self._rows.take(found)
        self._resume(run, found.key, found.events, is_waiting=found.is_waiting)
        return found.events

    def _forget(self, run: str) -> bool:
        if run in self._buffers:
            raise JournalConflict(f"run {run!r} is being driven here; it cannot be forgotten")
        with transaction(self._db, "IMMEDIATE"):
            forgotten = forget(self._db, run, now=self._now(), is_driven=self._is_there)
        if forgotten is False:
            raise driven_elsewhere(run)
        self._rows.forget()
        return forgotten is True

    def _is_there(self, writer: int | None) -> bool:
        """Are the runs driven that say so?"""
        if writer is None or self._presence is None:
            return writer == self._writer
        return self._presence.is_there(writer)

    def _find_unfinished(self, held: Set[str], db: sqlite3.Connection) -> list[UnfinishedRun]:
        """Those that no other process drives, and that this one does not hold, neither before (`held`) nor now. Of its own it
        knows better than their rows: a release may not have been written."""
        with transaction(db, "DEFERRED"):
            rows = db.execute("SELECT name, state, writer FROM run WHERE ended IS NULL ORDER BY id").fetchall()
            runs = [
                (name, state == "waiting")
                for name, state, writer in rows
                if name not in held
                and name not in self._buffers
                and (writer == self._writer or not self._is_there(writer))
            ]
            return read_unfinished(runs, lambda run: _events(find(db, self._path, run)))


def _events(found: FoundRun | None) -> list[Event]:
    return [] if found is None else found.events
