"""Who of those that share a file is still alive: each holds a lock that the system lets go of when its process ends.

    presence = Presence(path)      a lock file next to `path`, named by `presence.id`
    presence.is_there(other_id)    does the holder of that id live?

A lock, not a process id: ids are used again, and mean nothing from inside another container.
"""

from __future__ import annotations

import errno
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from ronda.store.fork import disown_after_fork

if sys.platform == "win32":
    _ALONE = _SHARED = 0
else:
    import fcntl

    _ALONE, _SHARED = fcntl.LOCK_EX, fcntl.LOCK_SH


class Presence:
    """Made inside a write transaction of the shared store, so that no process clears away a file that is not locked yet."""

    def __init__(self, path: str) -> None:
        self.id = secrets.randbits(48)
        self._path = path
        self._clear_away_the_dead()
        file = os.open(self._file_of(self.id), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        self._file: int | None = file
        os.write(file, f"{os.getpid()}\n".encode())  # for people
        if not _try_lock(file, _ALONE):
            raise OSError(errno.ENOLCK, "this file system has no locks")
        disown_after_fork(self)

    def is_there(self, process_id: int) -> bool:
        if process_id == self.id:
            return True
        try:
            file = os.open(self._file_of(process_id), os.O_RDWR)
        except FileNotFoundError:
            return False
        except PermissionError:
            return True  # another user's: not for us to judge
        try:
            return not _try_lock(file, _SHARED)  # shared: two who look must not take each other for the holder
        finally:
            os.close(file)

    def disown(self) -> None:
        """The lock is the parent's, and must not outlast it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def leave(self) -> None:
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        with suppress(FileNotFoundError):  # another process may have cleared it away already
            os.unlink(self._file_of(self.id))

    def _file_of(self, process_id: int) -> str:
        return f"{self._path}-open-{process_id:012x}"

    def _clear_away_the_dead(self) -> None:
        folder = Path(self._path).parent
        prefix = f"{Path(self._path).name}-open-"
        for entry in os.listdir(folder):
            if entry.startswith(prefix):
                with suppress(ValueError, FileNotFoundError):
                    if not self.is_there(int(entry[len(prefix) :], 16)):
                        os.unlink(folder / entry)


def _try_lock(file: int, how: int) -> bool:
    if sys.platform == "win32":
        return True  # there, one server per file: any other is taken for dead
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
