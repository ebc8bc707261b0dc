"""Rows of PostgreSQL become the events of a run, and tell who drives it: see `postgres_tables`."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from ronda.core.events import Event
from ronda.journal import RunCounts, RunPage, RunQuery, RunSurvey, driven_elsewhere, run_lists
from ronda.journal.event_rows import check_drivable, read_events
from ronda.journal.previews import PreviewsAfter, join_previews
from ronda.journal.start_parts import join_start
from ronda.store.postgres_presence import ALIVE
from ronda.store.sql import Sql

decode_row = msgspec.json.Decoder(list[Event]).decode


class FoundRun(Struct, frozen=True):
    """A run as it lies in the database. `driver` is the process that drives it, if one does."""

    events: list[Event]
    is_waiting: bool
    driver: int | None


def find(db: Sql, place: str, run: str, me: int, *, lock: bool = False) -> FoundRun | None:
    """All that is kept of a run. `lock`: no other writes to it before this transaction ends."""
    question = f"SELECT state, writer, {DRIVEN}, tip, tools, file FROM run WHERE name = :name"
    try:
        row = db.execute(f"{question} FOR UPDATE" if lock else question, {"name": run, "me": me}).fetchone()
    except UnicodeError:  # no text, so it cannot have been kept
        return None
    if row is None:
        return None
    state, writer, is_driven, tip, tools, file = row
    rows = db.execute("SELECT number, body FROM event WHERE run = ? ORDER BY number", (run,)).fetchall()
    events = read_events(place, run, rows, decode_row, lambda start: _restore_start(db, start, tip, tools, file))
    return FoundRun(events, state == "waiting", writer if is_driven else None)


DRIVEN: Final = f"(writer IS NOT NULL AND ended IS NULL AND (writer = :me OR {ALIVE.format(id='writer')}))"


def find_driver(db: Sql, run: str, me: int) -> int | None:
    row = db.execute(f"SELECT writer FROM run WHERE name = :name AND {DRIVEN}", {"name": run, "me": me}).fetchone()
    return None if row is None else row[0]


def _restore_start(db: Sql, start: Event, tip: bytes | None, tools: bytes | None, file: bytes | None) -> Event:
    return join_start(
        start,
        tools=None if tools is None else _value(db, tools),
        turns=None if tip is None else _turns(db, tip),
        file=None if file is None else _value(db, file),
    )


def _turns(db: Sql, tip: bytes) -> list[bytes]:
    rows = db.execute(
        """WITH RECURSIVE chain (step, before, body) AS (
            SELECT 0, before, body FROM turn WHERE hash = ?
            UNION ALL SELECT step + 1, turn.before, turn.body FROM chain JOIN turn ON turn.hash = chain.before
        ) SELECT body FROM chain ORDER BY step DESC""",
        (tip,),
    )
    return [body for (body,) in rows]


def _value(db: Sql, digest: bytes) -> bytes:
    row = db.execute("SELECT body FROM value WHERE hash = ?", (digest,)).fetchone()
    if row is None:
        raise LookupError("a large value of it is not there")
    return bytes(row[0])


def read_previews(db: Sql, run: str, after: int) -> PreviewsAfter:
    question = "SELECT fact, number, body FROM preview WHERE run = ? AND fact >= ? ORDER BY fact, number"
    return join_previews(db.execute(question, (run, after)))


def list_runs(db: Sql, query: RunQuery) -> RunPage:
    return run_lists.list_runs(db, query, _WORDS)


def count_runs(db: Sql, query: RunQuery, since: float, until: float, pieces: int) -> RunCounts:
    return run_lists.count_runs(db, query, since, until, pieces, _WORDS)


def survey_runs(db: Sql, since: float, until: float, pieces: int) -> RunSurvey:
    return run_lists.survey_runs(db, since, until, pieces, _WORDS)


_TABLES: Final = ("run", "event", "turn", "value", "call", "preview")


def bytes_used(db: Sql) -> int:
    """With the indexes, and what was freed and is not used again yet."""
    sizes = " + ".join([f"pg_total_relation_size('{name}'::regclass)" for name in _TABLES])
    return int(db.execute(f"SELECT {sizes}").fetchone()[0])


_WORDS: Final = run_lists.Words(
    is_among=lambda column, name: f"{column} = ANY(:{name}::text[])",
    write_texts=list,
    contains=lambda column, name: f"position(:{name}::text in lower({column})) > 0",
    piece="floor(({at} - :begin) / :width)",
    first_since=lambda db, since: 0,  # there is an index
)


def take(db: Sql, place: str, run: str, me: int) -> FoundRun | None:
    """From now on this process drives the run."""
    found = find(db, place, run, me, lock=True)
    if found is None or not found.events:
        return None
    if found.driver not in (None, me):
        raise driven_elsewhere(run)
    check_drivable(run, found.events)
    db.execute("UPDATE run SET writer = ? WHERE name = ?", (me, run))
    return found


def open_runs(db: Sql, me: int) -> list[tuple[str, bool]]:
    """The names of runs without an end that no other process drives, the oldest first, and whether each waits for people.
    Which of them this process holds it knows better than their rows: a release may not have been written."""
    question = f"""SELECT name, state IS NOT DISTINCT FROM 'waiting' FROM run WHERE ended IS NULL
        AND (writer IS NULL OR writer = :me OR NOT {ALIVE.format(id="writer")}) ORDER BY id"""
    return [(name, is_waiting) for name, is_waiting in db.execute(question, {"me": me})]
