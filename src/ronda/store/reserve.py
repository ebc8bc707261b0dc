"""A file that takes room in the data folder and says nothing: given up when the disk is full and something is to be deleted.

SQLite needs room to delete: it writes the change first. Without this, a client could not even make room.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from ronda.store import StoreError

# A deletion writes the pages that it changes, 4 KiB each: those of a session with a thousand runs are some 300.
RESERVE_BYTES: Final = 4 << 20
_ROOM_BEFORE: Final = 16 * RESERVE_BYTES  # free bytes without which none is taken: others need them more


_LOOKS_EVERY: Final = 60.0  # seconds; also before the first time: what ends before that needs none


class Reserve:
    """`take` and `give_up` block for a moment: they are for a thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "reserve"

    async def keep(self) -> None:
        """Take the room, and take it again when there is some, for as long as the server runs."""
        while True:
            await asyncio.sleep(_LOOKS_EVERY)
            await asyncio.to_thread(self.take)

    def take(self) -> None:
        """Take the room, if there is enough and it is not taken already."""
        with suppress(OSError, AttributeError):  # not every system says how much room there is
            room = os.statvfs(self._path.parent)
            if self._path.exists() or room.f_bavail * room.f_frsize < _ROOM_BEFORE:
                return
            with open(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
                file.write(os.urandom(RESERVE_BYTES))  # a file system that compresses would make nothing of zeros
                file.flush()
                os.fsync(file.fileno())

    def give_up(self) -> bool:
        """Whether there is more room now."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def is_full(error: StoreError) -> bool:
    """Whether a store failed because its disk is full."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
