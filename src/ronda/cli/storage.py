"""`--data-dir` and `--database` → what servers keep there, for a command that reads it or adds to it while they run."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ronda.cli.serve import data_folder
from ronda.cli.settings import storage_config
from ronda.errors import BadConfig
from ronda.journal import Journal
from ronda.server.storage import SharedDatabase, open_catalog, open_shared
from ronda.store import StoreError
from ronda.store.catalog import Catalog

if TYPE_CHECKING:
    from ronda.files.file_store import FileStore
    from ronda.server.features.code.workspace_files import WorkspaceFiles


class Storage(NamedTuple):
    """`clock` is the one that all who share the storage go by."""

    catalog: Catalog
    clock: Callable[[], float]
    folder: Path | None
    shared: SharedDatabase | None

    @property
    def place(self) -> str:
        return str(self.folder) if self.shared is None else self.shared.database.place

    @property
    def workspaces(self) -> WorkspaceFiles | None:
        """The files of sessions, where a server on this folder has them; programs that work on them are not ended."""
        if self.folder is None or not self.folder.exists():
            return None
        from ronda.files.workspaces import Workspaces
        from ronda.server.features.code.code_tools import workspaces_root
        from ronda.server.features.code.workspace_files import WorkspaceFiles

        async def close(owner: str, session: str) -> None: ...

        return WorkspaceFiles(Workspaces(workspaces_root(self.folder, is_root=os.getuid() == 0)), close)

    @property
    def files(self) -> FileStore | None:
        """Those of a server on this folder; the bytes of one that has them elsewhere (--file-store) are not here."""
        if self.folder is None:
            return None
        from ronda.files.blobs import FolderBlobs
        from ronda.files.file_store import FileStore

        return FileStore(self.catalog.files, FolderBlobs(self.folder / "files"))

    def open_journal(self) -> Journal:
        """The runs of servers. It forgets nothing: for how long runs are kept only the servers know."""
        if self.shared is not None:
            from ronda.journal.postgres import PostgresJournal

            return PostgresJournal(*self.shared)
        from ronda.journal.sqlite import SqliteJournal

        path = None if self.folder is None else self.folder / "journal.db"
        if path is None or not path.exists():
            raise BadConfig(f"there is no journal in {self.folder}; --data-dir says where the server keeps its runs")
        return SqliteJournal(path)


@asynccontextmanager
async def open_storage(arguments: argparse.Namespace, subject: str | None = None) -> AsyncIterator[Storage]:
    """`subject` says what the command is about, if ':memory:', which keeps nothing, makes no sense for it."""
    config = storage_config(arguments)
    folder, shared = data_folder(config), open_shared(config)
    if subject is not None and folder is None and shared is None:
        raise BadConfig(f"{subject} are kept in a folder, and ':memory:' keeps nothing; choose one with --data-dir")
    catalog = open_catalog(folder, shared)
    try:
        yield Storage(catalog, time.time if shared is None else shared.presence.clock, folder, shared)
    except StoreError as error:
        raise BadConfig(f"{error} ({'--data-dir' if shared is None else '--database'} says where)") from error
    finally:
        await catalog.close()
