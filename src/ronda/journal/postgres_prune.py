"""What a journal in PostgreSQL forgets: runs that are too old, what only they used, and what was shown of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda.journal.postgres_reader import DRIVEN
from ronda.store.sql import Sql

_AT_ONCE: Final = 200  # runs that one transaction forgets


def forget(db: Sql, names: Sequence[str]) -> int:
    """These runs, and the turns and values that nobody else uses."""
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
    values = [hash for _, *both in gone for hash in both if hash is not None]
    if values:
        db.execute(
            """DELETE FROM value WHERE hash = ANY(?::bytea[]) AND NOT EXISTS (SELECT 1 FROM run WHERE tools = hash)
            AND NOT EXISTS (SELECT 1 FROM run WHERE file = hash)""",
            (values,),
        )
    return len(gone)


def forget_old(db: Sql, then: float, me: int) -> int:
    """A few of the runs that ended before; of those that have no end, and that nobody drives, those that began before. One that
    waits for people stays."""
    rows = db.execute(
        f"""SELECT name FROM run WHERE started < :then AND (ended IS NULL OR ended < :then)
        AND state IS DISTINCT FROM 'waiting' AND NOT {DRIVEN} ORDER BY started LIMIT {_AT_ONCE} FOR UPDATE SKIP LOCKED""",
        {"then": then, "me": me},
    ).fetchall()
    return forget(db, [name for (name,) in rows]) if rows else 0


def forget_previews(db: Sql, then: float, max_bytes: int) -> None:
    """What was shown, piece by piece, of runs that ended before; and of the oldest others, if there is too much."""
    db.execute(
        """DELETE FROM preview USING (
            SELECT name, ended, sum(size) OVER (ORDER BY ended DESC) AS so_far FROM (
                SELECT name, ended, sum(octet_length(body)) AS size FROM preview JOIN run ON name = run
                WHERE ended IS NOT NULL GROUP BY name, ended
            ) AS each
        ) AS old WHERE preview.run = old.name AND (ended < ? OR so_far > ?)""",
        (then, max_bytes),
    )
