"""A queue whose runs are workflows of DBOS: it calls for each run in one process, its tools list and cancel them, and after a
crash the run is called for elsewhere.

The order of runs, the limits per owner and session, a full queue and leases have no counterpart in DBOS. They stay in the table
of our own queue, which decides what is claimed next. So processes with this queue and with that one may share a database, and
an operator who changes from one to the other loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from ronda.store import StoreError
from ronda.store.dbos_executor import Executor
from ronda.store.postgres import Database
from ronda.store.postgres_catalog import PostgresCatalog
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.queue import ClaimedRun, QueuedRun, QueueEntry, QueueLimits
from ronda.store.sql_queue import SqlQueue

_log = logging.getLogger(__name__)


class DbosCatalog(PostgresCatalog):
    def __init__(self, database: Database, presence: PostgresPresence) -> None:
        super().__init__(database, presence)
        self._executor = Executor(database, presence.id)
        self.queue = DbosQueue(SqlQueue(self), self._executor)

    async def close(self) -> None:
        try:
            await self._database.waits.do(self._executor.close)
        finally:
            await super().close()


class DbosQueue:
    def __init__(self, table: SqlQueue, executor: Executor) -> None:
        self._table = table
        self._executor = executor

    async def enqueue(self, run: QueuedRun, limit: int, per_owner: int | None = None) -> None:
        await self._table.enqueue(run, limit, per_owner)
        try:
            await self._executor.add(run.run)
        except StoreError as error:  # it is queued anyway: the process that claims it adds it
            _log.warning("the run %s waits, and DBOS does not show it: %s", run.run, error)

    async def claim(
        self, worker: str, limits: QueueLimits, now: float, until: float, limit: int = 1, *, but: Sequence[str] = ()
    ) -> list[ClaimedRun]:
        found = await self._table.claim(worker, limits, now, until, limit, but=but)
        called: list[ClaimedRun] = []
        try:
            for claimed in found:
                if not claimed.is_cancelled:
                    is_called = await self._executor.call(claimed.run, worker)
                    if is_called is None:
                        break
                    claimed = replace(claimed, is_cancelled=not is_called)
                called.append(claimed)
        finally:
            for left in found[len(called) :]:
                await self._table.unclaim(left.run, worker)
        return called

    async def unclaim(self, run: str, worker: str) -> None:
        try:
            await self._executor.give_back([run])
        except StoreError as error:  # the process that claims it calls it, wherever DBOS has it
            _log.warning("DBOS was not told that the run %s was given back: %s", run, error)
        await self._table.unclaim(run, worker)

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        called = self._executor.called_for(worker)
        problem: StoreError | None = None
        if until == 0.0:
            try:
                await self._executor.give_back(called)
            except StoreError as error:  # the process that claims them calls them, wherever DBOS has them
                problem = error
        renewed = await self._table.renew(worker, until)
        if problem is not None:
            _log.warning("DBOS was not told that runs were given back: %s", problem)
        runs = {claimed.run for claimed in renewed}
        for run in called:
            if run not in runs:
                self._executor.drop(run)
        cancelled = await self._executor.cancelled([run for run in called if run in runs])
        for run in cancelled:
            self._executor.drop(run)
        return [replace(one, is_cancelled=True) if one.run in cancelled else one for one in renewed]

    async def cancel(self, run: str, now: float) -> bool:
        is_off = await self._table.cancel(run, now)
        if is_off:
            await self._show_finished(run)
        return is_off

    async def finish(self, runs: Sequence[str], now: float, worker: str) -> list[str]:
        off = await self._table.finish(runs, now, worker)
        for run in runs:
            if run in off:
                await self._show_finished(run)
            else:
                self._executor.drop(run)
        return off

    async def _show_finished(self, run: str) -> None:
        try:
            await self._executor.finish(run)
        except StoreError as error:  # it is ended later, as one whose process died
            _log.warning("the run %s is off the queue, and DBOS still shows it: %s", run, error)

    async def list(self, now: float, owner: str | None = None) -> list[QueueEntry]:
        return await self._table.list(now, owner)
