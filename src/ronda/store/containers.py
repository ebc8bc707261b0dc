"""Containers that clients made: what is known of each."""

from __future__ import annotations

import msgspec

from ronda.core.containers import StoredContainer
from ronda.store.sql import Sql, TableStore

_decode = msgspec.json.Decoder(StoredContainer).decode
_PUT = """INSERT INTO container (owner, session, created, body) VALUES (?, ?, ?, ?)
    ON CONFLICT (owner, session) DO UPDATE SET body = excluded.body"""


class Containers(TableStore):
    """A container is known by its owner and its session."""

    async def put(self, owner: str, container: StoredContainer) -> None:
        """A new one, or in the place of what was known of it."""
        row = (owner, container.session, container.created, msgspec.json.encode(container))
        await self._tables.write(lambda db: db.execute(_PUT, row))

    async def find(self, owner: str, session: str) -> StoredContainer | None:
        def find(db: Sql) -> StoredContainer | None:
            question = "SELECT body FROM container WHERE owner = ? AND session = ?"
            row = db.execute(question, (owner, session)).fetchone()
            return None if row is None else _decode(row[0])

        return await self._tables.read(find) if self._tables.is_there else None

    async def of(self, owner: str) -> list[StoredContainer]:
        """In the order they were made."""

        def find_all(db: Sql) -> list[StoredContainer]:
            question = "SELECT body FROM container WHERE owner = ? ORDER BY created, session"
            return [_decode(body) for (body,) in db.execute(question, (owner,)).fetchall()]

        return await self._tables.read(find_all) if self._tables.is_there else []

    async def expiring(self) -> list[tuple[str, StoredContainer]]:
        """Everybody's that are to go when nobody has used them for some time, each with its owner."""

        def find_all(db: Sql) -> list[tuple[str, StoredContainer]]:
            rows = db.execute("SELECT owner, body FROM container").fetchall()
            found = [(owner, _decode(body)) for owner, body in rows]
            return [(owner, container) for owner, container in found if container.minutes is not None]

        return await self._tables.read(find_all) if self._tables.is_there else []

    async def delete(self, owner: str, session: str) -> bool:
        def delete(db: Sql) -> bool:
            statement = "DELETE FROM container WHERE owner = ? AND session = ?"
            return db.execute(statement, (owner, session)).rowcount > 0

        return await self._tables.write(delete) if self._tables.is_there else False
