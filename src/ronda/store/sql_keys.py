"""Keys in a table of a catalog."""

from __future__ import annotations

from ronda.store.keys import KeyRow
from ronda.store.sql import Sql, Tables


class SqlKeys:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, key: KeyRow) -> None:
        def add(db: Sql) -> None:
            row = (key.id, key.owner, key.hash, key.created, key.revoked)
            db.execute("INSERT INTO key VALUES (?, ?, ?, ?, ?)", row)

        await self._tables.write(add)

    async def all(self) -> list[KeyRow]:
        def find_all(db: Sql) -> list[KeyRow]:
            rows = db.execute("SELECT id, owner, hash, created, revoked FROM key ORDER BY rowid").fetchall()
            return [KeyRow(*row) for row in rows]

        # A server looks now and then whether there are keys by now. That must not be what makes the file.
        return await self._tables.read(find_all) if self._tables.is_there else []

    async def revoke(self, id: str, now: float) -> bool:
        def revoke(db: Sql) -> bool:
            statement = "UPDATE key SET revoked = coalesce(revoked, ?) WHERE id = ?"
            return db.execute(statement, (now, id)).rowcount > 0

        return await self._tables.write(revoke)
