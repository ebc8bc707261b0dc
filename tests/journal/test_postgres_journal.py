"""The journal in PostgreSQL: what every journal promises, and what only one that several machines share can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

import pytest
from tests.timeouts import soon

from ronda.core.events import ModelStarted, RunFinished, RunStarted, TextDelta, ToolFinished
from ronda.core.parts import ToolResult, user
from ronda.core.plan import Plan
from ronda.journal import DrivenHere, Journal, JournalConflict, RunQuery
from ronda.journal.postgres import PostgresJournal
from ronda.journal.postgres_writer import MissingPart
from ronda.store import StoreError
from ronda.store.postgres import Database, PostgresSql
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.sql import Sql
from ronda.testing.facts import finish, start
from ronda.testing.journals import DurableJournalContract

_T = TypeVar("_T")


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
    frozen.append("b", finish())  # this one was not taken
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


async def test_what_is_too_large_loses_the_oldest_runs_of_those_who_keep_the_most(postgres: str) -> None:
    database = Database(postgres)
    journal = PostgresJournal(database, PostgresPresence(database), max_bytes=200_000)

    async def keep(owner: str, runs: Iterable[int]) -> None:
        for number in runs:
            begun = RunStarted(f"{owner}{number:02}", Plan("model"), (user("hi"),), owner=owner)
            journal.append(
                begun.run, [begun, ToolFinished(ToolResult("call_1", "x" * 10_000)), RunFinished("stop", at=1.0)]
            )
            await journal.barrier(begun.run)
            journal.release(begun.run)

    async def left() -> dict[str, list[str]]:
        pages = {owner: await journal.list_runs(RunQuery(owner, limit=50)) for owner in ("ann", "bob", "eve")}
        return {owner: [one.run for one in page.runs] for owner, page in pages.items()}

    await keep("ann", range(3))
    await keep("bob", range(16))
    assert await journal.prune() == 0
    await keep("eve", range(20))
    await journal.prune()
    after = await left()

    assert len(after["ann"]) == 3  # less than an equal share: nothing of it goes
    assert 6 <= len(after["bob"]) <= 8
    assert 6 <= len(after["eve"]) <= 8
    assert after["eve"][0] == "eve19"

    await journal.close()
    journal = PostgresJournal(database, PostgresPresence(database), owner_bytes=25_000)
    await journal.prune()
    assert {owner: len(runs) for owner, runs in (await left()).items()} == {"ann": 2, "bob": 2, "eve": 2}
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
    told = await other.previews("a")  # more than one, if the first news was of the beginning
    assert (list(told), set(told[0])) == ([0], {TextDelta("Hel")})
    await one.close()
    await other.close()


async def test_who_follows_a_run_looks_for_what_no_notice_told(processes: Processes) -> None:
    one, other = processes.open(), processes.open()
    one._presence._channel = "another"  # listeners hear nothing of it
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


class LateAnswers(Database):
    """Hands out the result of its next transaction, or of the one after it, when it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.late: int | None = None  # how many come before that one
        self.go_on = asyncio.Event()
        self.is_done = asyncio.Event()

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        result = await super().write(job, alone, may_be_lost=may_be_lost)
        if self.late is not None:
            self.late -= 1
            if self.late < 0:
                self.late = None
                self.is_done.set()
                await self.go_on.wait()
        return result


async def test_a_release_does_not_take_a_run_from_the_task_that_resumes_it_meanwhile(postgres: str) -> None:
    database = LateAnswers(postgres)
    journal = PostgresJournal(database, PostgresPresence(database))
    journal.append("a", [start("a")])
    journal.release("a", waiting=True)
    await journal.barrier("a")

    async def look() -> None:
        await journal.resume("a")
        journal.release("a", waiting=True)
        database.go_on.set()

    async def answer() -> None:
        try:
            await journal.resume("a")
        except DrivenHere:  # the other task looks at it just now
            await asyncio.sleep(0)
            await answer()
            return
        for events in ([ModelStarted(0)], finish()):
            journal.append("a", events)
            await journal.barrier("a")

    database.late = 1  # the second process that takes it is told so after the first has released it
    async with soon():
        await asyncio.gather(look(), answer())
    assert await journal.read("a") == [start("a"), ModelStarted(0), *finish()]
    await journal.close()
    await database.close()


async def test_a_run_whose_resume_was_cancelled_is_left_for_the_next_who_looks(postgres: str) -> None:
    database = LateAnswers(postgres)
    journal = PostgresJournal(database, PostgresPresence(database))
    journal.append("a", [start("a")])
    journal.release("a")
    await journal.barrier("a")
    database.late = 0
    resuming = asyncio.create_task(journal.resume("a"))
    async with soon():
        await database.is_done.wait()  # its row says that this process drives it
    resuming.cancel()
    await asyncio.wait([resuming])
    assert [one.run for one in await journal.unfinished_runs()] == ["a"]
    assert await journal.abandoned_runs() == {"a"}
    assert await journal.resume("a") == [start("a")]
    assert (await journal.unfinished_runs(), await journal.abandoned_runs()) == ([], set())
    await journal.close()
    await database.close()


class Deleted(Database):
    """Another process deletes what a commit counts on, so often."""

    times = 0

    def do(self, job: Callable[[PostgresSql], _T], begin: str, outage: float | None = None) -> _T:
        if self.times and "pg_current_xact_id" in begin:
            self.times -= 1
            raise MissingPart
        return super().do(job, begin, outage)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_what_is_deleted_again_and_again_is_told(postgres: str, times: int) -> None:
    database = Deleted(postgres)
    journal = PostgresJournal(database, PostgresPresence(database))
    database.times = times
    journal.append("a", [start("a", LONG)])
    if times < 3:
        await journal.barrier("a")
    else:
        with pytest.raises(StoreError, match="was deleted while they were written, again and again"):
            await journal.barrier("a")
    journal.append("b", [start("b", LONG)])
    await journal.barrier("b")
    assert await journal.read("a") == ([start("a", LONG)] if times < 3 else [])
    await journal.close()
    await database.close()
