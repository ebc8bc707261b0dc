"""A catalog in a SQLite file, which is made with the first thing that is kept: a server that keeps nothing has no such file.

A thread of its own waits for the disk, and for others who hold the file; the event loop never does.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType
from typing import Final, Literal, TypeVar

from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.claims import FileClaims
from ronda.store.fork import GATE, disown_after_fork
from ronda.store.sql import Duplicate, Sql
from ronda.store.sqlite import Migrations, explain, migrate_line, open_database, transaction
from ronda.store.tables import (
    AGENTS,
    APPROVALS,
    CONTAINERS,
    CONVERSATION_AGENTS,
    FILES,
    KEYS,
    MARKS,
    PRUNING,
    QUEUE,
    SCOPES,
    SENDS,
    SESSIONS,
    SKILLS,
    SQLITE,
    write_tables,
)

_T = TypeVar("_T")

_MIGRATIONS: Final = write_tables(
    SQLITE,
    (
        (*AGENTS, *KEYS, *SESSIONS, *FILES, *SKILLS, *QUEUE, *CONTAINERS, *APPROVALS, *MARKS, *PRUNING),
        SENDS,
        CONVERSATION_AGENTS,
        SCOPES,
    ),
)


class SqliteCatalog(Catalog):
    """Keeps things in the file at `path`. A lock that others keep for longer than `timeout` seconds is an error."""

    def __init__(self, path: str, *, timeout: float = 5.0) -> None:
        super().__init__()
        self._path = path
        self._timeout = timeout
        self._lines: dict[str, Migrations] = {}
        self._db: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "ronda-catalog")  # which begins with the first thing to do
        self._is_used = False
        self.claims: FileClaims = FileClaims(f"{path}-claims")
        disown_after_fork(self)

    def disown(self) -> None:
        """A child opens the file again, when it needs it."""
        self._db = None
        self._thread = ThreadPoolExecutor(1, "ronda-catalog")
        self._is_used = False

    def add_tables(self, name: str, migrations: Migrations) -> None:
        """Made when the file is opened; so this comes before anything is read or written."""
        self._lines[name] = migrations

    @property
    def is_there(self) -> bool:
        return self._db is not None or os.path.exists(self._path)

    async def read(self, job: Callable[[Sql], _T]) -> _T:
        return await self._do(job, "DEFERRED")

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        """A writer is alone, and does not wait for the disk."""
        return await self._do(job, "IMMEDIATE")

    async def close(self) -> None:
        if (closing := self.abandon()) is not None:
            await asyncio.wrap_future(closing)

    def abandon(self) -> Future[None] | None:
        """As `close`, for a caller that cannot wait. What comes later is refused: it would open the file again, and nothing
        would close it."""
        self.claims.close()
        is_used, self._is_used = self._is_used, False
        closing = self._thread.submit(self._close_file) if is_used else None
        self._thread.shutdown(wait=False)
        return closing

    def _close_file(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    async def _do(self, job: Callable[[Sql], _T], kind: Literal["DEFERRED", "IMMEDIATE"]) -> _T:
        def in_thread() -> _T:
            if self._db is None:
                self._db = open_tables(self._path, self._timeout, self._lines)
            return do_job(self._db, self._path, job, kind)

        try:
            doing = asyncio.get_running_loop().run_in_executor(self._thread, in_thread)
        except RuntimeError as error:  # the thread takes no more
            raise StoreError(self._path, "it was closed") from error
        self._is_used = True
        return await doing


def open_tables(
    path: str, timeout: float = 5.0, lines: Mapping[str, Migrations] = MappingProxyType({})
) -> sqlite3.Connection:
    """`lines` are the tables of others, by their names."""
    with GATE:
        db = open_database(path, _MIGRATIONS, kind="ronda catalog", timeout=timeout)
        try:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA wal_autocheckpoint = 1000")
            for name, migrations in lines.items():
                migrate_line(db, path, name, write_tables(SQLITE, migrations))
        except sqlite3.Error as error:
            db.close()
            raise explain(path, error) from error
        except BaseException:  # such as tables that are newer than this program
            db.close()
            raise
        return db


def do_job(db: sqlite3.Connection, path: str, job: Callable[[Sql], _T], kind: Literal["DEFERRED", "IMMEDIATE"]) -> _T:
    """In one transaction, or in one snapshot."""
    try:
        with transaction(db, kind):
            return job(db)
    except sqlite3.IntegrityError as error:
        raise Duplicate(str(error)) from error
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except UnicodeError as error:  # a lone surrogate is no text
        raise StoreError(path, f"this cannot be written: {error}") from error
