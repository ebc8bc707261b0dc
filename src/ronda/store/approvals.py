"""What people have approved for a whole session, and are not asked about again there: tools, and calls that may send data out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda.store.sql import Sql, Tables, TableStore

LIFETIME: Final = 1800.0  # seconds since a session was last used with what was approved in it: as mistral.rs has it

_OF_SESSION: Final = "owner = ? AND session = ?"
_USE: Final = LIFETIME / 30  # what was used so short a time ago need not be noted again


class _Approved(TableStore):
    """What was approved is known by its owner and its session: it is never found where it was not approved."""

    def __init__(self, tables: Tables, table: str, column: str) -> None:
        super().__init__(tables)
        self._table = table
        self._column = column

    async def add(self, owner: str, session: str, approved: Sequence[str], now: float) -> None:
        table, column = self._table, self._column
        put = f"""INSERT INTO {table} (owner, session, {column}, used) VALUES (?, ?, ?, ?)
            ON CONFLICT (owner, session, {column}) DO UPDATE SET used = excluded.used"""

        def add(db: Sql) -> None:
            # Of all owners: so the table stays small.
            db.execute(f"DELETE FROM {table} WHERE used < ?", (now - LIFETIME,))
            db.executemany(put, [(owner, session, one, now) for one in approved])

        await self._tables.write(add)

    async def find(self, owner: str, session: str, now: float) -> tuple[str, ...]:
        """By name; none whose time is up. For those that are found it begins anew."""
        table, column = self._table, self._column
        question = f"SELECT {column}, used FROM {table} WHERE {_OF_SESSION} AND used >= ? ORDER BY {column}"
        found: list[tuple[str, float]] = await self._rows(question, (owner, session, now - LIFETIME))
        if found and min([used for _, used in found]) < now - _USE:
            change = f"UPDATE {table} SET used = ? WHERE {_OF_SESSION} AND used >= ?"
            await self._change(change, (now, owner, session, now - LIFETIME))
        return tuple([one for one, _ in found])

    async def list(self, owner: str, session: str, now: float) -> list[tuple[str, float]]:
        """By name, and until when each holds if it is not used. Looking at them does not make them hold longer."""
        question = f"SELECT {self._column}, used FROM {self._table} WHERE {_OF_SESSION} AND used >= ? ORDER BY 1"
        rows: list[tuple[str, float]] = await self._rows(question, (owner, session, now - LIFETIME))
        return [(name, used + LIFETIME) for name, used in rows]

    async def take_back(self, owner: str, session: str, approved: str) -> bool:
        """Whether it was there."""
        statement = f"DELETE FROM {self._table} WHERE {_OF_SESSION} AND {self._column} = ?"
        return await self._change(statement, (owner, session, approved))

    async def forget(self, owner: str, session: str) -> None:
        await self._change(f"DELETE FROM {self._table} WHERE {_OF_SESSION}", (owner, session))


class ApprovedTools(_Approved):
    """Whose calls may run. With them goes what may send data out (`sends`): calls, by `core.taint.send_key`."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, "approved_tool", "tool")
        self.sends = _Approved(tables, "approved_send", "send")

    async def forget(self, owner: str, session: str) -> None:
        await super().forget(owner, session)
        await self.sends.forget(owner, session)
