"""What a SQLite journal forgets, so that it stays within its limits: the oldest runs, and what only they used.

Done by a thread on a connection of its own, a few runs per transaction, so that writers hardly wait. Knows the tables of
`sqlite_tables`, and no clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from ronda.store.shares import oldest_beyond
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
    owner_bytes: int | None = None,
) -> int:
    """Forget what is beyond the limits; returns how many runs. `is_driven` tells if a run's writer is alive.

    The age of a run counts from its end; that of one that has none, from its start. One that waits for people stays. What is too
    large loses runs of the owner who keeps the most: an owner who keeps no more than the others loses nothing to them.
    """
    forgotten = 0
    if max_age is not None:
        forgotten += _forget_all(db, _ended_before(db, now - max_age), is_driven, lambda: True)
    if owner_bytes is not None or (max_bytes is not None and bytes_used(db) > max_bytes):
        forgotten += _forget_largest(db, is_driven, max_bytes, owner_bytes)
    if forgotten:
        _shrink(db)
    return forgotten


def prune_previews(db: sqlite3.Connection, then: float, max_bytes: int) -> None:
    """Forget what was shown, piece by piece, of runs that ended before; and if there is too much, of the oldest others of those
    owners who keep more than their share."""
    rows: list[tuple[int, str | None, int, float]] = db.execute(
        """SELECT run, owner, sum(length(body)), ended FROM preview JOIN run ON run.id = preview.run
        WHERE ended IS NOT NULL GROUP BY run ORDER BY ended DESC"""
    ).fetchall()
    old = [(run,) for run, _, _, ended in rows if ended < then]
    old += [(run,) for run in oldest_beyond([row[:3] for row in rows if row[3] >= then], max_bytes)]
    for index in range(0, len(old), RUNS_AT_ONCE):
        with transaction(db, "IMMEDIATE"):
            db.executemany("DELETE FROM preview WHERE run = ?", old[index : index + RUNS_AT_ONCE])


def forget(db: sqlite3.Connection, name: str, *, now: float, is_driven: Callable[[int], bool]) -> bool | None:
    """Forget one run, in the caller's transaction. False if it is driven, None if it is not there."""
    try:
        row = db.execute("SELECT id FROM run WHERE name = ?", (name,)).fetchone()
    except UnicodeError:  # no text, so it cannot have been kept
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
    for run_id, started, ended in _all_but_last(db):
        if started >= then:
            return  # ids grow with time: from here on they are too young
        if ended is None or ended < then:
            yield _Candidate(run_id, ended)


def newest(db: sqlite3.Connection) -> float | None:
    """When the newest run began or ended."""
    found: float | None = db.execute("SELECT max(max(started, coalesce(ended, started))) FROM run").fetchone()[0]
    return found


def _forget_largest(
    db: sqlite3.Connection, is_driven: Callable[[int], bool], max_bytes: int | None, owner_bytes: int | None
) -> int:
    """A few of the oldest runs of the owner who keeps the most, again and again."""
    kept = _bytes_of_owners(db)
    runs = {owner: _finished_runs(db, owner) for owner in kept}
    enough = None if max_bytes is None or bytes_used(db) <= max_bytes else max_bytes * ROOM
    forgotten = 0
    while kept:
        owner = max(kept, key=kept.__getitem__)
        too_many = enough is not None and bytes_used(db) > enough
        if not too_many and (owner_bytes is None or kept[owner] <= owner_bytes):
            break
        some = list(islice(runs[owner], RUNS_AT_ONCE if too_many else 1))
        if not some:
            del kept[owner]  # all that is left of it is under way
            continue
        kept[owner] -= sum([_bytes_of(db, one.run) for one in some])
        forgotten += _forget_all(db, iter(some), is_driven, lambda: True)
    return forgotten


# Turns and tool tables are shared, and count for no owner.
_BODIES = """(SELECT run, length(body) AS size FROM event UNION ALL SELECT run, length(body) FROM preview
    UNION ALL SELECT run, length(body) FROM run_value JOIN value ON value.id = run_value.value)"""


def _bytes_of_owners(db: sqlite3.Connection) -> dict[str | None, int]:
    question = f"SELECT owner, sum(size) FROM run JOIN {_BODIES} AS part ON part.run = run.id GROUP BY owner"
    return dict(db.execute(question).fetchall())


def _bytes_of(db: sqlite3.Connection, run: int) -> int:
    question = f"SELECT coalesce(sum(size), 0) FROM {_BODIES} WHERE run = ?"
    found: int = db.execute(question, (run,)).fetchone()[0]
    return found


def _finished_runs(db: sqlite3.Connection, owner: str | None) -> Iterator[_Candidate]:
    for run_id, _, ended in _all_but_last(db, owner):
        if ended is not None:
            yield _Candidate(run_id, ended)


_ANY: Final = object()


def _all_but_last(db: sqlite3.Connection, owner: object = _ANY) -> Iterator[tuple[int, float, float | None]]:
    """Of one owner, or of all. The last of all stays: SQLite would give its id to another run while it is written to."""
    last: int = db.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()[0]
    after = 0
    whose, values = ("", ()) if owner is _ANY else ("AND owner IS ?", (owner,))
    while True:
        rows = db.execute(
            f"""SELECT id, started, ended FROM run WHERE id > ? AND id < ? AND state IS NOT 'waiting' {whose}
            ORDER BY id LIMIT 1000""",
            (after, last, *values),
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
    """One run, and the turns and values that no other run uses. Exact, since it is done in one transaction."""
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


def _is_used(db: sqlite3.Connection, question: str, row_id: int) -> bool:
    return bool(db.execute(question, {"id": row_id}).fetchone()[0])


def bytes_used(db: sqlite3.Connection) -> int:
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
