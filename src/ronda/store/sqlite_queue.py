"""A queue in the tables of a catalog: several processes may take from it. It asks nothing of a file that is not there."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from ronda.store import Taken
from ronda.store.queue import ClaimedRun, QueuedRun, QueueEntry, QueueFull, QueueLimits

if TYPE_CHECKING:
    from ronda.store.sqlite_catalog import SqliteCatalog

TABLES: Final = (
    """CREATE TABLE queued_run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, session TEXT NOT NULL,
        at REAL NOT NULL, worker TEXT NOT NULL DEFAULT '', until REAL NOT NULL DEFAULT 0,
        claims INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX queued_run_driven ON queued_run (owner, session, until) WHERE worker <> ''",
)

_DRIVEN: Final = "SELECT count(*) FROM queued_run WHERE worker <> '' AND until > :now"
_NEXT: Final = f"""SELECT run FROM queued_run AS one
    WHERE until <= :now AND ({_DRIVEN}) < :total
        AND ({_DRIVEN} AND owner = one.owner) < :per_owner
        AND ({_DRIVEN} AND owner = one.owner AND session = one.session) < :per_session
    ORDER BY id LIMIT 1"""


class SqliteQueue:
    def __init__(self, catalog: SqliteCatalog) -> None:
        self._catalog = catalog

    async def enqueue(self, run: QueuedRun, most: int) -> None:
        def add(db: sqlite3.Connection) -> None:
            (waiting,) = db.execute("SELECT count(*) FROM queued_run WHERE worker = ''").fetchone()
            if waiting >= most:
                raise QueueFull(f"{most} runs wait already, and no more are allowed; try again later")
            row = (run.run, run.owner, run.session, run.at)
            db.execute("INSERT INTO queued_run (run, owner, session, at) VALUES (?, ?, ?, ?)", row)

        try:
            await self._catalog.write(add)
        except sqlite3.IntegrityError as error:
            raise Taken(f"the run '{run.run}' is queued already") from error

    async def claim(self, worker: str, limits: QueueLimits, now: float, until: float) -> ClaimedRun | None:
        bounds = {
            "now": now,
            "total": limits.total,
            "per_owner": limits.per_owner,
            "per_session": limits.per_session,
        }

        def find(db: sqlite3.Connection) -> str | None:
            row = db.execute(_NEXT, bounds).fetchone()
            return None if row is None else str(row[0])

        def take(db: sqlite3.Connection) -> ClaimedRun | None:
            run = find(db)
            if run is None:
                return None
            db.execute(
                "UPDATE queued_run SET worker = ?, until = ?, claims = claims + 1 WHERE run = ?", (worker, until, run)
            )
            return _claimed(db.execute(f"{_CLAIMED} WHERE run = ?", (run,)).fetchone())

        # Looking is nearly always all there is to do, and keeps nobody from writing.
        if not self._catalog.is_there or await self._catalog.read(find) is None:
            return None
        return await self._catalog.write(take)

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        def renew(db: sqlite3.Connection) -> list[ClaimedRun]:
            db.execute("UPDATE queued_run SET until = ? WHERE worker = ?", (until, worker))
            return [_claimed(row) for row in db.execute(f"{_CLAIMED} WHERE worker = ? ORDER BY id", (worker,))]

        return await self._catalog.write(renew) if self._catalog.is_there else []

    async def cancel(self, run: str, now: float, worker: str = "") -> bool:
        def cancel(db: sqlite3.Connection) -> bool:
            free = "run = ? AND (until <= ? OR worker = ?)"
            if db.execute(f"DELETE FROM queued_run WHERE {free}", (run, now, worker)).rowcount:
                return True
            db.execute("UPDATE queued_run SET cancelled = 1 WHERE run = ?", (run,))
            return False

        return await self._catalog.write(cancel) if self._catalog.is_there else False

    async def list(self, now: float, owner: str | None = None) -> list[QueueEntry]:
        def find_all(db: sqlite3.Connection) -> list[QueueEntry]:
            rows = db.execute(
                """SELECT run, owner, session, at, position FROM (
                    SELECT id, run, owner, session, at, CASE WHEN until <= :now
                        THEN sum(until <= :now) OVER (ORDER BY id) - 1 END AS position FROM queued_run
                ) WHERE :owner IS NULL OR owner = :owner ORDER BY id""",
                {"now": now, "owner": owner},
            )
            return [QueueEntry(*row) for row in rows.fetchall()]

        return await self._catalog.read(find_all) if self._catalog.is_there else []


_CLAIMED: Final = "SELECT run, claims, cancelled FROM queued_run"


def _claimed(row: tuple[str, int, int]) -> ClaimedRun:
    run, claims, cancelled = row
    return ClaimedRun(run, claims, bool(cancelled))
