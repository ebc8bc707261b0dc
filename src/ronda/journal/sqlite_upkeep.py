"""What the file of a journal needs besides being written: checkpoints of its log, and pruning.

Looked for after every commit, and done by a thread on a connection of its own. A journal in memory has but one connection:
there it is done on the spot.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from ronda.journal.sqlite_prune import ROOM, newest, prune, prune_previews
from ronda.store import StoreError
from ronda.store.fork import GATE
from ronda.store.prune_clock import PruneClock
from ronda.store.sqlite import MEMORY, checkpoint, connect, explain, transaction

CHECKPOINT_AFTER = 8 << 20  # bytes, roughly
PRUNE_EVERY = 600.0  # seconds

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Upkeep:
    """`forgot` is told when runs were pruned on the journal's own connection."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: str,
        *,
        max_age: float | None,
        max_bytes: int | None,
        owner_bytes: int | None,
        keep_previews: float,
        keep_previews_bytes: int,
        now: Callable[[], float],
        is_driven: Callable[[int | None], bool],
        forgot: Callable[[], None],
    ) -> None:
        self._db = db
        self._path = path
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._owner_bytes = owner_bytes
        self._clock = PruneClock("runs", now())
        self._keep_previews = keep_previews
        self._keep_previews_bytes = keep_previews_bytes
        self._now = now
        self._is_driven = is_driven
        self._forgot = forgot
        self._written = 0  # bytes, roughly, since the last checkpoint …
        self._grown = 0  # … and since the last pruning
        self._next_prune = 0.0
        self.has_previews = False  # some were written
        self._task: asyncio.Task[None] | None = None

    def wrote(self, size: int) -> None:
        self._written += size
        self._grown += size

    def look_after(self) -> None:
        """After a commit: is it time for a thread to do something about the file?"""
        if self._task is not None and not self._task.done():
            return
        if self._is_time_to_prune():
            self._task = asyncio.get_running_loop().create_task(self._keep_up(self.prune))
        elif self._written >= CHECKPOINT_AFTER and self._path != MEMORY:
            self._task = asyncio.get_running_loop().create_task(self._keep_up(self._checkpoint))

    async def finish(self) -> None:
        """Wait for what is under way."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def _is_time_to_prune(self) -> bool:
        if self._max_bytes is None and self._max_age is None and not self.has_previews:
            return False
        if self._max_bytes is not None and self._grown > self._max_bytes * (1 - ROOM):
            return True
        return time.monotonic() >= self._next_prune

    async def _keep_up(self, job: Callable[[sqlite3.Connection], object]) -> None:
        try:
            await self.aside(job)
        except StoreError as error:
            _log.error("not done: %s", error)  # nothing is lost: the next time will do

    def prune(self, db: sqlite3.Connection) -> int:
        self._grown = 0
        self._next_prune = time.monotonic() + PRUNE_EVERY
        prune_previews(db, self._now() - self._keep_previews, self._keep_previews_bytes)
        with transaction(db, "IMMEDIATE"):
            now = self._clock.advance(db, self._now(), newest(db))
        forgotten = prune(
            db,
            max_age=self._max_age,
            max_bytes=self._max_bytes,
            owner_bytes=self._owner_bytes,
            now=now,
            is_driven=self._is_driven,
        )
        if db is self._db:
            self._forgot()
        elif forgotten:
            self._checkpoint(db)
        return forgotten

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        self._written = 0
        checkpoint(db, self._path)

    async def aside(self, job: Callable[[sqlite3.Connection], _T]) -> _T:
        """In a thread, with a connection of its own; what is only in memory has but one."""
        return job(self._db) if self._path == MEMORY else await asyncio.to_thread(self._on_own_connection, job)

    def _on_own_connection(self, job: Callable[[sqlite3.Connection], _T]) -> _T:
        with GATE:
            db = connect(self._path)
            try:
                return job(db)
            except sqlite3.Error as error:
                raise explain(self._path, error) from error
            finally:
                db.close()
