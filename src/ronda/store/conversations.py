"""Conversations that clients began: what each is about, and which runs make it up. What was said is in the journal only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Raw, Struct

from ronda.store import WriteConflict
from ronda.store.sql import Duplicate, Sql, Tables, TableStore

_NOTE: Final = """INSERT INTO conversation_agent (conversation, run, agent)
    SELECT id, ?, ? FROM conversation WHERE id = ?
    ON CONFLICT (conversation) DO UPDATE SET run = excluded.run, agent = excluded.agent"""
_NO_POSITION: Final = 2**31 - 1  # the largest INTEGER of PostgreSQL


class ConversationRow(Struct, frozen=True):
    id: str
    created: float
    updated: float
    body: Raw


class RunRow(Struct, frozen=True):
    """A run of a conversation; `upto` is how many of its entries belong to it, where that is not all of them."""

    run: str
    upto: int | None = None


class Conversations(TableStore):
    """A conversation is known by its owner and its id."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.rewrite: Callable[[bytes], bytes] | None = None  # what becomes of words in a body before it is kept

    async def create(
        self,
        owner: str,
        conversation_id: str,
        body: bytes,
        now: float,
        runs: Sequence[RunRow] = (),
        agent: str | None = None,
    ) -> None:
        """`agent`: whom the last of these runs leaves it with, however it ends; None: that is not known yet."""
        body = body if self.rewrite is None else self.rewrite(body)

        def create(db: Sql) -> None:
            db.execute(
                "INSERT INTO conversation (id, owner, created, updated, body) VALUES (?, ?, ?, ?, ?)",
                (conversation_id, owner, now, now, body),
            )
            db.executemany(
                "INSERT INTO conversation_run (conversation, position, run, upto) VALUES (?, ?, ?, ?)",
                [(conversation_id, position, row.run, row.upto) for position, row in enumerate(runs)],
            )
            if agent is not None and runs:
                db.execute(_NOTE, (runs[-1].run, agent, conversation_id))

        try:
            await self._tables.write(create)
        except Duplicate as error:
            raise WriteConflict(f"there is a conversation '{conversation_id}' already") from error

    async def find(self, owner: str, conversation_id: str) -> ConversationRow | None:
        question = "SELECT id, created, updated, body FROM conversation WHERE id = ? AND owner = ?"
        rows = await self._rows(question, (conversation_id, owner))
        return _row(rows[0]) if rows else None

    async def of(self, owner: str) -> list[ConversationRow]:
        """All of an owner's, in the order they were begun."""
        question = "SELECT id, created, updated, body FROM conversation WHERE owner = ? ORDER BY created, rowid"
        return [_row(row) for row in await self._rows(question, (owner,))]

    async def runs(self, owner: str, conversation_id: str) -> list[RunRow]:
        question = """SELECT run, upto FROM conversation_run JOIN conversation ON conversation.id = conversation
            WHERE conversation = ? AND owner = ? ORDER BY position"""
        return [RunRow(*row) for row in await self._rows(question, (conversation_id, owner))]

    async def last_runs(
        self, owner: str, conversation_id: str, before: int | None = None, limit: int = 1
    ) -> list[tuple[int, RunRow]]:
        """The last ones before a position, the last first, each with its position: those count from 0 without a gap."""
        question = """SELECT position, run, upto FROM conversation_run JOIN conversation ON conversation.id = conversation
            WHERE conversation = ? AND owner = ? AND position < ? ORDER BY position DESC LIMIT ?"""
        found = await self._rows(question, (conversation_id, owner, _NO_POSITION if before is None else before, limit))
        return [(position, RunRow(run, upto)) for position, run, upto in found]

    async def agents(self, owner: str) -> dict[str, str]:
        """Which agent each of an owner's conversations is with, as it was noted since its last run."""
        question = """SELECT noted.conversation, noted.agent FROM conversation_agent AS noted
            JOIN conversation ON conversation.id = noted.conversation WHERE owner = ? AND noted.run = (
                SELECT run FROM conversation_run AS one WHERE one.conversation = noted.conversation
                ORDER BY position DESC LIMIT 1
            )"""
        return dict(await self._rows(question, (owner,)))

    async def note_agents(self, noted: Sequence[tuple[str, str, str]]) -> None:
        """Of conversations that are there: each, its last run, which is over, and the agent that this one leaves it with."""
        rows = [(run, agent, conversation_id) for conversation_id, run, agent in noted]
        await self._tables.write(lambda db: db.executemany(_NOTE, rows))

    async def add_run(
        self, owner: str, conversation_id: str, position: int, run: str, now: float, agent: str | None = None
    ) -> None:
        """`position` is how many runs there were when the new one was made; `agent` as in `create`. Raises WriteConflict if there
        are more by now, or if the conversation was deleted: then the new one must not count."""

        def add(db: Sql) -> None:
            changed = db.execute(
                "UPDATE conversation SET updated = ? WHERE id = ? AND owner = ?", (now, conversation_id, owner)
            )
            (last,) = db.execute(
                "SELECT max(position) FROM conversation_run WHERE conversation = ?", (conversation_id,)
            ).fetchone()
            if not changed.rowcount or position != (0 if last is None else last + 1):
                raise WriteConflict(
                    f"the conversation '{conversation_id}' went on, or ended, while this request was read; try again"
                )
            db.execute(
                "INSERT INTO conversation_run (conversation, position, run, upto) VALUES (?, ?, ?, NULL)",
                (conversation_id, position, run),
            )
            if agent is not None:
                db.execute(_NOTE, (run, agent, conversation_id))

        await self._tables.write(add, f"conversation {conversation_id}")

    async def delete(self, owner: str, conversation_id: str) -> bool:
        return await self._change("DELETE FROM conversation WHERE id = ? AND owner = ?", (conversation_id, owner))


def _row(row: tuple[str, float, float, bytes]) -> ConversationRow:
    conversation_id, created, updated, body = row
    return ConversationRow(conversation_id, created, updated, Raw(body))
