"""Who may do what only one may do at a time: a claim is one holder's, and ends with its process if not before.

In a folder that several processes share, a claim is a lock on a file, which the system lets go of when its process ends.
In memory there is no other process.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from ronda.store import StoreError
from ronda.store.fork import disown_after_fork

if sys.platform != "win32":
    import fcntl

TRY_AGAIN = 0.02  # seconds between two looks at what another process has claimed


class Claims(Protocol):
    async def claim(self, owner: str, name: str) -> bool:
        """False if it is taken: here, or in another process that is alive."""

    def release(self, owner: str, name: str) -> None: ...


def hash_claim(owner: str, name: str) -> str:
    """By which it is known where not every text can be a name."""
    text = f"{len(owner)}:{owner}{name}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


class MemoryClaims:
    def __init__(self) -> None:
        self._claims: set[tuple[str, str]] = set()

    async def claim(self, owner: str, name: str) -> bool:
        if (owner, name) in self._claims:
            return False
        self._claims.add((owner, name))
        return True

    def release(self, owner: str, name: str) -> None:
        self._claims.discard((owner, name))


class FileClaims:
    """Claims in a folder, which is made with the first of them. (On Windows: among those of this process only.)"""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._claims: dict[tuple[str, str], int] = {}
        self._is_tidy = False
        disown_after_fork(self)

    def disown(self) -> None:
        """The locks are the parent's, and must not outlast it."""
        for file in self._claims.values():
            os.close(file)
        self._claims = {}

    async def claim(self, owner: str, name: str) -> bool:
        if not self._is_tidy:
            self._is_tidy = True
            await asyncio.to_thread(self._clear_away_the_dead)
        if (owner, name) in self._claims:
            return False
        try:
            file = self._lock(self._path(owner, name))
        except OSError as error:
            raise StoreError(str(self._folder), f"no lock file can be made in it: {error.strerror}") from error
        if file is None:
            return False
        self._claims[owner, name] = file
        return True

    def release(self, owner: str, name: str) -> None:
        file = self._claims.pop((owner, name), None)
        if file is not None:
            # Before the lock goes: a process that opened the file meanwhile sees that it is gone, and makes another.
            with suppress(OSError):
                self._path(owner, name).unlink()
            os.close(file)

    def close(self) -> None:
        for owner, name in list(self._claims):
            self.release(owner, name)

    def _clear_away_the_dead(self) -> None:
        """Files of processes that were killed: their locks are free."""
        if sys.platform == "win32":
            return
        for path in self._folder.glob("*"):
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            with suppress(OSError):
                if _try_lock(file) and _is_at(path, file):
                    path.unlink()
            os.close(file)

    def _path(self, owner: str, name: str) -> Path:
        return self._folder / hash_claim(owner, name)

    def _lock(self, path: Path) -> int | None:
        while True:
            try:
                file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                continue
            try:
                if not _try_lock(file):
                    os.close(file)
                    return None
                if _is_at(path, file):
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # its holder has just let go of it, and taken it away


def _try_lock(file: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


@asynccontextmanager
async def hold_claim(claims: Claims, owner: str, name: str) -> AsyncIterator[None]:
    """Wait for a claim, and hold it."""
    while True:
        if await claims.claim(owner, name):
            break
        await asyncio.sleep(TRY_AGAIN)
    try:
        yield
    finally:
        claims.release(owner, name)
