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
# All that waits, each with how many go before it: in its session, of its owner, and of all, driven ones included. So one
# statement finds those that would be claimed one after another: where a limit leaves one out, the next has no room either.
_NEXT: Final = """WITH driven AS (
        SELECT owner, session, count(*) AS runs FROM queued_run WHERE worker <> '' AND until > :now GROUP BY owner, session
    ), busy AS (SELECT owner, sum(runs) AS runs FROM driven GROUP BY owner),
    in_session AS (
        SELECT one.id, one.run, one.owner, coalesce(driven.runs, 0)
            + row_number() OVER (PARTITION BY one.owner, one.session ORDER BY one.id) - 1 AS before_it
        FROM queued_run AS one LEFT JOIN driven ON driven.owner = one.owner AND driven.session = one.session
        WHERE one.until <= :now{but}
    ), of_owner AS (
        SELECT id, run, coalesce(busy.runs, 0)
            + row_number() OVER (PARTITION BY in_session.owner ORDER BY id) - 1 AS before_it
        FROM in_session LEFT JOIN busy ON busy.owner = in_session.owner WHERE before_it < :per_session
    ), of_all AS (
        SELECT run, before_it AS own, row_number() OVER (ORDER BY before_it, id) - 1
            + coalesce((SELECT sum(runs) FROM busy), 0) AS taken
        FROM of_owner
    )
    SELECT run FROM of_all
    WHERE taken < :total AND own < coalesce(CAST(:per_owner AS INTEGER), :total - taken) ORDER BY taken LIMIT :most"""
_CLAIMED: Final = "run, claims, cancelled"
_CLAIM: Final = f"""UPDATE queued_run SET worker = :worker, until = :until, claims = claims + 1
    WHERE run IN ({_NEXT}) RETURNING id, {_CLAIMED}"""


class SqlQueue(TableStore):
    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._was_empty = True  # when it was claimed from last

    async def enqueue(self, run: QueuedRun, limit: int, per_owner: int | None = None) -> None:
        def add(db: Sql) -> None:
            question = "SELECT count(*), count(CASE WHEN owner = ? THEN 1 END) FROM queued_run WHERE worker = ''"
            waiting, own = db.execute(question, (run.owner,)).fetchone()
            if not may_have(own, waiting, limit, per_owner):
                whose = "" if waiting >= limit else " of yours"
                number = limit if waiting >= limit else own
                raise QueueFull(f"{number} runs{whose} wait already, and no more are allowed; try again later")
            row = (run.run, run.owner, run.session, run.at)
            db.execute("INSERT INTO queued_run (run, owner, session, at) VALUES (?, ?, ?, ?)", row)

        try:
            await self._tables.write(add, _ALONE)
        except Duplicate as error:
            raise WriteConflict(f"the run '{run.run}' is queued already") from error

    async def claim(
        self, worker: str, limits: QueueLimits, now: float, until: float, limit: int = 1, *, but: Sequence[str] = ()
    ) -> list[ClaimedRun]:
        others = {f"but_{number}": run for number, run in enumerate(but)}
        without = f" AND one.run NOT IN ({', '.join([f':{name}' for name in others])})" if others else ""
        values = {
            "worker": worker,
            "until": until,
            "now": now,
            "total": limits.total,
            "per_owner": limits.per_owner,
            "per_session": limits.per_session,
            "most": limit,
            **others,
        }

        def is_there(db: Sql) -> bool:
            return db.execute(_NEXT.format(but=without), values).fetchone() is not None

        def take(db: Sql) -> list[ClaimedRun]:
            return _claimed_runs(db.execute(_CLAIM.format(but=without), values).fetchall())

        # Looking is nearly always all there is to do, and stops no writer.
        if not self._tables.is_there or (self._was_empty and not await self._tables.read(is_there)):
            return []
        claimed = await self._tables.write(take, _ALONE, may_be_lost=True)
        self._was_empty = not claimed
        return claimed

    async def unclaim(self, run: str, worker: str) -> None:
        def unclaim(db: Sql) -> None:
            statement = "UPDATE queued_run SET worker = '', until = 0, claims = claims - 1 WHERE run = ? AND worker = ?"
            db.execute(statement, (run, worker))

        await self._tables.write(unclaim, _ALONE, may_be_lost=True)

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        def renew(db: Sql) -> list[ClaimedRun]:
            statement = f"UPDATE queued_run SET until = ? WHERE worker = ? RETURNING id, {_CLAIMED}"
            return _claimed_runs(db.execute(statement, (until, worker)).fetchall())

        return await self._tables.write(renew, may_be_lost=True) if self._tables.is_there else []

    async def cancel(self, run: str, now: float) -> bool:
        def cancel(db: Sql) -> bool:
            if db.execute("DELETE FROM queued_run WHERE run = ? AND until <= ?", (run, now)).rowcount:
                return True
            db.execute("UPDATE queued_run SET cancelled = 1 WHERE run = ?", (run,))
            return False

        return await self._tables.write(cancel, _ALONE, may_be_lost=True) if self._tables.is_there else False

    async def finish(self, runs: Sequence[str], now: float, worker: str) -> list[str]:
        def finish(db: Sql) -> list[str]:
            places = ", ".join("?" * len(runs))
            statement = f"DELETE FROM queued_run WHERE run IN ({places}) AND (until <= ? OR worker = ?) RETURNING run"
            return [run for (run,) in db.execute(statement, (*runs, now, worker)).fetchall()]

        # Without the lock: this makes room, so a process that counts meanwhile finds less room than there is.
        return await self._tables.write(finish, may_be_lost=True) if self._tables.is_there else []

    async def list(self, now: float, owner: str | None = None) -> list[QueueEntry]:
        question = """SELECT run, owner, session, at, position, claims FROM (
                SELECT id, run, owner, session, at, claims, CASE WHEN until <= :now
                    THEN count(*) FILTER (WHERE until <= :now) OVER (ORDER BY id) - 1 END AS position FROM queued_run
            ) AS entry WHERE CAST(:owner AS TEXT) IS NULL OR owner = :owner ORDER BY id"""
        return [QueueEntry(*row) for row in await self._rows(question, {"now": now, "owner": owner})]


def _claimed_runs(rows: Sequence[tuple[Any, ...]]) -> list[ClaimedRun]:
    """In the order in which they came; each row begins with its number."""
    return [ClaimedRun(run, claims, bool(cancelled)) for _, run, claims, cancelled in sorted(rows)]
