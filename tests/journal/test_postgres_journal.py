"""The journal in PostgreSQL: what every journal promises, and what only one that several machines share can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.timeouts import soon

from ronda.core.events import ModelStarted, TextDelta
from ronda.journal import Journal, JournalConflict
from ronda.journal.postgres import PostgresJournal
from ronda.store.postgres import Database
from ronda.store.postgres_presence import PostgresPresence
from ronda.testing.facts import finish, start
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


LONG = "shared " * 5000  # long enough to be kept apart from its run


async def test_what_another_process_forgot_is_written_again(processes: Processes) -> None:
    one, other = processes.open(), processes.open()
    one.append("a", [start("a", LONG), *finish()])
    await one.barrier("a")
    one.release("a")
    assert await other.forget("a")  # with the transcript, which the first process counts on
    one.append("b", [start("b", LONG)])
    one.append("c", [start("c")])
    await one.barrier("b")
    await one.barrier("c")
    assert await other.read("b") == [start("b", LONG)]
    assert await other.read("c") == [start("c")]
    await one.close()
    await other.close()


async def test_a_process_that_counts_as_gone_is_told_when_it_writes(processes: Processes) -> None:
    frozen, other = processes.open(), processes.open()
    for name in ("a", "b"):
        frozen.append(name, [start(name)])
        await frozen.barrier(name)
    await processes.databases[1].write(lambda db: db.execute("DELETE FROM process WHERE id = ?", (frozen._me,)))
    assert await other.resume("a") == [start("a")]  # and has not written to it yet
    frozen.append("a", [ModelStarted(0)])
    with pytest.raises(JournalConflict):
        await frozen.barrier("a")
    frozen.append("b", finish())  # nobody has taken this one
    await frozen.barrier("b")
    other.append("a", finish())
    await other.barrier("a")
    assert await frozen.read("a") == [start("a"), *finish()]
    assert await other.read("b") == [start("b"), *finish()]
    frozen.release("a")
    await frozen.close()
    await other.close()


async def test_old_runs_are_forgotten_with_what_only_they_had(postgres: str) -> None:
    now = [0.0]
    database = Database(postgres)
    journal = PostgresJournal(database, PostgresPresence(database), max_age=100.0, now=lambda: now[0])
    for name, text in (("old", LONG), ("shares", LONG + "more"), ("waits", "hello"), ("driven", "hello")):
        journal.append(name, [start(name, *([LONG] if name == "shares" else []), text)])
    journal.append("old", finish())
    await journal.barrier("old")
    journal.release("old")
    journal.release("waits", waiting=True)
    now[0] = 90.0
    journal.append("shares", finish())
    await journal.barrier("shares")
    journal.release("shares")
    now[0] = 150.0
    assert await journal.prune() == 1
    assert [bool(await journal.read(name)) for name in ("old", "shares", "waits", "driven")] == [
        False,
        True,
        True,
        True,
    ]
    assert (await journal.read("shares"))[0] == start("shares", LONG, LONG + "more")
    now[0] = 250.0
    assert await journal.prune() == 1
    assert await database.read(lambda db: db.execute("SELECT count(*) FROM turn").fetchone()[0]) == 0
    await journal.close()
    await database.close()


async def test_whoever_waits_is_told_that_a_run_has_grown(processes: Processes) -> None:
    one, other = processes.open(), processes.open()
    one.append("a", [start("a", outlives=True)])
    await one.barrier("a")
    async with soon():
        while await other.extent("a") == (1, 0):
            news = asyncio.create_task(other._presence.news_of("a", 3600.0))  # not the look that covers lost notices
            await asyncio.sleep(0)
            one.append("a", [TextDelta("Hel")])
            await news
    assert await other.previews("a") == {0: [TextDelta("Hel")]}
    await one.close()
    await other.close()


async def test_who_follows_a_run_looks_for_what_no_notice_told(processes: Processes) -> None:
    one, other = processes.open(), processes.open()
    one._presence._channel = "another"  # whoever listens hears nothing of it
    one.append("a", [start("a", outlives=True)])
    await one.barrier("a")
    one.append("a", [TextDelta("Hel")])
    await one.barrier("a")
    async with soon():
        while await other.extent("a") == (1, 0):
            await other.wait_for_change("a")
    assert await other.previews("a") == {0: [TextDelta("Hel")]}
    await one.close()
    await other.close()
