"""Containers that clients made: what is known of each."""

from __future__ import annotations

import msgspec

from ronda.core.containers import StoredContainer
from ronda.store.sql import TableStore

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
        rows = await self._rows("SELECT body FROM container WHERE owner = ? AND session = ?", (owner, session))
        return _decode(rows[0][0]) if rows else None

    async def of(self, owner: str) -> list[StoredContainer]:
        """In the order they were made."""
        rows = await self._rows("SELECT body FROM container WHERE owner = ? ORDER BY created, session", (owner,))
        return [_decode(body) for (body,) in rows]

    async def expiring(self) -> list[tuple[str, StoredContainer]]:
        """Those of all owners that are to go after some time without use, each with its owner."""
        rows = await self._rows("SELECT owner, body FROM container")
        found = [(owner, _decode(body)) for owner, body in rows]
        return [(owner, container) for owner, container in found if container.minutes is not None]

    async def delete(self, owner: str, session: str) -> bool:
        return await self._change("DELETE FROM container WHERE owner = ? AND session = ?", (owner, session))
