"""A queue in the tables of a catalog: several processes may take from it. It asks nothing of a file that is not there.

Only adding a run must outlast a crash of the database. Of a claim that was lost the journal knows, which lets one process drive
a run; and one that is over is taken off again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ronda.store import WriteConflict
from ronda.store.queue import ClaimedRun, QueuedRun, QueueEntry, QueueFull, QueueLimits, may_have
from ronda.store.sql import Duplicate, Sql, Tables, TableStore

_ALONE: Final = "queue"  # limits are counted
_DRIVEN: Final = "SELECT count(*) FROM queued_run WHERE worker <> '' AND until > :now"
_NEXT: Final = f"""SELECT run FROM queued_run AS one
    WHERE until <= :now AND ({_DRIVEN}) < :total
        AND ({_DRIVEN} AND owner = one.owner) < coalesce(CAST(:per_owner AS INTEGER), :total - ({_DRIVEN}))
        AND ({_DRIVEN} AND owner = one.owner AND session = one.session) < :per_session
    ORDER BY ({_DRIVEN} AND owner = one.owner), id LIMIT 1"""
_CLAIMED: Final = "run, claims, cancelled"
_CLAIM: Final = f"""UPDATE queued_run SET worker = :worker, until = :until, claims = claims + 1
    WHERE run = ({_NEXT}) RETURNING {_CLAIMED}"""


class SqlQueue(TableStore):
    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._was_empty = True  # when it was claimed from last

    async def enqueue(self, run: QueuedRun, most: int, per_owner: int | None = None) -> None:
        def add(db: Sql) -> None:
            question = "SELECT count(*), count(CASE WHEN owner = ? THEN 1 END) FROM queued_run WHERE worker = ''"
            waiting, own = db.execute(question, (run.owner,)).fetchone()
            if not may_have(own, waiting, most, per_owner):
                whose = "" if waiting >= most else " of yours"
                number = most if waiting >= most else own
                raise QueueFull(f"{number} runs{whose} wait already, and no more are allowed; try again later")
            row = (run.run, run.owner, run.session, run.at)
            db.execute("INSERT INTO queued_run (run, owner, session, at) VALUES (?, ?, ?, ?)", row)

        try:
            await self._tables.write(add, _ALONE)
        except Duplicate as error:
            raise WriteConflict(f"the run '{run.run}' is queued already") from error

    async def claim(self, worker: str, limits: QueueLimits, now: float, until: float) -> ClaimedRun | None:
        values = {
            "worker": worker,
            "until": until,
            "now": now,
            "total": limits.total,
            "per_owner": limits.per_owner,
            "per_session": limits.per_session,
        }

        def is_there(db: Sql) -> bool:
            return db.execute(_NEXT, values).fetchone() is not None

        def take(db: Sql) -> ClaimedRun | None:
            row = db.execute(_CLAIM, values).fetchone()
            return None if row is None else _claimed_run(row)

        # Looking is nearly always all there is to do, and stops no writer.
        if not self._tables.is_there or (self._was_empty and not await self._tables.read(is_there)):
            return None
        claimed = await self._tables.write(take, _ALONE, may_be_lost=True)
        self._was_empty = claimed is None
        return claimed

    async def unclaim(self, run: str, worker: str) -> None:
        """It was not driven: it waits again, as if it had not been claimed."""

        def unclaim(db: Sql) -> None:
            statement = "UPDATE queued_run SET worker = '', until = 0, claims = claims - 1 WHERE run = ? AND worker = ?"
            db.execute(statement, (run, worker))

        await self._tables.write(unclaim, _ALONE, may_be_lost=True)

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        def renew(db: Sql) -> list[ClaimedRun]:
            statement = f"UPDATE queued_run SET until = ? WHERE worker = ? RETURNING id, {_CLAIMED}"
            return [_claimed_run(row) for _, *row in sorted(db.execute(statement, (until, worker)).fetchall())]

        return await self._tables.write(renew, may_be_lost=True) if self._tables.is_there else []

    async def cancel(self, run: str, now: float, worker: str = "") -> bool:
        def cancel(db: Sql) -> bool:
            free = "run = ? AND (until <= ? OR worker = ?)"
            if db.execute(f"DELETE FROM queued_run WHERE {free}", (run, now, worker)).rowcount:
                return True
            if not worker:
                db.execute("UPDATE queued_run SET cancelled = 1 WHERE run = ?", (run,))
            return False

        return await self._tables.write(cancel, _ALONE, may_be_lost=True) if self._tables.is_there else False

    async def list(self, now: float, owner: str | None = None) -> list[QueueEntry]:
        question = """SELECT run, owner, session, at, position, claims FROM (
                SELECT id, run, owner, session, at, claims, CASE WHEN until <= :now
                    THEN count(*) FILTER (WHERE until <= :now) OVER (ORDER BY id) - 1 END AS position FROM queued_run
            ) AS entry WHERE CAST(:owner AS TEXT) IS NULL OR owner = :owner ORDER BY id"""
        return [QueueEntry(*row) for row in await self._rows(question, {"now": now, "owner": owner})]


def _claimed_run(row: Sequence[Any]) -> ClaimedRun:
    run, claims, cancelled = row
    return ClaimedRun(run, claims, bool(cancelled))
