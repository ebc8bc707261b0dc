"""What a journal in PostgreSQL forgets: runs that are too old, what only they used, and what was shown of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda.journal.postgres_reader import DRIVEN
from ronda.store.shares import oldest_beyond
from ronda.store.sql import Sql

_AT_ONCE: Final = 200  # runs that one transaction forgets


def forget(db: Sql, names: Sequence[str]) -> int:
    """These runs, and the turns and values that no other run uses."""
    gone = db.execute(
        "DELETE FROM run WHERE name = ANY(?::text[]) RETURNING tip, tools, file", (list(names),)
    ).fetchall()
    for table in ("event", "preview", "call"):
        db.execute(f"DELETE FROM {table} WHERE run = ANY(?::text[])", (list(names),))
    tips = [tip for tip, _, _ in gone if tip is not None]
    while tips:  # from the ends of their transcripts back to the first turn that another transcript shares
        rows = db.execute(
            """DELETE FROM turn WHERE hash = ANY(?::bytea[]) AND NOT EXISTS (SELECT 1 FROM run WHERE tip = hash)
            AND NOT EXISTS (SELECT 1 FROM turn AS next WHERE next.before = turn.hash) RETURNING before""",
            (tips,),
        )
        tips = [before for (before,) in rows if before is not None]
    values = [digest for _, *both in gone for digest in both if digest is not None]
    if values:
        db.execute(
            """DELETE FROM value WHERE hash = ANY(?::bytea[]) AND NOT EXISTS (SELECT 1 FROM run WHERE tools = hash)
            AND NOT EXISTS (SELECT 1 FROM run WHERE file = hash)""",
            (values,),
        )
    return len(gone)


def newest(db: Sql) -> float | None:
    """When the newest run began or ended."""
    found: float | None = db.execute("SELECT greatest(max(started), max(ended)) FROM run").fetchone()[0]
    return found


def forget_old(db: Sql, then: float, me: int) -> int:
    """A few of the runs that ended before; of those that have no end and no driver, those that began before. One that
    waits for people stays."""
    rows = db.execute(
        f"""SELECT name FROM run WHERE started < :then AND (ended IS NULL OR ended < :then)
        AND state IS DISTINCT FROM 'waiting' AND NOT {DRIVEN} ORDER BY started LIMIT {_AT_ONCE} FOR UPDATE SKIP LOCKED""",
        {"then": then, "me": me},
    ).fetchall()
    return forget(db, [name for (name,) in rows]) if rows else 0


_SIZES: Final = """(SELECT run, octet_length(body) AS size FROM event
    UNION ALL SELECT run, octet_length(body) FROM preview)"""


def bytes_of_owners(db: Sql) -> dict[str | None, int]:
    """What each keeps. Turns and tool tables are shared, and count for no owner. The lengths are read, not the bodies."""
    question = f"SELECT owner, sum(size)::bigint FROM run JOIN {_SIZES} AS part ON part.run = name GROUP BY owner"
    return dict(db.execute(question).fetchall())


def forget_oldest(db: Sql, owner: str | None, excess: int) -> tuple[int, int]:
    """A few of an owner's runs that are over, the oldest, until so many bytes are gone: how many runs, and how many bytes."""
    rows = db.execute(
        f"""WITH oldest AS MATERIALIZED (
            SELECT id, name FROM run WHERE owner IS NOT DISTINCT FROM ? AND ended IS NOT NULL
            AND state IS DISTINCT FROM 'waiting' ORDER BY id LIMIT {_AT_ONCE} FOR UPDATE SKIP LOCKED
        ) SELECT name, coalesce((SELECT sum(octet_length(body)) FROM event WHERE event.run = name), 0)
            + coalesce((SELECT sum(octet_length(body)) FROM preview WHERE preview.run = name), 0) FROM oldest ORDER BY id""",
        (owner,),
    ).fetchall()
    names, size = [], 0
    for name, length in rows:
        if size >= excess:
            break
        names.append(name)
        size += int(length)
    return (forget(db, names), size) if names else (0, 0)


def forget_previews(db: Sql, then: float, max_bytes: int) -> None:
    """What was shown, piece by piece, of runs that ended before; and if there is too much, of the oldest others of those owners
    who keep more than their share."""
    rows = db.execute(
        """SELECT name, owner, sum(octet_length(body))::bigint, ended FROM preview JOIN run ON name = run
        WHERE ended IS NOT NULL GROUP BY name, owner, ended ORDER BY ended DESC"""
    ).fetchall()
    old = [name for name, _, _, ended in rows if ended < then]
    old += oldest_beyond([row[:3] for row in rows if row[3] >= then], max_bytes)
    if old:
        db.execute("DELETE FROM preview WHERE run = ANY(?::text[])", (old,))
