"""Stores of files for a program that has no server: in a folder, or in a temporary one that goes with the process."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Final

from ronda.core.files import StoredFile
from ronda.files.blobs import FolderBlobs, NewBlob
from ronda.files.file_store import FileFacts, FileLimits, FileStore
from ronda.store.files import FileQuota
from ronda.store.memory import MemoryCatalog

# A process may run for months, and its temporary folder may be memory.
_TEMPORARY: Final = FileLimits(quota=FileQuota(size=1 << 30), session_seconds=86400.0, made_seconds=0.0)

_stores: dict[int, FileStore] = {}  # by process: a fork has a folder of its own


class LocalFiles(FileStore):
    """Only the code that adds files looks after them."""

    async def keep(self, owner: str, blob: NewBlob, facts: FileFacts) -> StoredFile:
        await self.remove_expired()
        return await super().keep(owner, blob, facts)


def folder_files(folder: str | os.PathLike[str]) -> FileStore:
    """Those in a folder, laid out as a server's data folder. It is closed when the store is dropped."""
    from ronda.store.sqlite_catalog import SqliteCatalog

    root = Path(folder)
    catalog = SqliteCatalog(str(root / "catalog.db"))
    store = LocalFiles(catalog.files, FolderBlobs(root / "files"))
    weakref.finalize(store, catalog.abandon).atexit = False  # then the system closes it
    return store


def temporary_files() -> FileStore:
    """Those of this process. The folder is made for the first of them."""
    process = os.getpid()
    found = _stores.get(process)
    if found is None:
        store = LocalFiles(MemoryCatalog().files, _TemporaryBlobs(), _TEMPORARY)
        found = _stores.setdefault(process, store)  # two threads may come at once, and have one store
    return found


class _TemporaryBlobs(FolderBlobs):
    def __init__(self) -> None:
        # The name cannot be guessed, so no such folder can have been there before.
        super().__init__(os.path.join(tempfile.gettempdir(), f"{_prefix()}{secrets.token_hex(8)}"))
        weakref.finalize(self, _remove, self._folder, os.getpid())

    def begin(self) -> NewBlob:
        if sys.platform == "linux" and not self._folder.exists():
            from ronda.sandbox.temporary import sweep_temporary

            sweep_temporary()
        return super().begin()


def _prefix() -> str:
    """Elsewhere it is unknown which processes are alive: what killed processes leave stays."""
    if sys.platform == "linux":
        from ronda.sandbox.temporary import temporary_prefix

        return temporary_prefix()
    return f"ronda-{os.getpid()}-"


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not that of a fork, which ends before
        shutil.rmtree(folder, ignore_errors=True)
