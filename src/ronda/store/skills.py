"""Skills that clients made: what is known of each."""

from __future__ import annotations

import msgspec
from msgspec import structs

from ronda.core.skills import StoredSkill
from ronda.store import WriteConflict
from ronda.store.sql import Duplicate, Sql, TableStore

_decode = msgspec.json.Decoder(StoredSkill).decode


class Skills(TableStore):
    """A skill is known by its owner and its id."""

    async def create(self, owner: str, skill: StoredSkill) -> None:
        """Raises WriteConflict for an id that is taken."""
        row = (skill.id, owner, skill.created, skill.revision, msgspec.json.encode(skill))
        try:
            await self._tables.write(lambda db: db.execute("INSERT INTO skill VALUES (?, ?, ?, ?, ?)", row))
        except Duplicate as error:
            raise WriteConflict(f"there is a skill '{skill.id}' already") from error

    async def find(self, owner: str, id: str) -> StoredSkill | None:
        def find(db: Sql) -> StoredSkill | None:
            row = db.execute("SELECT body FROM skill WHERE id = ? AND owner = ?", (id, owner)).fetchone()
            return None if row is None else _decode(row[0])

        return await self._tables.read(find) if self._tables.is_there else None

    async def of(self, owner: str) -> list[StoredSkill]:
        """In the order they were made."""

        def find_all(db: Sql) -> list[StoredSkill]:
            rows = db.execute("SELECT body FROM skill WHERE owner = ? ORDER BY created, rowid", (owner,)).fetchall()
            return [_decode(body) for (body,) in rows]

        return await self._tables.read(find_all) if self._tables.is_there else []

    async def replace(self, owner: str, skill: StoredSkill) -> bool:
        """False if it was changed or deleted since `skill` was read: its `revision` says which one that was."""
        new = structs.replace(skill, revision=skill.revision + 1)
        values = (new.revision, msgspec.json.encode(new), skill.id, owner, skill.revision)

        def replace(db: Sql) -> bool:
            statement = "UPDATE skill SET revision = ?, body = ? WHERE id = ? AND owner = ? AND revision = ?"
            return db.execute(statement, values).rowcount > 0

        return await self._tables.write(replace)

    async def delete(self, owner: str, id: str) -> bool:
        def delete(db: Sql) -> bool:
            return db.execute("DELETE FROM skill WHERE id = ? AND owner = ?", (id, owner)).rowcount > 0

        return await self._tables.write(delete)
