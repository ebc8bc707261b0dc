"""Skills in a table of a catalog."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ronda.core.skills import StoredSkill

if TYPE_CHECKING:
    from ronda.store.sqlite_catalog import SqliteCatalog

_decode = msgspec.json.Decoder(StoredSkill).decode


class SqliteSkills:
    def __init__(self, catalog: SqliteCatalog) -> None:
        self._catalog = catalog

    async def create(self, owner: str, skill: StoredSkill) -> None:
        row = (skill.id, owner, skill.created, skill.revision, msgspec.json.encode(skill))
        await self._catalog.write(lambda db: db.execute("INSERT INTO skill VALUES (?, ?, ?, ?, ?)", row))

    async def find(self, owner: str, id: str) -> StoredSkill | None:
        def find(db: sqlite3.Connection) -> StoredSkill | None:
            row = db.execute("SELECT body FROM skill WHERE id = ? AND owner = ?", (id, owner)).fetchone()
            return None if row is None else _decode(row[0])

        return await self._catalog.read(find) if self._catalog.is_there else None

    async def of(self, owner: str) -> list[StoredSkill]:
        def find_all(db: sqlite3.Connection) -> list[StoredSkill]:
            rows = db.execute("SELECT body FROM skill WHERE owner = ? ORDER BY created, rowid", (owner,)).fetchall()
            return [_decode(body) for (body,) in rows]

        return await self._catalog.read(find_all) if self._catalog.is_there else []

    async def replace(self, owner: str, skill: StoredSkill) -> bool:
        new = structs.replace(skill, revision=skill.revision + 1)
        values = (new.revision, msgspec.json.encode(new), skill.id, owner, skill.revision)

        def replace(db: sqlite3.Connection) -> bool:
            statement = "UPDATE skill SET revision = ?, body = ? WHERE id = ? AND owner = ? AND revision = ?"
            return db.execute(statement, values).rowcount > 0

        return await self._catalog.write(replace)

    async def delete(self, owner: str, id: str) -> bool:
        def delete(db: sqlite3.Connection) -> bool:
            return db.execute("DELETE FROM skill WHERE id = ? AND owner = ?", (id, owner)).rowcount > 0

        return await self._catalog.write(delete)
