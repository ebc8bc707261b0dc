"""Skills that clients made: what is known of each."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import structs

from ronda.core.skills import StoredSkill
from ronda.store import WriteConflict
from ronda.store.sql import Duplicate, TableStore

_INSERT: Final = "INSERT INTO skill (id, owner, created, revision, body) VALUES (?, ?, ?, ?, ?)"
_decode = msgspec.json.Decoder(StoredSkill).decode


class Skills(TableStore):
    """A skill is known by its owner and its id."""

    async def create(self, owner: str, skill: StoredSkill) -> None:
        """Raises WriteConflict for an id that is taken."""
        row = (skill.id, owner, skill.created, skill.revision, msgspec.json.encode(skill))
        try:
            await self._tables.write(lambda db: db.execute(_INSERT, row))
        except Duplicate as error:
            raise WriteConflict(f"there is a skill '{skill.id}' already") from error

    async def find(self, owner: str, skill_id: str) -> StoredSkill | None:
        rows = await self._rows("SELECT body FROM skill WHERE id = ? AND owner = ?", (skill_id, owner))
        return _decode(rows[0][0]) if rows else None

    async def of(self, owner: str) -> list[StoredSkill]:
        """In the order they were made."""
        rows = await self._rows("SELECT body FROM skill WHERE owner = ? ORDER BY created, rowid", (owner,))
        return [_decode(body) for (body,) in rows]

    async def replace(self, owner: str, skill: StoredSkill) -> bool:
        """False if it was changed or deleted since `skill` was read: its `revision` says which one that was."""
        new = structs.replace(skill, revision=skill.revision + 1)
        values = (new.revision, msgspec.json.encode(new), skill.id, owner, skill.revision)
        statement = "UPDATE skill SET revision = ?, body = ? WHERE id = ? AND owner = ? AND revision = ?"
        return await self._change(statement, values)

    async def delete(self, owner: str, skill_id: str) -> bool:
        return await self._change("DELETE FROM skill WHERE id = ? AND owner = ?", (skill_id, owner))
