"""What a SQLite journal forgets, so that it stays within its limits: the oldest runs, and what only they used.

Done by a thread on a connection of its own, a few runs per transaction, so that those who write hardly wait. Knows the tables of
`sqlite_tables`, and no clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from ronda.store.sqlite import transaction

RUNS_AT_ONCE = 50
PAGES_AT_ONCE = 500
ROOM = 0.9  # of `max_bytes` is what a pruned journal fills, so that it need not be pruned again at once


def prune(
    db: sqlite3.Connection,
    *,
    max_age: float | None,
    max_bytes: int | None,
    now: float,
    is_driven: Callable[[int], bool],
) -> int:
    """Forget what is beyond the limits; returns how many runs. `is_driven` tells if a run's writer is alive.

    The age of a run counts from its end; that of one that has none, from its start. One that waits for people stays.
    """
    forgotten = 0
    if max_age is not None:
        forgotten += _forget_all(db, _ended_before(db, now - max_age), is_driven, lambda: True)
    if max_bytes is not None and _bytes(db) > max_bytes:
        enough = max_bytes * ROOM
        forgotten += _forget_all(db, _finished_runs(db), is_driven, lambda: _bytes(db) > enough)
    if forgotten:
        _shrink(db)
    return forgotten


def prune_previews(db: sqlite3.Connection, then: float, max_bytes: int) -> None:
    """Forget what was shown, piece by piece, of runs that ended before; and of the oldest others, if there is too much."""
    rows: list[tuple[int, float, int]] = db.execute(
        """SELECT run, ended, sum(length(body)) FROM preview JOIN run ON run.id = preview.run WHERE ended IS NOT NULL
        GROUP BY run ORDER BY ended DESC"""
    ).fetchall()
    size, old = 0, []
    for run, ended, length in rows:
        size += length
        if ended < then or size > max_bytes:
            old.append((run,))
    for at in range(0, len(old), RUNS_AT_ONCE):
        with transaction(db, "IMMEDIATE"):
            db.executemany("DELETE FROM preview WHERE run = ?", old[at : at + RUNS_AT_ONCE])


def forget(db: sqlite3.Connection, name: str, *, now: float, is_driven: Callable[[int], bool]) -> bool | None:
    """Forget one run, in the caller's transaction. False if somebody drives it, None if it is not there."""
    try:
        row = db.execute("SELECT id FROM run WHERE name = ?", (name,)).fetchone()
    except UnicodeError:  # no text, so nobody can have kept it
        return None
    if row is None:
        return None
    run: int = row[0]
    (last,) = db.execute("SELECT max(id) FROM run").fetchone()
    if not _forget(db, run, is_driven):
        return False
    if run == last:  # its id must not be given to another: see `_all_but_last`
        db.execute("INSERT INTO run (id, name, started, ended) VALUES (?, ?, ?, ?)", (run, f"\0{run}", now, now))
    return True


class _Candidate(NamedTuple):
    """A run that may be forgotten, and when it ended, as far as is known before the transaction that forgets it."""

    run: int
    ended: float | None


def _ended_before(db: sqlite3.Connection, then: float) -> Iterator[_Candidate]:
    for id, started, ended in _all_but_last(db):
        if started >= then:
            return  # ids grow with time: from here on they are too young
        if ended is None or ended < then:
            yield _Candidate(id, ended)


def _finished_runs(db: sqlite3.Connection) -> Iterator[_Candidate]:
    for id, _, ended in _all_but_last(db):
        if ended is not None:
            yield _Candidate(id, ended)


def _all_but_last(db: sqlite3.Connection) -> Iterator[tuple[int, float, float | None]]:
    """The last one stays: SQLite would give its id to another run, while somebody may still write to this one."""
    last: int = db.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()[0]
    after = 0
    while True:
        rows = db.execute(
            "SELECT id, started, ended FROM run WHERE id > ? AND id < ? AND state IS NOT 'waiting' ORDER BY id LIMIT 1000",
            (after, last),
        ).fetchall()
        if not rows:
            return
        yield from rows
        after = rows[-1][0]


def _forget_all(
    db: sqlite3.Connection,
    candidates: Iterator[_Candidate],
    is_driven: Callable[[int], bool],
    go_on: Callable[[], bool],
) -> int:
    forgotten = 0
    while go_on() and (some := list(islice(candidates, RUNS_AT_ONCE))):
        with transaction(db, "IMMEDIATE"):
            forgotten += sum([_forget(db, one.run, is_driven) for one in some if _is_unchanged(db, one)])
    return forgotten


def _is_unchanged(db: sqlite3.Connection, candidate: _Candidate) -> bool:
    """A run that has ended since it was found is as young as its end; and it may have begun to wait."""
    row = db.execute("SELECT ended, state FROM run WHERE id = ?", (candidate.run,)).fetchone()
    return row is not None and row[0] == candidate.ended and row[1] != "waiting"


def _forget(db: sqlite3.Connection, run: int, is_driven: Callable[[int], bool]) -> bool:
    """One run, and the turns and values that nobody else uses. Exact, since it is done in one transaction."""
    row = db.execute("SELECT ended, writer, tip, tools FROM run WHERE id = ?", (run,)).fetchone()
    if row is None:
        return False
    ended, writer, tip, tools = row
    if ended is None and writer is not None and is_driven(writer):
        return False
    values = [value for (value,) in db.execute("SELECT value FROM run_value WHERE run = ?", (run,))]
    db.execute("DELETE FROM event WHERE run = ?", (run,))
    db.execute("DELETE FROM preview WHERE run = ?", (run,))
    db.execute("DELETE FROM run_value WHERE run = ?", (run,))
    db.execute("DELETE FROM call WHERE run = ?", (run,))
    db.execute("DELETE FROM run WHERE id = ?", (run,))
    # From the end of its transcript back to the first turn that another transcript shares.
    while tip is not None and not _is_used(db, _TURN_IS_USED, tip):
        turn = tip
        tip, value = db.execute("SELECT before, value FROM turn WHERE id = ?", (turn,)).fetchone() or (None, None)
        db.execute("DELETE FROM turn WHERE id = ?", (turn,))
        values.append(value)
    for value in (*values, tools):
        if value is not None and not _is_used(db, _VALUE_IS_USED, value):
            db.execute("DELETE FROM value WHERE id = ?", (value,))
    return True


_TURN_IS_USED = "SELECT EXISTS (SELECT 1 FROM run WHERE tip = :id) OR EXISTS (SELECT 1 FROM turn WHERE before = :id)"
_VALUE_IS_USED = """SELECT EXISTS (SELECT 1 FROM run_value WHERE value = :id)
    OR EXISTS (SELECT 1 FROM run WHERE tools = :id)
    OR EXISTS (SELECT 1 FROM turn WHERE value = :id)"""


def _is_used(db: sqlite3.Connection, question: str, id: int) -> bool:
    return bool(db.execute(question, {"id": id}).fetchone()[0])


def _bytes(db: sqlite3.Connection) -> int:
    """In use; pages that were freed and not yet given back do not count."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    in_use: int = (pages - free) * size
    return in_use


def _shrink(db: sqlite3.Connection) -> None:
    """Give free pages back to the disk, a few at a time. The file shrinks with the next checkpoint."""
    while free := db.execute("PRAGMA freelist_count").fetchone()[0]:
        db.execute(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})").fetchall()
        if db.execute("PRAGMA freelist_count").fetchone()[0] >= free:
            return
