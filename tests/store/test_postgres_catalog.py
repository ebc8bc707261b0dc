"""The catalog in PostgreSQL: what every catalog promises, and what only one that several machines share can."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.store.catalogs import CatalogContract
from tests.store.file_stores import ContainersContract, FilesContract, SkillsContract
from tests.store.queues import QueueContract
from tests.store.session_stores import SessionsContract

from ronda.store.catalog import Catalog
from ronda.store.postgres import Database
from ronda.store.postgres_catalog import PostgresCatalog
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.queue import Queue


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


class TestPostgresCatalog(CatalogContract, FilesContract, SkillsContract, ContainersContract, SessionsContract):
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
