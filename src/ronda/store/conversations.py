"""Conversations that clients began: what each is about, and which runs make it up. What was said is in the journal alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Raw, Struct

from ronda.errors import RondaError
from ronda.store.catalog import Catalog


class Taken(RondaError):
    """Somebody else has written this place of the conversation."""

    status_hint = 409


class ConversationRow(Struct, frozen=True):
    id: str
    created: float
    updated: float
    body: Raw


class RunRow(Struct, frozen=True):
    """A run of a conversation; `upto` is how many of its entries belong to it, where that is not all of them."""

    run: str
    upto: int | None = None


class Conversations:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def create(self, owner: str, id: str, body: bytes, now: float, runs: Sequence[RunRow] = ()) -> None:
        with self._catalog.writing() as db:
            db.execute("INSERT INTO conversation VALUES (?, ?, ?, ?, ?)", (id, owner, now, now, body))
            db.executemany(
                "INSERT INTO conversation_run VALUES (?, ?, ?, ?)",
                [(id, position, row.run, row.upto) for position, row in enumerate(runs)],
            )

    def find(self, owner: str, id: str) -> ConversationRow | None:
        found = self._catalog.rows(
            "SELECT id, created, updated, body FROM conversation WHERE id = ? AND owner = ?", id, owner
        )
        return _row(found[0]) if found else None

    def of(self, owner: str) -> list[ConversationRow]:
        found = self._catalog.rows(
            "SELECT id, created, updated, body FROM conversation WHERE owner = ? ORDER BY created, rowid", owner
        )
        return [_row(row) for row in found]

    def runs(self, id: str) -> list[RunRow]:
        found = self._catalog.rows(
            "SELECT run, upto FROM conversation_run WHERE conversation = ? ORDER BY position", id
        )
        return [RunRow(*row) for row in found]

    def add_run(self, id: str, position: int, run: str, now: float) -> None:
        """`position` is how many runs there were when the new one was made: if there are more by now, it must not count."""
        try:
            with self._catalog.writing() as db:
                db.execute("INSERT INTO conversation_run VALUES (?, ?, ?, NULL)", (id, position, run))
                db.execute("UPDATE conversation SET updated = ? WHERE id = ?", (now, id))
        except sqlite3.IntegrityError as error:
            raise Taken(f"the conversation '{id}' went on, or ended, while this request was read; try again") from error

    def delete(self, id: str) -> None:
        with self._catalog.writing() as db:
            db.execute("DELETE FROM conversation WHERE id = ?", (id,))


def _row(row: tuple[str, float, float, bytes]) -> ConversationRow:
    id, created, updated, body = row
    return ConversationRow(id, created, updated, Raw(body))
