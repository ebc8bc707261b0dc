"""Rows of SQLite become the events of a run: see `sqlite_tables`. Nothing here writes or waits."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.core.events import AgentFile, Event, ModelFinished, ModelInterrupted, RunStarted, ToolFinished
from ronda.drive.offload import LIGHT_BYTES, LIGHT_TURNS
from ronda.journal import RunCounts, RunPage, RunQuery, RunSurvey, run_lists
from ronda.journal.event_rows import TornRow, read_events
from ronda.journal.sqlite_tables import LargeEvent, decode_answer, decode_result, decode_row
from ronda.journal.start_parts import hash_file, join_start
from ronda.store.sql import Sql
from ronda.store.sqlite import transaction


class FoundRun(Struct, frozen=True):
    """A run as it lies in so many rows of the database. `torn` is the number of a last one that cannot be read."""

    key: int
    writer: int | None
    is_waiting: bool
    events: list[Event]
    rows: int
    torn: int | None = None


def find(db: sqlite3.Connection, path: str, run: str, known: FoundRun | None = None) -> FoundRun | None:
    """All that is kept of a run. Raises StoreError where something is missing in the middle of it. What was read of it before
    (`known`) is not read again if it has not grown.

    Call it in a transaction, since another process may be pruning.
    """
    try:
        row = db.execute("SELECT id, writer, state, tip, tools FROM run WHERE name = ?", (run,)).fetchone()
    except UnicodeError:  # no text, so it cannot have been kept
        return None
    if row is None:
        return None
    key, writer, state, tip, tools = row
    is_waiting = state == "waiting"
    if known is not None and (known.key, known.torn) == (key, None):
        (count,) = db.execute("SELECT count(*) FROM event WHERE run = ?", (key,)).fetchone()
        if count == known.rows:
            return replace(known, writer=writer, is_waiting=is_waiting)
    rows = db.execute("SELECT number, body FROM event WHERE run = ? ORDER BY number", (key,)).fetchall()
    try:
        events = read_events(
            path, run, rows, lambda body: _decode(db, body), lambda start: _restore_start(db, start, tip, tools)
        )
    except TornRow as torn:
        number = len(torn.events)
        if number != rows[-1][0]:
            raise
        return FoundRun(key, writer, is_waiting, torn.events, len(rows), torn=number)
    return FoundRun(key, writer, is_waiting, events, len(rows))


def is_long(db: sqlite3.Connection, run: str) -> bool:
    """Whether it takes long to read, going by the sizes of its rows: SQLite knows them without reading the rows."""
    try:
        (size,) = db.execute(_SIZE, {"run": run, "turns": LIGHT_TURNS, "turn": LIGHT_BYTES // LIGHT_TURNS}).fetchone()
    except UnicodeError:  # no text, so it cannot have been kept
        return False
    return size is not None and size > LIGHT_BYTES


# No more turns are counted than are light, and each for so many bytes at the least.
_SIZE: Final = """WITH RECURSIVE
    this(id, tip) AS (SELECT id, tip FROM run WHERE name = :run),
    chain(before, body, value) AS (
        SELECT before, body, value FROM turn WHERE id = (SELECT tip FROM this)
        UNION ALL
        SELECT turn.before, turn.body, turn.value FROM chain JOIN turn ON turn.id = chain.before
        LIMIT :turns + 1
    )
    SELECT sum(size) FROM (
        SELECT length(body) AS size FROM event WHERE run = (SELECT id FROM this)
        UNION ALL
        SELECT length(body) FROM value WHERE id IN (SELECT value FROM run_value WHERE run = (SELECT id FROM this))
        UNION ALL
        SELECT max(:turn, length(coalesce(chain.body, kept.body))) FROM chain LEFT JOIN value AS kept ON kept.id = chain.value
    )"""


def list_runs(db: sqlite3.Connection, query: RunQuery) -> RunPage:
    db.create_function("folded", 1, _fold, deterministic=True)
    with transaction(db, "DEFERRED"):
        return run_lists.list_runs(db, query, _WORDS)


def count_runs(db: sqlite3.Connection, query: RunQuery, since: float, until: float, pieces: int) -> RunCounts:
    db.create_function("folded", 1, _fold, deterministic=True)
    with transaction(db, "DEFERRED"):
        return run_lists.count_runs(db, query, since, until, pieces, _WORDS)


def survey_runs(db: sqlite3.Connection, since: float, until: float, pieces: int) -> RunSurvey:
    with transaction(db, "DEFERRED"):
        return run_lists.survey_runs(db, since, until, pieces, _WORDS)


def _fold(text: str | None) -> str | None:
    """SQLite's own `lower` knows the letters of ASCII only."""
    return None if text is None else text.casefold()


