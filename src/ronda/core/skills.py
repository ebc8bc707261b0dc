"""A skill that is kept: what is known of it and of its versions. Its folder is a file among others."""

from __future__ import annotations

from msgspec import Struct


class SkillVersion(Struct, frozen=True):
    number: int
    id: str
    created: float
    name: str
    description: str
    directory: str


class StoredSkill(Struct, frozen=True):
    """`default` is the number of the version that is used where no version is named; `revision` counts changes."""

    id: str
    title: str
    created: float
    updated: float
    default: int
    versions: tuple[SkillVersion, ...]  # the oldest first; at least one
    next_number: int = 2
    revision: int = 0

    @property
    def latest(self) -> SkillVersion:
        return self.versions[-1]

    def version(self, name: str) -> SkillVersion | None:
        """By its number, its id, or `latest`."""
        if name == "latest":
            return self.latest
        return next((one for one in self.versions if name in (str(one.number), one.id)), None)

    @property
    def current(self) -> SkillVersion:
        return self.version(str(self.default)) or self.latest
