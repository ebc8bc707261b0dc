"""Skills that clients made: what is known of each."""

from __future__ import annotations

from typing import Protocol

from ronda.core.skills import StoredSkill


class Skills(Protocol):
    """A skill is known by its owner and its id."""

    async def create(self, owner: str, skill: StoredSkill) -> None:
        """Raises Taken for an id that is."""

    async def find(self, owner: str, id: str) -> StoredSkill | None: ...

    async def of(self, owner: str) -> list[StoredSkill]:
        """In the order they were made."""

    async def replace(self, owner: str, skill: StoredSkill) -> bool:
        """False if it was changed or deleted since `skill` was read: its `revision` says which one that was."""

    async def delete(self, owner: str, id: str) -> bool: ...
