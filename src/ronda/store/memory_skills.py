"""Skills of a catalog that forgets with its process."""

from __future__ import annotations

from msgspec import structs

from ronda.core.skills import StoredSkill


class MemorySkills:
    def __init__(self) -> None:
        self._skills: dict[tuple[str, str], StoredSkill] = {}

    async def create(self, owner: str, skill: StoredSkill) -> None:
        self._skills[owner, skill.id] = skill

    async def find(self, owner: str, id: str) -> StoredSkill | None:
        return self._skills.get((owner, id))

    async def of(self, owner: str) -> list[StoredSkill]:
        return [skill for (whose, _), skill in self._skills.items() if whose == owner]

    async def replace(self, owner: str, skill: StoredSkill) -> bool:
        there = self._skills.get((owner, skill.id))
        if there is None or there.revision != skill.revision:
            return False
        self._skills[owner, skill.id] = structs.replace(skill, revision=skill.revision + 1)
        return True

    async def delete(self, owner: str, id: str) -> bool:
        return self._skills.pop((owner, id), None) is not None
