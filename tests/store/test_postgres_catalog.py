"""The catalog in PostgreSQL: what every catalog promises, and what only one that several machines share can."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from tests.store.catalogs import CatalogContract, FeatureTablesContract
from tests.store.file_stores import ContainersContract, FilesContract, SkillsContract
from tests.store.queues import QueueContract
from tests.store.session_stores import SessionsContract
from tests.timeouts import soon

from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.postgres import Database
from ronda.store.postgres_catalog import PostgresCatalog, PostgresClaims
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.postgres_tables import CATALOG
from ronda.store.queue import Queue
from ronda.store.sql import Sql

_T = TypeVar("_T")


class Processes:
    """Catalogs on one schema, each with a database and a presence of its own, as if each were another process's."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[tuple[Database, PostgresPresence]] = []

    def open(self) -> PostgresCatalog:
        database = Database(self.url)
        presence = PostgresPresence(database)
        self._opened.append((database, presence))
        return PostgresCatalog(database, presence)

    async def close(self) -> None:
        for database, presence in self._opened:
            presence.leave()
            await database.close()


@pytest.fixture
async def processes(postgres: str) -> AsyncIterator[Processes]:
    processes = Processes(postgres)
    yield processes
    await processes.close()


class TestPostgresCatalog(
    CatalogContract, FeatureTablesContract, FilesContract, SkillsContract, ContainersContract, SessionsContract
):
    @pytest.fixture(autouse=True)
    def place(self, processes: Processes) -> None:
        self.processes = processes

    async def open(self) -> Catalog:
        return self.processes.open()


class TestPostgresQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def place(self, processes: Processes) -> None:
        self.processes = processes

    async def open(self) -> Queue:
        return self.processes.open().queue


class Failing(Database):
    """Fails at so many transactions that change claims: before they are done, or after."""

    times = 0
    is_done = False

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        fails = self.times > 0
        self.times -= fails
        if fails and not self.is_done:
            raise StoreError("somewhere", "it is away")
        result = await super().write(job, alone, may_be_lost=may_be_lost)
        if fails:
            raise StoreError("somewhere", "it is away")
        return result


@pytest.fixture
async def failing(postgres: str) -> AsyncIterator[tuple[Failing, PostgresClaims]]:
    database = Failing(postgres)
    database.migrate("catalog", CATALOG)
    presence = PostgresPresence(database)
    claims = PostgresClaims(database, presence, retry_after=0.0)
    yield database, claims
    await claims.close()
    presence.leave()
    await database.close()


async def until_free(claims: PostgresClaims) -> None:
    async with soon():
        while not await claims.claim("ann", "it"):
            pass


async def test_a_claim_that_could_not_be_released_is_free_a_little_later(
    processes: Processes, failing: tuple[Failing, PostgresClaims]
) -> None:
    database, claims = failing
    assert await claims.claim("ann", "it")
    database.times = 3
    claims.release("ann", "it")
    await until_free(processes.open().claims)


async def test_a_claim_that_was_made_although_it_failed_is_free_a_little_later(
    processes: Processes, failing: tuple[Failing, PostgresClaims]
) -> None:
    database, claims = failing
    database.times, database.is_done = 1, True
    with pytest.raises(StoreError, match="it is away"):
        await claims.claim("ann", "it")
    await until_free(processes.open().claims)


async def test_a_process_has_its_claim_again_before_it_could_be_released(
    processes: Processes, failing: tuple[Failing, PostgresClaims]
) -> None:
    database, claims = failing
    assert await claims.claim("ann", "it")
    database.times = 1
    claims.release("ann", "it")
    async with soon():
        assert await claims.claim("ann", "it")
    assert not await processes.open().claims.claim("ann", "it")
