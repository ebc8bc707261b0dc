"""An upgrade that is taken back: a newer Ronda has migrated the data and written to it; this one, the version before, opens it
again, answers from it and writes to it; then the newer one finds its own tables as it left them.

The newer Ronda is made up: each of its lines of migrations is one longer than ours, and only adds. What
happens where a newer one does more than that is in tests/store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import psycopg
import pytest
from tests.kept import make

from ronda.journal import Journal
from ronda.providers.script import says
from ronda.store.catalog import Catalog
from ronda.store.versions import pack_version, version_of

LAST = "0.1.0"
ADDED = (
    "ALTER TABLE {table} ADD COLUMN of_the_future INTEGER NOT NULL DEFAULT 0",
    "CREATE TABLE future_{table} (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    "INSERT INTO future_{table} VALUES ('kept', 7)",
)

Opened = Callable[[], AbstractAsyncContextManager[tuple[Journal, Catalog]]]


class Folder:
    """Data of 0.1.0 in SQLite."""

    tables = ("journal", "run"), ("catalog", "file")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make.restore_folder(make.KEPT / LAST, folder)

    def upgrade(self) -> None:
        """As the newer Ronda does: our migrations, and one more."""
        for name, table in self.tables:
            with closing(sqlite3.connect(self._folder / f"{name}.db")) as db, db:
                version = version_of(db.execute("PRAGMA user_version").fetchone()[0])
                for statement in ADDED:
                    db.execute(statement.format(table=table))
                db.execute(f"PRAGMA user_version = {pack_version(version + 1)}")

    def future(self) -> list[tuple[int, int]]:
        """The version and the row of the newer Ronda, in each database."""
        found = []
        for name, table in self.tables:
            with closing(sqlite3.connect(self._folder / f"{name}.db")) as db:
                [(value,)] = db.execute(f"SELECT value FROM future_{table}").fetchall()
                found.append((version_of(db.execute("PRAGMA user_version").fetchone()[0]), value))
        return found

    def open(self) -> AbstractAsyncContextManager[tuple[Journal, Catalog]]:
        return make.opened_folder(self._folder)


class Postgres:
    """Data of 0.1.0 in PostgreSQL."""

    tables = ("run", "file")

    def __init__(self, address: str) -> None:
        self._address = address
        make.restore_database(make.KEPT / LAST, address)

    def upgrade(self) -> None:
        with psycopg.connect(self._address) as db:
            for table in self.tables:
                for statement in ADDED:
                    db.execute(statement.format(table=table).encode())
            for kind, stored in db.execute("SELECT kind, version FROM ronda_version").fetchall():
                version = version_of(stored) + 1
                packed = pack_version(version)
                db.execute("UPDATE ronda_version SET version = %s WHERE kind = %s", (packed, kind))

    def future(self) -> list[tuple[int, int]]:
        with psycopg.connect(self._address) as db:
            values = [
                row[0] for table in self.tables for row in db.execute(f"SELECT value FROM future_{table}".encode())
            ]
            # A server that starts adds the tables of its features, each with a version of its own.
            kinds = "SELECT version FROM ronda_version WHERE kind IN ('journal', 'catalog') ORDER BY kind"
            versions = db.execute(kinds).fetchall()
        return [(version_of(version), value) for (version,), value in zip(versions, values, strict=True)]

    def open(self) -> AbstractAsyncContextManager[tuple[Journal, Catalog]]:
        return make.opened_database(self._address)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Folder | Postgres:
    return Folder(tmp_path) if request.param == "sqlite" else Postgres(request.getfixturevalue("postgres"))


@asynccontextmanager
async def answering(store: Folder | Postgres, *texts: str) -> AsyncIterator[Callable[[str], Awaitable[object]]]:
    """A server of this version on that data: a question → the answer, in the same conversation."""
    async with store.open() as (journal, catalog):
        server = make.served(journal, catalog, *[says(text) for text in texts])

        async def ask(question: str) -> object:
            body = {"model": "default", "messages": [{"role": "user", "content": question}], "session_id": "after"}
            answer = await make.asked(server, "POST", "/v1/chat/completions", body)
            return answer["choices"][0]["message"]["content"]

        yield ask
        await server.runs.close()


async def test_the_version_before_opens_what_a_newer_one_has_migrated(store: Folder | Postgres) -> None:
    async with store.open() as (_, catalog):  # this version's own migrations of data that is older still
        await catalog.keys.all()  # a catalog is opened with the first question to it
    store.upgrade()
    before = store.future()

    async with answering(store, "Monday.", "Tuesday.") as ask:  # rolled back: it answers, …
        first = await ask("When?")
        second = await ask("And then?")
    async with store.open() as (_, catalog):
        session = await catalog.sessions.find(make.OWNER, "after")
        keys = await catalog.keys.all()

    assert (first, second) == ("Monday.", "Tuesday.")
    assert session is not None  # … keeps what was said, …
    assert keys == [make.KEY]  # … finds what was kept before …
    assert store.future() == before  # … and leaves the newer one's tables and version alone: it may be started again
