"""Agents that clients made, with all their versions and the aliases of those. A version's body is JSON that only others read."""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw, Struct

_DIGITS = 18  # a number of more of them is none of a version, and may be none that can be read


class AgentRow(Struct, frozen=True):
    """One version of an agent; `current` is the one that is used when nobody says which."""

    id: str
    version: int
    current: int
    versions: tuple[int, ...]
    deployment_chat: bool
    created: float
    updated: float
    body: Raw


class AliasRow(Struct, frozen=True):
    alias: str
    version: int
    created: float
    updated: float


class Agents(Protocol):
    """An agent is known by its owner and its id. What is said of one that is not there changes nothing, and is told so."""

    async def create(self, owner: str, id: str, body: bytes, now: float) -> None: ...

    async def find(self, owner: str, id: str, version: int | str | None = None) -> AgentRow | None:
        """`version` is a number or an alias; None for the current one."""

    async def of(self, owner: str) -> list[AgentRow]:
        """All of an owner's, in the order they were made."""

    async def update(self, owner: str, id: str, body: bytes, deployment_chat: bool, now: float) -> bool:
        """Add a version and make it the current one."""

    async def switch(self, owner: str, id: str, version: int, now: float) -> bool: ...

    async def delete(self, owner: str, id: str) -> bool: ...

    async def aliases(self, owner: str, id: str) -> list[AliasRow]: ...

    async def set_alias(self, owner: str, id: str, alias: str, version: int, now: float) -> AliasRow | None: ...

    async def delete_alias(self, owner: str, id: str, alias: str) -> bool: ...


def number_in(version: str) -> int | None:
    """A version's number where it is said as text; None for an alias."""
    if not version.isdecimal():
        return None
    return int(version) if len(version) <= _DIGITS else -1
