"""Tools that people have approved for a whole session: whose calls are not asked about again there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda.store.sql import Sql, TableStore

LIFETIME: Final = 1800.0  # seconds since a session was last used with what was approved in it: as mistral.rs has it

_PUT: Final = """INSERT INTO approved_tool (owner, session, tool, used) VALUES (?, ?, ?, ?)
    ON CONFLICT (owner, session, tool) DO UPDATE SET used = excluded.used"""
_OF_SESSION: Final = "owner = ? AND session = ?"
_USE: Final = LIFETIME / 30  # what was used so short a time ago need not be noted again


class ApprovedTools(TableStore):
    """What was approved is known by its owner and its session: it is never found where nobody has approved it."""

    async def add(self, owner: str, session: str, tools: Sequence[str], now: float) -> None:
        def add(db: Sql) -> None:
            # Everybody's: so the table stays small.
            db.execute("DELETE FROM approved_tool WHERE used < ?", (now - LIFETIME,))
            db.executemany(_PUT, [(owner, session, tool, now) for tool in tools])

        await self._tables.write(add)

    async def find(self, owner: str, session: str, now: float) -> tuple[str, ...]:
        """By name; none whose time is up. For those that are found it begins anew."""
        question = f"SELECT tool, used FROM approved_tool WHERE {_OF_SESSION} AND used >= ? ORDER BY tool"
        found: list[tuple[str, float]] = await self._rows(question, (owner, session, now - LIFETIME))
        if found and min([used for _, used in found]) < now - _USE:
            change = f"UPDATE approved_tool SET used = ? WHERE {_OF_SESSION} AND used >= ?"
            await self._change(change, (now, owner, session, now - LIFETIME))
        return tuple([tool for tool, _ in found])

    async def forget(self, owner: str, session: str) -> None:
        await self._change(f"DELETE FROM approved_tool WHERE {_OF_SESSION}", (owner, session))
