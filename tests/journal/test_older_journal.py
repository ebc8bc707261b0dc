"""A journal that an older Ronda wrote is read, goes on, and is listed as if it had been written today."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ronda.core.events import RunFinished, RunStarted
from ronda.journal import RunPage, RunQuery
from ronda.journal.sqlite import SqliteJournal

OLDER = Path(__file__).parent / "older" / "journal-1.sql"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(OLDER.read_text())
    db.close()
    return path


def stands(page: RunPage) -> dict[str, str]:
    return {one.run: one.state for one in page.runs}


async def test_runs_of_an_older_journal_are_listed_with_what_their_events_say(path: Path) -> None:
    journal = SqliteJournal(path)
    ann = await journal.list_runs(RunQuery("ann"))
    assert stands(ann) == {"torn": "finished", "long": "finished", "failed": "failed", "done": "finished"}
    assert [one.run for one in ann.runs] == ["torn", "long", "failed", "done"]
    assert stands(await journal.list_runs(RunQuery("bob"))) == {"cancelled": "cancelled"}
    assert stands(await journal.list_runs(RunQuery(""))) == {"open": "running"}
    assert stands(await journal.list_runs(RunQuery("ann", session="s1", agent="ag_1"))) == {"done": "finished"}
    await journal.close()


async def test_runs_of_an_older_journal_are_read_and_go_on(path: Path) -> None:
    journal = SqliteJournal(path)
    start, *_, end = await journal.read("done")
    assert isinstance(start, RunStarted)
    assert (start.owner, start.session, end) == ("ann", "s1", RunFinished("stop", at=2.0))
    assert len(await journal.resume("torn")) == 1  # what was torn is not there
    journal.append("torn", [RunFinished("failed", at=3.0)])
    await journal.resume("open")
    journal.append("open", [RunFinished("stop", at=3.0)])
    journal.append("new", [RunStarted("new", start.plan, start.turns, owner="ann")])
    assert stands(await journal.list_runs(RunQuery("ann", limit=2))) == {"new": "running", "torn": "failed"}
    assert stands(await journal.list_runs(RunQuery(""))) == {"open": "finished"}
    await journal.close()


async def test_a_run_whose_beginning_cannot_be_read_is_shown_to_nobody(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("UPDATE event SET body = x'5b7b' WHERE run = (SELECT id FROM run WHERE name = 'open')")
    db.close()
    journal = SqliteJournal(path)
    for owner in ("ann", "bob", ""):
        assert "open" not in stands(await journal.list_runs(RunQuery(owner)))
    await journal.close()
