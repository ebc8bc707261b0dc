"""Conversations that clients began: what each is about, and which runs make it up. What was said is in the journal alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Raw, Struct

from ronda.store import WriteConflict


class ConversationRow(Struct, frozen=True):
    id: str
    created: float
    updated: float
    body: Raw


class RunRow(Struct, frozen=True):
    """A run of a conversation; `upto` is how many of its entries belong to it, where that is not all of them."""

    run: str
    upto: int | None = None


class Conversations(Protocol):
    """A conversation is known by its owner and its id."""

    async def create(self, owner: str, id: str, body: bytes, now: float, runs: Sequence[RunRow] = ()) -> None: ...

    async def find(self, owner: str, id: str) -> ConversationRow | None: ...

    async def of(self, owner: str) -> list[ConversationRow]:
        """All of an owner's, in the order they were begun."""

    async def runs(self, owner: str, id: str) -> list[RunRow]: ...

    async def add_run(self, owner: str, id: str, position: int, run: str, now: float) -> None:
        """`position` is how many runs there were when the new one was made. Raises Taken if there are more by now, or if
        the conversation was deleted: then the new one must not count."""

    async def delete(self, owner: str, id: str) -> bool: ...


def went_on(id: str) -> WriteConflict:
    return WriteConflict(f"the conversation '{id}' went on, or ended, while this request was read; try again")
