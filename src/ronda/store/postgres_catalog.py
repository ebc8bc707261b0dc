"""A catalog in PostgreSQL, which any number of processes on any number of machines share. Its stores are those of SQLite."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.claims import hash_claim
from ronda.store.postgres import Database
from ronda.store.postgres_presence import ALIVE, PostgresPresence
from ronda.store.postgres_tables import CATALOG, WORDS
from ronda.store.sql import Sql
from ronda.store.tables import write_tables
from ronda.store.thread_waits import OutOfTime

# Seconds until a claim that could not be released is released again, twice as many each time …
RETRY_AFTER: Final = 1.0
LONGEST_PAUSE: Final = 60.0  # … up to these

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
        self._lines: set[str] = set()
        self.claims: PostgresClaims = PostgresClaims(database, presence)

    def add_tables(self, name: str, migrations: Sequence[Sequence[str]]) -> None:
        """Waits for the database."""
        if name not in self._lines:
            self._database.migrate(f"feature {name}", write_tables(WORDS, migrations))
            self._lines.add(name)

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
    """A claim is a row, and counts for as long as its process is there. One that nothing here holds is deleted, however often
    that has to be tried."""

    def __init__(self, database: Database, presence: PostgresPresence, retry_after: float = RETRY_AFTER) -> None:
        self._database = database
        self._presence = presence
        self._retry_after = retry_after
        self._hashes: set[str] = set()
        self._releases: dict[str, asyncio.Task[None]] = {}
        self._resting: set[str] = set()  # of those that failed, and are tried again later

    async def claim(self, owner: str, name: str) -> bool:
        digest = hash_claim(owner, name)
        await self._await_release(digest)
        if digest in self._hashes:
            return False
        values = {"hash": digest, "me": self._presence.id}

        def claim(db: Sql) -> bool:
            statement = f"""INSERT INTO claim (hash, process) VALUES (:hash, :me)
                ON CONFLICT (hash) DO UPDATE SET process = excluded.process
                WHERE claim.process = excluded.process OR NOT {ALIVE.format(id="claim.process")}"""
            return db.execute(statement, values).rowcount > 0

        self._hashes.add(digest)  # before it is waited for: two of this process must not both have it
        try:
            is_ours = await self._database.write(claim, may_be_lost=True)
        except BaseException:  # the row may be there
            self._release_later(digest)
            raise
        if not is_ours:
            self._hashes.discard(digest)
        return is_ours

    def release(self, owner: str, name: str) -> None:
        if (digest := hash_claim(owner, name)) in self._hashes:
            self._release_later(digest)

    def _release_later(self, digest: str) -> None:
        self._hashes.discard(digest)
        self._releases[digest] = asyncio.get_running_loop().create_task(self._release(digest))

    async def _await_release(self, digest: str) -> None:
        if (release := self._releases.get(digest)) is not None:
            if digest in self._resting:  # what is still there is this process's own
                release.cancel()
            await asyncio.wait([release])

    async def _release(self, digest: str) -> None:
        pause = self._retry_after
        try:
            while not await self._delete(digest):
                self._resting.add(digest)
                await asyncio.sleep(pause)
                self._resting.discard(digest)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._resting.discard(digest)
            del self._releases[digest]

    async def _delete(self, digest: str) -> bool:
        statement = "DELETE FROM claim WHERE hash = ? AND process = ?"
        try:
            await self._database.write(lambda db: db.execute(statement, (digest, self._presence.id)), may_be_lost=True)
        except OutOfTime:  # it ends with this process
            return True
        except StoreError as error:
            _log.error("a claim could not be released, which is tried again: %s", error)
            return False
        return True

    async def close(self) -> None:
        for digest in self._resting:
            self._releases[digest].cancel()
        if self._releases:
            await asyncio.wait(self._releases.values())
        self._hashes.clear()
        statement = "DELETE FROM claim WHERE process = ?"
        await self._database.write(lambda db: db.execute(statement, (self._presence.id,)))
