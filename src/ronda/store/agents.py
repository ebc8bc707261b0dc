"""Agents that clients made, with all their versions and the aliases of those. A version's body is JSON that only others read."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from ronda.store import WriteConflict
from ronda.store.sql import Duplicate, Sql, TableStore

_DIGITS = 18  # a number of more of them is none of a version, and may be none that can be read


class AgentRow(Struct, frozen=True):
    """One version of an agent; `current` is the one that is used where no version is named."""

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


_COLUMNS: Final = "id, version, deployment_chat, created, updated"


class Agents(TableStore):
    """An agent is known by its owner and its id. What is said of one that is not there changes nothing, and is told so."""

    async def create(self, owner: str, agent_id: str, body: bytes, now: float) -> None:
        def create(db: Sql) -> None:
            db.execute(
                """INSERT INTO agent (id, owner, version, deployment_chat, created, updated)
                    VALUES (?, ?, 0, 0, ?, ?)""",
                (agent_id, owner, now, now),
            )
            db.execute(
                "INSERT INTO agent_version (agent, version, created, body) VALUES (?, 0, ?, ?)", (agent_id, now, body)
            )

        try:
            await self._tables.write(create)
        except Duplicate as error:
            raise WriteConflict(f"there is an agent '{agent_id}' already") from error

    async def find(self, owner: str, agent_id: str, version: int | str | None = None) -> AgentRow | None:
        """`version` is a number or an alias; None for the current one."""

        def find(db: Sql) -> AgentRow | None:
            row = db.execute(f"SELECT {_COLUMNS} FROM agent WHERE id = ? AND owner = ?", (agent_id, owner)).fetchone()
            return None if row is None else _with_body(db, row, version)

        return await self._tables.read(find)

    async def of(self, owner: str) -> list[AgentRow]:
        """All of an owner's, in the order they were made."""

        def find_all(db: Sql) -> list[AgentRow]:
            question = f"SELECT {_COLUMNS} FROM agent WHERE owner = ? ORDER BY created, rowid"
            rows = [_with_body(db, row, None) for row in db.execute(question, (owner,)).fetchall()]
            return [row for row in rows if row is not None]

        return await self._tables.read(find_all)

    async def update(self, owner: str, agent_id: str, body: bytes, deployment_chat: bool, now: float) -> bool:
        """Add a version and make it the current one."""

        def update(db: Sql) -> bool:
            if not _is_there(db, owner, agent_id):
                return False
            (last,) = db.execute("SELECT max(version) FROM agent_version WHERE agent = ?", (agent_id,)).fetchone()
            db.execute(
                "INSERT INTO agent_version (agent, version, created, body) VALUES (?, ?, ?, ?)",
                (agent_id, last + 1, now, body),
            )
            db.execute(
                "UPDATE agent SET version = ?, deployment_chat = ?, updated = ? WHERE id = ?",
                (last + 1, int(deployment_chat), now, agent_id),
            )
            return True

        return await self._tables.write(update, f"agent {agent_id}")

    async def switch(self, owner: str, agent_id: str, version: int, now: float) -> bool:
        def switch(db: Sql) -> bool:
            if not _has_version(db, owner, agent_id, version):
                return False
            db.execute("UPDATE agent SET version = ?, updated = ? WHERE id = ?", (version, now, agent_id))
            return True

        return await self._tables.write(switch, f"agent {agent_id}")

    async def delete(self, owner: str, agent_id: str) -> bool:
        return await self._change(
            "DELETE FROM agent WHERE id = ? AND owner = ?", (agent_id, owner), f"agent {agent_id}"
        )

    async def aliases(self, owner: str, agent_id: str) -> list[AliasRow]:
        question = """SELECT alias, agent_alias.version, agent_alias.created, agent_alias.updated
            FROM agent_alias JOIN agent ON agent.id = agent_alias.agent
            WHERE agent = ? AND owner = ? ORDER BY agent_alias.created, alias"""
        return [AliasRow(*row) for row in await self._rows(question, (agent_id, owner))]

    async def set_alias(self, owner: str, agent_id: str, alias: str, version: int, now: float) -> AliasRow | None:
        def set_alias(db: Sql) -> AliasRow | None:
            if not _has_version(db, owner, agent_id, version):
                return None
            db.execute(
                """INSERT INTO agent_alias (agent, alias, version, created, updated)
                    VALUES (:agent, :alias, :version, :now, :now)
                ON CONFLICT (agent, alias) DO UPDATE SET version = :version, updated = :now""",
                {"agent": agent_id, "alias": alias, "version": version, "now": now},
            )
            question = "SELECT alias, version, created, updated FROM agent_alias WHERE agent = ? AND alias = ?"
            return AliasRow(*db.execute(question, (agent_id, alias)).fetchone())

        return await self._tables.write(set_alias, f"agent {agent_id}")

    async def delete_alias(self, owner: str, agent_id: str, alias: str) -> bool:
        def delete(db: Sql) -> bool:
            is_there = _is_there(db, owner, agent_id)
            statement = "DELETE FROM agent_alias WHERE agent = ? AND alias = ?"
            return is_there and db.execute(statement, (agent_id, alias)).rowcount > 0

        return await self._tables.write(delete, f"agent {agent_id}")


def _is_there(db: Sql, owner: str, agent_id: str) -> bool:
    return db.execute("SELECT 1 FROM agent WHERE id = ? AND owner = ?", (agent_id, owner)).fetchone() is not None


def _has_version(db: Sql, owner: str, agent_id: str, version: int) -> bool:
    question = "SELECT 1 FROM agent_version WHERE agent = ? AND version = ?"
    return _is_there(db, owner, agent_id) and db.execute(question, (agent_id, version)).fetchone() is not None


def _with_body(db: Sql, row: tuple[str, int, int, float, float], version: int | str | None) -> AgentRow | None:
    agent_id, current, chat, created, updated = row
    number = current if version is None else _number(db, agent_id, version)
    found = db.execute("SELECT body FROM agent_version WHERE agent = ? AND version = ?", (agent_id, number)).fetchone()
    if found is None:
        return None
    versions = db.execute("SELECT version FROM agent_version WHERE agent = ? ORDER BY version", (agent_id,)).fetchall()
    numbers = tuple([one for (one,) in versions])
    return AgentRow(agent_id, number, current, numbers, bool(chat), created, updated, Raw(found[0]))


def _number(db: Sql, agent_id: str, version: int | str) -> int:
    if isinstance(version, int):
        return version
    if (number := _number_in(version)) is not None:
        return number
    found = db.execute("SELECT version FROM agent_alias WHERE agent = ? AND alias = ?", (agent_id, version)).fetchone()
    return -1 if found is None else int(found[0])


def _number_in(version: str) -> int | None:
    """A version's number where it is said as text; None for an alias."""
    if not version.isdecimal():
        return None
    return int(version) if len(version) <= _DIGITS else -1
