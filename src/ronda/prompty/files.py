"""Where the files of an agent are read from: the disk, or what a journal keeps of them.

What is read from the disk is remembered, with where each path led. So a run can be opened again as it was started: from the very
texts, whatever became of the files. They are kept as they were written: a reference to an environment variable stays one.
"""

from __future__ import annotations

import errno
import os
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import msgspec

from ronda.core.events import AgentFile
from ronda.prompty.errors import BadPrompty, PromptyNotFound


class Files(Protocol):
    def find(self, path: Path) -> Path:
        """Where a path really leads. Raises what `Path.resolve` does."""

    def exists(self, path: Path) -> bool: ...

    def read(self, path: Path, limit: int, label: str) -> bytes:
        """A file's bytes. Raises `BadPrompty`, `PromptyNotFound`."""

    def keep(self, path: Path) -> AgentFile | None:
        """All that was read, as what the agent in this file is made of."""

    def branch(self) -> Files:
        """The same, for one run: what else that run reads is its own."""


class Disk:
    """The disk. `origin` is what this is a branch of: as long as nothing else was read, both keep the same."""

    def __init__(self, origin: Disk | None = None) -> None:
        self._origin = origin
        self._read: dict[str, bytes] = {} if origin is None else origin._read
        self._links: dict[str, str] = {} if origin is None else origin._links
        self._agent_file: AgentFile | None = None

    def branch(self) -> Disk:
        return Disk(self)

    def find(self, path: Path) -> Path:
        found = path.resolve()
        plain, really = os.path.normpath(path), str(found)
        if plain != really and self._links.get(plain) != really:
            self._links = {**self._links, plain: really}
            self._agent_file = None
        return found

    def exists(self, path: Path) -> bool:
        return path.exists()

    def read(self, path: Path, limit: int, label: str) -> bytes:
        data = read_bytes(path, limit, label)
        if self._read.get(str(path)) != data:
            self._read = {**self._read, str(path): data}
            self._agent_file = None
        return data

    def keep(self, path: Path) -> AgentFile | None:
        origin = self._origin
        if origin is not None and origin._read is self._read and origin._links is self._links:
            return origin.keep(path)
        if self._agent_file is None:
            try:
                files = {name: data.decode() for name, data in self._read.items()}
            except UnicodeDecodeError:  # nothing that an agent is made of
                return None
            digest = blake2b(msgspec.json.encode((files, self._links)), digest_size=20).hexdigest()
            self._agent_file = AgentFile(str(path), digest, files, self._links)
        file = self._agent_file
        return file if file.path == str(path) else msgspec.structs.replace(file, path=str(path))


class JournalFiles:
    """What a journal keeps of an agent's files. There are no others: nothing is looked for on the disk."""

    def __init__(self, file: AgentFile) -> None:
        self._file = file

    def branch(self) -> JournalFiles:
        return self

    def find(self, path: Path) -> Path:
        plain = os.path.normpath(path)
        return Path(self._file.links.get(plain, plain))

    def exists(self, path: Path) -> bool:
        return str(path) in self._file.files

    def read(self, path: Path, limit: int, label: str) -> bytes:
        text = self._file.files.get(str(path))
        if text is None:
            raise PromptyNotFound(f"Referenced file not found: {label}; it was not kept with the run")
        return text.encode()

    def keep(self, path: Path) -> AgentFile | None:
        return msgspec.structs.replace(self._file, path=str(path))


def read_bytes(path: Path, limit: int, label: str) -> bytes:
    """A file's bytes: a plain file, not too large, and no link put in its place since it was resolved."""
    try:
        # Not blocking: a named pipe would be waited for.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise PromptyNotFound(f"Referenced file not found: {label}") from error
        raise BadPrompty(f"{label} cannot be read: {error.strerror}") from error
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise BadPrompty(f"{label} is not a plain file")
    with open(handle, "rb") as file:
        data = file.read(limit + 1) if about.st_size <= limit else b""
    if about.st_size > limit or len(data) > limit:
        raise BadPrompty(f"{label} is larger than {limit} bytes")
    return data