_CLOCK_STEPS: Final = 3600.0  # seconds by which a clock may have been set back while runs were written


def _first_since(db: Sql, since: float) -> int:
    """Ids grow with time, so that no index by time is needed: the place is found by halving."""
    low, high = 0, int(db.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()[0]) + 1
    while low < high:
        middle = (low + high) // 2
        row = db.execute("SELECT id, started FROM run WHERE id >= ? ORDER BY id LIMIT 1", (middle,)).fetchone()
        if row is None or row[1] >= since - _CLOCK_STEPS:
            high = middle
        else:
            low = int(row[0]) + 1
    return low


_WORDS: Final = run_lists.Words(
    is_among=lambda column, name: f"{column} IN (SELECT value FROM json_each(:{name}))",
    write_texts=lambda texts: msgspec.json.encode(texts).decode(),
    contains=lambda column, name: f"instr(folded({column}), :{name}) > 0",
    piece="CAST(({at} - :begin) / :width AS INTEGER)",
    first_since=_first_since,
)


def _decode(db: sqlite3.Connection, body: bytes) -> list[Event]:
    return [_restore(db, event) if isinstance(event, LargeEvent) else event for event in decode_row(body)]


def _restore(db: sqlite3.Connection, large: LargeEvent) -> Event:
    body = _value(db, large.value)
    event = large.event
    if type(event) is ToolFinished:
        return replace(event, result=decode_result(body))
    if type(event) is ModelFinished or type(event) is ModelInterrupted:
        return replace(event, turn=decode_answer(body))
    return event


def _restore_start(db: sqlite3.Connection, start: Event, tip: int | None, tools: int | None) -> Event:
    file = start.file if type(start) is RunStarted else None
    return join_start(
        start,
        tools=None if tools is None else _value(db, tools),
        turns=None if tip is None else _turns(db, tip),
        file=None if file is None else _file(db, file),
    )


def _turns(db: sqlite3.Connection, tip: int) -> list[bytes]:
    chain = db.execute(
        """WITH RECURSIVE chain(step, before, body, value) AS (
               SELECT 0, before, body, value FROM turn WHERE id = ?
               UNION ALL
               SELECT step + 1, turn.before, turn.body, turn.value FROM chain JOIN turn ON turn.id = chain.before
           )
           SELECT before, body, value FROM chain ORDER BY step DESC""",
        (tip,),
    ).fetchall()
    if not chain or chain[0][0] is not None:
        raise LookupError("the beginning of its transcript is not there")
    return [body if value is None else _value(db, value) for _, body, value in chain]


def _file(db: sqlite3.Connection, file: AgentFile) -> bytes:
    row = db.execute("SELECT body FROM value WHERE hash = ?", (hash_file(file),)).fetchone()
    if row is None:
        raise LookupError("the file of its agent is not there")
    return bytes(row[0])


def _value(db: sqlite3.Connection, row_id: int) -> bytes:
    row = db.execute("SELECT body FROM value WHERE id = ?", (row_id,)).fetchone()
    if row is None:
        raise LookupError("a large value of it is not there")
    return bytes(row[0])
