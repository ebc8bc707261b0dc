"""Tools that people have approved for a whole session: whose calls are not asked about again there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

LIFETIME: Final = 1800.0  # seconds since a session was last used with what was approved in it: as mistral.rs has it


class ApprovedTools(Protocol):
    """What was approved is known by its owner and its session: it is never found where nobody has approved it."""

    async def add(self, owner: str, session: str, tools: Sequence[str], now: float) -> None: ...

    async def find(self, owner: str, session: str, now: float) -> tuple[str, ...]:
        """By name; none whose time is up. For those that are found it begins anew."""

    async def forget(self, owner: str, session: str) -> None: ...
