"""What is kept on disk of what a run has shown: within a bound, and never at the price of the run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.events import Event, LogprobsDelta, ModelStarted, TextDelta
from ronda.core.sizes import EVENT_BYTES
from ronda.journal.postgres import PostgresJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.store.postgres import Database
from ronda.store.postgres_presence import PostgresPresence
from ronda.testing.facts import finish, start

ROUND: list[Event] = [start("a", outlives=True), ModelStarted(0)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM preview").fetchone()[0])


async def test_a_round_keeps_as_many_as_its_bound_allows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ronda.journal.previews.KEPT_BYTES", 2 * (EVENT_BYTES + 4))
    journal = SqliteJournal(path)
    journal.append("a", ROUND)
    for text in ("abcd", "efgh", "ijkl", ""):
        journal.append("a", [TextDelta(text)])
    assert await journal.previews("a") == {1: [TextDelta("abcd"), TextDelta("efgh")]}
    journal.append("a", [ModelStarted(1)])
    journal.append("a", [TextDelta("mnop")])
    assert await journal.previews("a") == {2: [TextDelta("mnop")]}
    await journal.close()


@pytest.mark.parametrize("bad", [TextDelta("\ud800"), LogprobsDelta(Raw(b"{"))], ids=["no text", "no JSON"])
async def test_what_cannot_be_kept_does_not_break_the_run(path: Path, bad: Event) -> None:
    journal = SqliteJournal(path)
    journal.append("a", ROUND)
    journal.append("a", [TextDelta("one")])
    await journal.barrier("a")
    journal.append("a", [bad])
    await journal.barrier("a")
    journal.append("a", [TextDelta("three")])
    await journal.barrier("a")
    assert await journal.previews("a") == {1: [TextDelta("one")]}
    journal.append("a", finish())
    await journal.barrier("a")
    assert len(await journal.read("a")) == 4
    await journal.close()


async def test_what_waits_for_a_lock_is_kept_when_it_is_gone(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append("a", ROUND)
    journal.append("a", [TextDelta("zero")])
    await journal.barrier("a")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        journal.append("a", [ModelStarted(1)])
        journal.append("a", [TextDelta("one")])
        journal._commits._commit()
        journal.append("a", [TextDelta("two")])
        other.execute("ROLLBACK")
    assert await journal.previews("a") == {1: [TextDelta("zero")], 2: [TextDelta("one"), TextDelta("two")]}
    await journal.close()


async def test_nothing_is_left_of_a_run_that_is_pruned(path: Path) -> None:
    journal = SqliteJournal(path, max_age=10.0, now=lambda: 100.0)
    for run in ("a", "b", "c"):
        journal.append(run, [start(run, outlives=True), ModelStarted(0)])
        journal.append(run, [TextDelta("one")])
    await journal.barrier("a")
    assert rows(path) == 3
    journal.append("a", finish())
    journal.release("b")
    await journal.barrier("a")
    assert rows(path) == 3
    await journal.close()
    journal = SqliteJournal(path, max_age=10.0, now=lambda: 1000.0)
    journal.append("d", [start("d")])
    await journal.prune()
    assert rows(path) == 0
    await journal.close()


async def test_what_was_shown_is_dropped_some_time_after_a_run_has_ended(path: Path) -> None:
    now = 100.0
    journal = SqliteJournal(path, keep_previews=120.0, now=lambda: now)
    for run in ("a", "b", "c"):
        journal.append(run, [start(run, outlives=True), ModelStarted(0)])
        journal.append(run, [TextDelta("one")])
        if run != "c":
            journal.append(run, finish())
        await journal.barrier(run)
        now += 50.0
    await journal.prune()
    assert [await journal.previews(run) for run in "abc"] == [{}, {1: [TextDelta("one")]}, {1: [TextDelta("one")]}]
    now += 1000.0
    await journal.prune()
    assert [await journal.previews(run) for run in "abc"] == [{}, {}, {1: [TextDelta("one")]}]  # which is under way
    await journal.close()


async def test_of_too_much_that_was_shown_the_oldest_runs_is_dropped(path: Path) -> None:
    now = 100.0
    journal = SqliteJournal(path, keep_previews_bytes=250, now=lambda: now)
    for run in "abcd":
        journal.append(run, [start(run, outlives=True), ModelStarted(0)])
        journal.append(run, [TextDelta("x" * 60)])
        journal.append(run, finish())
        await journal.barrier(run)
        now += 1.0
    await journal.prune()
    assert [bool(await journal.previews(run)) for run in "abcd"] == [False, False, True, True]
    await journal.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_was_shown_of_one_owners_runs_takes_nothing_from_anothers(
    kind: str, path: Path, request: pytest.FixtureRequest
) -> None:
    now = 0.0
    journal: SqliteJournal | PostgresJournal
    if kind == "sqlite":
        journal = SqliteJournal(path, keep_previews_bytes=500, now=lambda: now)
    else:
        database = Database(request.getfixturevalue("postgres"))
        journal = PostgresJournal(database, PostgresPresence(database), keep_previews_bytes=500, now=lambda: now)
    for run in ("ann0", *[f"bob{number}" for number in range(8)]):
        begun = start(run, outlives=True)
        journal.append(run, [replace(begun, owner=run[:3]), ModelStarted(0)])
        journal.append(run, [TextDelta("x" * 60)])
        journal.append(run, finish())
        await journal.barrier(run)
        now += 1.0
    await journal.prune()
    kept = {run: bool(await journal.previews(run)) for run in ("ann0", "bob0", "bob7")}
    await journal.close()
    if kind == "postgres":
        await database.close()

    assert kept == {"ann0": True, "bob0": False, "bob7": True}
