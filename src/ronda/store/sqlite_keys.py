"""Keys in a table of a catalog."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ronda.store.keys import KeyRow

if TYPE_CHECKING:
    from ronda.store.sqlite_catalog import SqliteCatalog


class SqliteKeys:
    def __init__(self, catalog: SqliteCatalog) -> None:
        self._catalog = catalog

    async def add(self, key: KeyRow) -> None:
        def add(db: sqlite3.Connection) -> None:
            row = (key.id, key.owner, key.hash, key.created, key.revoked)
            db.execute("INSERT INTO key VALUES (?, ?, ?, ?, ?)", row)

        await self._catalog.write(add)

    async def all(self) -> list[KeyRow]:
        def find_all(db: sqlite3.Connection) -> list[KeyRow]:
            rows = db.execute("SELECT id, owner, hash, created, revoked FROM key ORDER BY rowid").fetchall()
            return [KeyRow(*row) for row in rows]

        # A server looks now and then whether there are keys by now. That must not be what makes the file.
        return await self._catalog.read(find_all) if self._catalog.is_there else []

    async def revoke(self, id: str, now: float) -> bool:
        def revoke(db: sqlite3.Connection) -> bool:
            statement = "UPDATE key SET revoked = coalesce(revoked, ?) WHERE id = ?"
            return db.execute(statement, (now, id)).rowcount > 0

        return await self._catalog.write(revoke)
