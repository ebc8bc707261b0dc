"""A catalog that forgets with its process: for tests, for `--data-dir :memory:`, for the library.

It has the tables of `sqlite_catalog`, made in memory with the first thing that is kept. No disk is waited for, so no thread is
needed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ronda.store.catalog import Catalog
from ronda.store.claims import MemoryClaims
from ronda.store.sql import Sql

if TYPE_CHECKING:
    import sqlite3

_T = TypeVar("_T")


class MemoryCatalog(Catalog):
    def __init__(self) -> None:
        super().__init__()
        self.claims: MemoryClaims = MemoryClaims()
        self._lines: dict[str, Sequence[Sequence[str]]] = {}
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()  # a `Runner` may be used from several threads

    def add_tables(self, name: str, migrations: Sequence[Sequence[str]]) -> None:
        """As in `sqlite_catalog`."""
        self._lines[name] = migrations

    @property
    def is_there(self) -> bool:
        return self._db is not None

    async def read(self, job: Callable[[Sql], _T]) -> _T:
        return self._do(job)

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        return self._do(job)

    async def close(self) -> None:
        """What is in it stays for as long as the catalog itself: after `close` it can be read, or opened again."""

    def _do(self, job: Callable[[Sql], _T]) -> _T:
        from ronda.store.fork import GATE
        from ronda.store.sqlite import MEMORY
        from ronda.store.sqlite_catalog import do_job, open_tables

        with GATE, self._lock:  # in this order: in a child of this process it is free
            if self._db is None:
                self._db = open_tables(MEMORY, lines=self._lines)
                weakref.finalize(self, self._db.close)
            return do_job(self._db, MEMORY, job, "IMMEDIATE")
