"""Which rows of a catalog are an owner's: to be read for an export, and to be deleted. And what stands for an owner's name.

Every table is either among the `OwnerRows` of the core or of a feature (`Feature.owned`), or holds nothing of an owner. A test
looks at all tables that there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.store.sql import Sql


class OwnerRows(Struct, frozen=True):
    """Rows of one table. `where` chooses an owner's by `:owner`; `secrets` are columns that no export has, such as hashes of
    keys. A table that refers to another stands before it: rows are deleted in this order."""

    table: str
    where: str = "owner = :owner"
    secrets: tuple[str, ...] = ()


_AGENTS: Final = "IN (SELECT id FROM agent WHERE owner = :owner)"
_CONVERSATIONS: Final = "IN (SELECT id FROM conversation WHERE owner = :owner)"

OWNER_ROWS: Final = (
    OwnerRows("agent_version", f"agent {_AGENTS}"),
    OwnerRows("agent_alias", f"agent {_AGENTS}"),
    OwnerRows("agent"),
    OwnerRows("conversation_run", f"conversation {_CONVERSATIONS}"),
    OwnerRows("conversation_agent", f"conversation {_CONVERSATIONS}"),
    OwnerRows("conversation"),
    OwnerRows("session_node", "session IN (SELECT id FROM session WHERE owner = :owner)"),
    OwnerRows("session"),
    OwnerRows("session_lease"),
    OwnerRows("file"),
    OwnerRows("skill"),
    OwnerRows("container"),
    OwnerRows("queued_run"),
    OwnerRows("approved_tool"),
    OwnerRows("approved_send"),
    OwnerRows("mark"),
    OwnerRows("audit"),
    OwnerRows("sign_in", "key IN (SELECT id FROM key WHERE owner = :owner)", secrets=("hash", "previous")),
    OwnerRows("key", secrets=("hash",)),
)

# What is not an owner's: secrets of the server itself, versions of tables, and what processes tell each other for a moment.
SHARED_TABLES: Final = frozenset(
    ["secret", "prune_clock", "feature_version", "ronda_version", "claim", "process", "letter", "sqlite_sequence"]
)


@lru_cache(1000)
def owner_mark(owner: str) -> str:
    """Stands for an owner where processes tell each other of runs: short, and no name."""
    return blake2b(owner.encode(errors="surrogatepass"), digest_size=6, person=b"owner").hexdigest()


def table_names(db: Sql) -> set[str]:
    if isinstance(db, sqlite3.Connection):
        found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    else:
        found = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = ANY(current_schemas(false))").fetchall()
    return {name for (name,) in found}


def _present(db: Sql, rows: Sequence[OwnerRows]) -> list[OwnerRows]:
    """A feature that was never switched on has no tables here."""
    there = table_names(db)
    return [one for one in rows if one.table in there]


def count_rows(db: Sql, rows: Sequence[OwnerRows], owner: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in _present(db, rows):
        (count,) = db.execute(f"SELECT count(*) FROM {one.table} WHERE {one.where}", {"owner": owner}).fetchone()
        if count:
            counts[one.table] = count
    return counts


def read_rows(db: Sql, rows: Sequence[OwnerRows], owner: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for one in _present(db, rows):
        found = db.execute(f"SELECT * FROM {one.table} WHERE {one.where}", {"owner": owner})
        columns = [column[0] for column in found.description]
        shown = [
            {name: _shown(value) for name, value in zip(columns, row, strict=True) if name not in one.secrets}
            for row in found.fetchall()
        ]
        if shown:
            yield one.table, shown


def delete_rows(db: Sql, rows: Sequence[OwnerRows], owner: str) -> dict[str, int]:
    """How many rows of each table are gone."""
    gone: dict[str, int] = {}
    for one in _present(db, rows):
        count = db.execute(f"DELETE FROM {one.table} WHERE {one.where}", {"owner": owner}).rowcount
        if count:
            gone[one.table] = count
    return gone


def _shown(value: Any) -> Any:
    """Bodies are JSON; what is none is base64."""
    if isinstance(value, (bytes, memoryview)):
        try:
            return msgspec.json.decode(bytes(value))
        except (msgspec.DecodeError, UnicodeError):
            return bytes(value)
    return value
