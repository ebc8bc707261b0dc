"""Containers that clients made: what is known of each."""

from __future__ import annotations

from typing import Protocol

from ronda.core.containers import StoredContainer


class Containers(Protocol):
    """A container is known by its owner and its session."""

    async def put(self, owner: str, container: StoredContainer) -> None:
        """A new one, or in the place of what was known of it."""

    async def find(self, owner: str, session: str) -> StoredContainer | None: ...

    async def of(self, owner: str) -> list[StoredContainer]:
        """In the order they were made."""

    async def expiring(self) -> list[tuple[str, StoredContainer]]:
        """Everybody's that are to go when nobody has used them for some time, each with its owner."""

    async def delete(self, owner: str, session: str) -> bool: ...
