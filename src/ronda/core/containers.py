"""A container that a client made: a session under a name, with what code finds in it. Its files are those of the session."""

from __future__ import annotations

from msgspec import Struct

from ronda.core.supplies import NO_LIMITS, CodeLimits, SkillMount


class StoredContainer(Struct, frozen=True, omit_defaults=True):
    """`active` is when it was last used; so many `minutes` later it is gone. None: as any session."""

    session: str
    name: str
    created: float
    active: float
    minutes: int | None = None
    skills: tuple[SkillMount, ...] = ()
    limits: CodeLimits = NO_LIMITS

    def is_over(self, now: float) -> bool:
        return self.minutes is not None and now >= self.active + self.minutes * 60
