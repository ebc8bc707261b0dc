"""A newer Ronda works on the same database, for the time of a rolling deploy: what only it knows is passed over by this one, and
the runs that only it can read are left to it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ronda.core.events import Event, RunStarted, Warned
from ronda.core.run import rebuild
from ronda.journal import Journal, JournalConflict, RunQuery, WrittenByNewer
from ronda.journal.postgres import PostgresJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.store.postgres import Database
from ronda.store.postgres_presence import PostgresPresence
from ronda.testing.facts import start

Change = Callable[[list[dict[str, Any]]], None]


class Sqlite:
    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> Journal:
        return SqliteJournal(self._path)

    async def close(self, journal: Journal) -> None:
        await journal.close()

    def add_column(self) -> None:
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute("ALTER TABLE run ADD COLUMN budget REAL")
            db.execute("ALTER TABLE event ADD COLUMN spent REAL NOT NULL DEFAULT 0")

    def rewrite(self, change: Change) -> None:
        """Its one row of events, as a newer Ronda would have written it."""
        with closing(sqlite3.connect(self._path)) as db, db:
            [(body,)] = db.execute("SELECT body FROM event").fetchall()
            events = json.loads(body)
            change(events)
            db.execute("UPDATE event SET body = ?", (json.dumps(events).encode(),))


class Postgres:
    def __init__(self, address: str) -> None:
        self._address = address
        self._databases: list[Database] = []

    def open(self) -> Journal:
        database = Database(self._address)
        self._databases.append(database)
        return PostgresJournal(database, PostgresPresence(database))

    async def close(self, journal: Journal) -> None:
        await journal.close()
        await self._databases.pop().close()

    def add_column(self) -> None:
        with psycopg.connect(self._address) as db:
            db.execute("ALTER TABLE run ADD COLUMN budget REAL")
            db.execute("ALTER TABLE event ADD COLUMN spent REAL NOT NULL DEFAULT 0")

    def rewrite(self, change: Change) -> None:
        with psycopg.connect(self._address) as db:
            [(body,)] = db.execute("SELECT body FROM event").fetchall()
            events = json.loads(bytes(body))
            change(events)
            db.execute("UPDATE event SET body = %s", (json.dumps(events).encode(),))


Store = Sqlite | Postgres


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return Sqlite(tmp_path / "journal.db")
    return Postgres(request.getfixturevalue("postgres"))


async def left(store: Store, change: Change) -> tuple[list[Event], list[str], JournalConflict | None]:
    """A run that its process has left, as a newer Ronda would have written it: what is read of it, which runs are taken up, and
    what keeps this Ronda from driving it."""
    journal = store.open()
    journal.append("a", [start("a"), Warned("first"), Warned("last")])
    await journal.barrier("a")
    journal.release("a")
    await journal.barrier("a")
    await store.close(journal)
    store.rewrite(change)
    journal = store.open()
    events = list(await journal.read("a"))
    unfinished = [one.run for one in await journal.unfinished_runs()]
    assert [one.run for one in (await journal.list_runs(RunQuery(""))).runs] == ["a"]
    refused = None
    try:
        await journal.resume("a")
        journal.release("a")
    except JournalConflict as error:
        refused = error
    await store.close(journal)
    return events, unfinished, refused


async def test_an_event_of_an_unknown_kind_is_passed_over_and_its_run_is_left_alone(store: Store) -> None:
    events, unfinished, refused = await left(
        store, lambda events: events.insert(2, {"type": "budget_spent", "cents": 3, "by": {"key": "ann"}})
    )

    said = "passed over an event that this Ronda does not know, of the kind 'budget_spent'"
    assert events == [start("a"), Warned("first"), Warned(said, code="unknown_event"), Warned("last")]
    assert rebuild(events).ended is None
    assert unfinished == []
    assert isinstance(refused, WrittenByNewer)
    assert "'budget_spent'" in str(refused)


async def test_a_warning_in_the_same_words_keeps_no_run_from_going_on(store: Store) -> None:
    """An upstream may say anything, these words included."""
    said = "passed over an event that this Ronda does not know, of the kind 'budget_spent'"

    events, unfinished, refused = await left(store, lambda events: events[1].update(message=said))

    assert events == [start("a"), Warned(said), Warned("last")]
    assert (unfinished, refused) == (["a"], None)


async def test_a_run_that_needs_a_newer_format_is_read_and_left_alone(store: Store) -> None:
    events, unfinished, refused = await left(store, lambda events: events[0].update(least_format=2))

    first = events[0]
    assert isinstance(first, RunStarted)
    assert (first.least_format, events[1:]) == (2, [Warned("first"), Warned("last")])
    assert unfinished == []
    assert isinstance(refused, WrittenByNewer)


async def test_an_unknown_field_is_passed_over_and_its_run_goes_on(store: Store) -> None:
    def add(events: list[dict[str, Any]]) -> None:
        events[0] |= {"budget": {"cents": 3}}
        events[0]["plan"] |= {"tier": "gold"}
        events[1] |= {"severity": 2}

    events, unfinished, refused = await left(store, add)

    assert events == [start("a"), Warned("first"), Warned("last")]
    assert (unfinished, refused) == (["a"], None)


async def test_an_unknown_column_is_passed_over(store: Store) -> None:
    await store.close(store.open())
    store.add_column()
    journal = store.open()
    journal.append("a", [start("a"), Warned("first")])
    await journal.barrier("a")

    assert list(await journal.read("a")) == [start("a"), Warned("first")]
    await store.close(journal)
