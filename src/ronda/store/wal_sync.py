"""Commits that are safe from kill -9 become safe from a power cut: what synchronous=FULL promises, without holding up the loop.

SQLite's own FULL waits for the disk inside COMMIT. Syncing the WAL afterwards, in a thread and once for all who wait, gives
the same promise to those that wait for it and costs the others nothing.
"""

from __future__ import annotations

import asyncio
import os

from ronda.store import StoreError


class WalSync:
    """Tells when the commits of one connection are on the disk itself. The writer counts them, from 1."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._awaited = 0  # the last commit that a caller waits for …
        self._reached = 0  # … and the last that is safe
        self._syncing: asyncio.Task[None] | None = None
        self._error: StoreError | None = None

    async def reach(self, commit: int) -> None:
        self._awaited = max(self._awaited, commit)
        while self._reached < commit:
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.create_task(self._sync())
            await asyncio.wait([self._syncing])  # not awaited itself: one who is cancelled must not cancel it
            if self._error is not None:
                raise self._error.with_traceback(None)

    async def _sync(self) -> None:
        upto = self._awaited
        try:
            await asyncio.to_thread(self._sync_wal)
        except OSError as error:
            # For good: a disk that has refused pages once may have dropped them, and say yes the next time.
            self._error = StoreError(self._path, f"the disk did not take what was written: {error.strerror}")
        else:
            self._reached = upto

    def _sync_wal(self) -> None:
        # Only ever the WAL: closing a file of the database itself would drop SQLite's locks on it.
        wal = os.open(f"{self._path}-wal", os.O_RDWR)
        try:
            os.fsync(wal)
        finally:
            os.close(wal)
