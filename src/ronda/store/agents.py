"""Agents that clients made, with all their versions and the aliases of those. A version's body is JSON that only others read."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from ronda.store.catalog import Catalog

_COLUMNS: Final = """agent.id, agent.version, agent.deployment_chat, agent.created, agent.updated,
    (SELECT group_concat(version) FROM (SELECT version FROM agent_version WHERE agent = agent.id ORDER BY version))"""


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


class Agents:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def create(self, owner: str, id: str, body: bytes, now: float) -> None:
        with self._catalog.writing() as db:
            db.execute("INSERT INTO agent VALUES (?, ?, 0, 0, ?, ?)", (id, owner, now, now))
            db.execute("INSERT INTO agent_version VALUES (?, 0, ?, ?)", (id, now, body))

    def find(self, owner: str, id: str, version: int | str | None = None) -> AgentRow | None:
        """`version` is a number or an alias; None for the current one."""
        found = self._catalog.rows(f"SELECT {_COLUMNS} FROM agent WHERE id = ? AND owner = ?", id, owner)
        return self._with_body(found[0], version) if found else None

    def of(self, owner: str) -> list[AgentRow]:
        """All of an owner's, in the order they were made."""
        found = self._catalog.rows(f"SELECT {_COLUMNS} FROM agent WHERE owner = ? ORDER BY created, rowid", owner)
        rows = [self._with_body(row, None) for row in found]
        return [row for row in rows if row is not None]

    def _with_body(self, row: tuple[str, int, int, float, float, str], version: int | str | None) -> AgentRow | None:
        id, current, chat, created, updated, versions = row
        number = current if version is None else self._number(id, version)
        if number is None:
            return None
        bodies = self._catalog.rows("SELECT body FROM agent_version WHERE agent = ? AND version = ?", id, number)
        if not bodies:
            return None
        numbers = tuple([int(one) for one in versions.split(",")])
        return AgentRow(id, number, current, numbers, bool(chat), created, updated, Raw(bodies[0][0]))

    def _number(self, id: str, version: int | str) -> int | None:
        if isinstance(version, int) or version.isdecimal():
            number = int(version)
            return number if number < 2**63 else None
        found = self._catalog.rows("SELECT version FROM agent_alias WHERE agent = ? AND alias = ?", id, version)
        return int(found[0][0]) if found else None

    def update(self, id: str, body: bytes, deployment_chat: bool, now: float) -> None:
        """Add a version and make it the current one."""
        with self._catalog.writing() as db:
            (last,) = db.execute("SELECT max(version) FROM agent_version WHERE agent = ?", (id,)).fetchone()
            db.execute("INSERT INTO agent_version VALUES (?, ?, ?, ?)", (id, last + 1, now, body))
            db.execute(
                "UPDATE agent SET version = ?, deployment_chat = ?, updated = ? WHERE id = ?",
                (last + 1, deployment_chat, now, id),
            )

    def switch(self, id: str, version: int, now: float) -> None:
        with self._catalog.writing() as db:
            db.execute("UPDATE agent SET version = ?, updated = ? WHERE id = ?", (version, now, id))

    def delete(self, id: str) -> None:
        with self._catalog.writing() as db:
            db.execute("DELETE FROM agent WHERE id = ?", (id,))

    def aliases(self, id: str) -> list[AliasRow]:
        found = self._catalog.rows(
            "SELECT alias, version, created, updated FROM agent_alias WHERE agent = ? ORDER BY created, alias", id
        )
        return [AliasRow(*row) for row in found]

    def set_alias(self, id: str, alias: str, version: int, now: float) -> AliasRow:
        with self._catalog.writing() as db:
            db.execute(
                """INSERT INTO agent_alias VALUES (:agent, :alias, :version, :now, :now)
                ON CONFLICT (agent, alias) DO UPDATE SET version = :version, updated = :now""",
                {"agent": id, "alias": alias, "version": version, "now": now},
            )
        return next(row for row in self.aliases(id) if row.alias == alias)

    def delete_alias(self, id: str, alias: str) -> bool:
        with self._catalog.writing() as db:
            return db.execute("DELETE FROM agent_alias WHERE agent = ? AND alias = ?", (id, alias)).rowcount > 0
