"""A catalog in PostgreSQL, which any number of processes on any number of machines share. Its stores are those of SQLite."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.claims import hash_claim
from ronda.store.postgres import Database
from ronda.store.postgres_presence import ALIVE, PostgresPresence
from ronda.store.postgres_tables import CATALOG
from ronda.store.sql import Sql
from ronda.store.thread_waits import OutOfTime

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class PostgresCatalog(Catalog):
    """`close` closes the database, too, and comes after that of a journal."""

    is_there = True

    def __init__(self, database: Database, presence: PostgresPresence) -> None:
        super().__init__()
        self._database = database
        self._presence = presence
        database.migrate("catalog", CATALOG)
        self.claims: PostgresClaims = PostgresClaims(database, presence)

    async def read(self, job: Callable[[Sql], _T]) -> _T:
        return await self._database.read(job)

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        return await self._database.write(job, alone, may_be_lost=may_be_lost)

    async def close(self) -> None:
        try:
            await self.claims.close()
        finally:
            await self._database.waits.do(self._presence.leave)
            await self._database.close()


class PostgresClaims:
    """A claim is a row, and counts for as long as its process is there."""

    def __init__(self, database: Database, presence: PostgresPresence) -> None:
        self._database = database
        self._presence = presence
        self._hashes: set[str] = set()
        self._releases: dict[str, asyncio.Task[None]] = {}

    async def claim(self, owner: str, name: str) -> bool:
        hash = hash_claim(owner, name)
        if (release := self._releases.get(hash)) is not None:
            await asyncio.wait([release])
        if hash in self._hashes:
            return False
        values = {"hash": hash, "me": self._presence.id}

        def claim(db: Sql) -> bool:
            statement = f"""INSERT INTO claim VALUES (:hash, :me) ON CONFLICT (hash) DO UPDATE SET process = excluded.process
                WHERE claim.process = excluded.process OR NOT {ALIVE.format(id="claim.process")}"""
            return db.execute(statement, values).rowcount > 0

        self._hashes.add(hash)  # before it is waited for: two of this process must not both have it
        is_ours = False
        try:
            is_ours = await self._database.write(claim, may_be_lost=True)
        finally:
            if not is_ours:
                self._hashes.discard(hash)
        return is_ours

    def release(self, owner: str, name: str) -> None:
        hash = hash_claim(owner, name)
        if hash in self._hashes:
            self._hashes.discard(hash)
            self._releases[hash] = asyncio.get_running_loop().create_task(self._release(hash))

    async def _release(self, hash: str) -> None:
        statement = "DELETE FROM claim WHERE hash = ? AND process = ?"
        try:
            await self._database.write(lambda db: db.execute(statement, (hash, self._presence.id)), may_be_lost=True)
        except OutOfTime:
            return
        except StoreError as error:
            _log.error("a claim stays until this process ends: %s", error)
        finally:
            del self._releases[hash]

    async def close(self) -> None:
        if self._releases:
            await asyncio.wait(self._releases.values())
        self._hashes.clear()
        statement = "DELETE FROM claim WHERE process = ?"
        await self._database.write(lambda db: db.execute(statement, (self._presence.id,)))
