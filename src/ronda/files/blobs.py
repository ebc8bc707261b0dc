"""Bytes that are kept under their hash: pieces in, and when all are there, a name for them. In a folder, or in memory.

Whose they are, and whether they are still needed, is not known here. All of it waits for the disk: for a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sys
import threading
from collections.abc import Iterator
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from ronda.store import StoreError
from ronda.wire.shared.file_kinds import Utf8Check

if sys.platform != "win32":
    import fcntl

HASH: Final = re.compile(r"[0-9a-f]{64}\Z")
_INCOMING: Final = "incoming"


class NewBlob(Protocol):
    """Bytes that are coming in. They are kept from `place` on, and forgotten by `discard`, which may always follow."""

    @property
    def size(self) -> int: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> tuple[str, bool]:
        """Their hash, and whether they are text."""

    def place(self) -> None: ...

    def discard(self) -> None: ...


class Blobs(Protocol):
    def begin(self) -> NewBlob: ...

    def open(self, digest: str) -> BinaryIO:
        """FileNotFoundError for bytes that are not here."""

    def drop(self, digest: str) -> None: ...

    def hashes(self) -> list[str]: ...

    def sweep(self) -> None:
        """Forgets what came in for a process that is no more."""


class Digest:
    def __init__(self) -> None:
        self.size = 0
        self._hash = blake2b(digest_size=32)
        self._text = Utf8Check()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._hash.update(data)
        self._text.feed(data)

    def finish(self) -> tuple[str, bool]:
        return self._hash.hexdigest(), self._text.finish()


class FolderBlobs:
    """A folder that several processes may share, made with the first bytes. Only its user may look into it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def begin(self) -> NewBlob:
        with self.explained():
            incoming = self._folder / _INCOMING
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is that of the last folder only
            incoming.mkdir(mode=0o700, exist_ok=True)
            return _NewFile(self, incoming / secrets.token_hex(16))

    def open(self, digest: str) -> BinaryIO:
        return open(self.path(digest), "rb")

    def drop(self, digest: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path(digest).unlink()

    def hashes(self) -> list[str]:
        return [path.name for path in self._folder.glob("??/*") if HASH.match(path.name)]

    def sweep(self) -> None:
        """A process that still writes to a file holds a lock on it."""
        for path in self._folder.glob(f"{_INCOMING}/*"):
            with contextlib.suppress(FileNotFoundError):
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    if _lock(file):
                        path.unlink()
                finally:
                    os.close(file)

    def path(self, digest: str) -> Path:
        assert HASH.match(digest), digest
        return self._folder / digest[:2] / digest

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            way_out = "; make room on this disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise StoreError(str(self._folder), f"a file cannot be kept in it: {error.strerror}{way_out}") from error


class _NewFile:
    def __init__(self, blobs: FolderBlobs, path: Path) -> None:
        self._blobs = blobs
        self._path = path
        self._digest = Digest()
        self._target: Path | None = None
        self._mutex = threading.Lock()  # a writer may give up while another thread still writes
        self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _lock(self._file)

    @property
    def size(self) -> int:
        return self._digest.size

    def write(self, data: bytes) -> None:
        with self._mutex, self._blobs.explained():
            self._digest.add(data)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]

    def finish(self) -> tuple[str, bool]:
        digest, is_text = self._digest.finish()
        with self._mutex, self._blobs.explained():
            os.fsync(self._file)
            self._target = self._blobs.path(digest)
            self._target.parent.mkdir(mode=0o700, exist_ok=True)
        return digest, is_text

    def place(self) -> None:
        """Over what may be there under the same hash: that is the same."""
        assert self._target is not None, "it is not finished"
        with self._mutex, self._blobs.explained():
            os.rename(self._path, self._target)

    def discard(self) -> None:
        with self._mutex:
            if self._file >= 0:
                with contextlib.suppress(FileNotFoundError):
                    self._path.unlink()  # before the lock goes
                os.close(self._file)
                self._file = -1


class MemoryBlobs:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def begin(self) -> NewBlob:
        return _NewBytes(self)

    def open(self, digest: str) -> BinaryIO:
        if digest not in self.contents:
            raise FileNotFoundError(errno.ENOENT, digest)
        return BytesIO(self.contents[digest])

    def drop(self, digest: str) -> None:
        self.contents.pop(digest, None)

    def hashes(self) -> list[str]:
        return list(self.contents)

    def sweep(self) -> None:
        pass


class _NewBytes:
    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs
        self._digest = Digest()
        self._pieces: list[bytes] = []
        self._hash = ""

    @property
    def size(self) -> int:
        return self._digest.size

    def write(self, data: bytes) -> None:
        self._digest.add(data)
        self._pieces.append(data)

    def finish(self) -> tuple[str, bool]:
        self._hash, is_text = self._digest.finish()
        self._pieces = [b"".join(self._pieces)]
        return self._hash, is_text

    def place(self) -> None:
        [self._blobs.contents[self._hash]] = self._pieces

    def discard(self) -> None:
        self._pieces = []


def _lock(file: int) -> bool:
    """False if another process holds it."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
