"""The journal in PostgreSQL: what every journal promises, and what only one that several machines share can."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ronda.journal import Journal
from ronda.journal.postgres import PostgresJournal
from ronda.store.postgres import Database
from ronda.store.postgres_presence import PostgresPresence
from ronda.testing.journals import DurableJournalContract


class Processes:
    """Journals on one schema, each with a database and a presence of its own, as if each were another process's."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.databases: list[Database] = []

    def open(self) -> PostgresJournal:
        self.databases.append(Database(self.url))
        return PostgresJournal(self.databases[-1], PostgresPresence(self.databases[-1]))

    async def close(self) -> None:
        for database in self.databases:
            await database.close()


@pytest.fixture
async def processes(postgres: str) -> AsyncIterator[Processes]:
    processes = Processes(postgres)
    yield processes
    await processes.close()


class TestPostgresJournal(DurableJournalContract):
    @pytest.fixture(autouse=True)
    def place(self, processes: Processes) -> None:
        self.processes = processes

    async def open(self) -> Journal:
        return self.processes.open()
