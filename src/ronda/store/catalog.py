"""What clients made and may come back for, in one SQLite file: the tables of agents and conversations.

Opened with the first use: a server that nobody gives an agent has no such file. What the rows mean is not known here.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ronda.store.sqlite import MEMORY, explain, open_database, transaction

__all__ = ["MEMORY", "Catalog"]

_MIGRATIONS = (
    (
        """CREATE TABLE agent (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, version INTEGER NOT NULL, deployment_chat INTEGER NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL
        )""",
        "CREATE INDEX agent_owner ON agent (owner, created)",
        """CREATE TABLE agent_version (
            agent TEXT NOT NULL REFERENCES agent ON DELETE CASCADE, version INTEGER NOT NULL, created REAL NOT NULL,
            body BLOB NOT NULL, PRIMARY KEY (agent, version)
        ) WITHOUT ROWID""",
        """CREATE TABLE agent_alias (
            agent TEXT NOT NULL REFERENCES agent ON DELETE CASCADE, alias TEXT NOT NULL, version INTEGER NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL, PRIMARY KEY (agent, alias)
        ) WITHOUT ROWID""",
        """CREATE TABLE conversation (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, body BLOB NOT NULL
        )""",
        "CREATE INDEX conversation_owner ON conversation (owner, created)",
        """CREATE TABLE conversation_run (
            conversation TEXT NOT NULL REFERENCES conversation ON DELETE CASCADE, position INTEGER NOT NULL,
            run TEXT NOT NULL, upto INTEGER, PRIMARY KEY (conversation, position)
        ) WITHOUT ROWID""",
    ),
)


# Seconds for which others may hold the file, and with it the event loop: what is written here takes a few milliseconds.
_OPENING = 0.25
_WAIT_LOCKED = 0.03


class Catalog:
    """Keeps things in the file at `path`, or in ":memory:" as long as this object lives."""

    def __init__(self, path: str = MEMORY) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    @property
    def db(self) -> sqlite3.Connection:
        if self._db is None:
            db = open_database(self._path, _MIGRATIONS, kind="ronda catalog", patience=_OPENING)
            db.execute(f"PRAGMA busy_timeout = {_WAIT_LOCKED * 1000:.0f}")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA wal_autocheckpoint = 1000")  # little is written here, so nobody waits for it
            weakref.finalize(self, db.close)
            self._db = db
        return self._db

    def rows(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self.db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise explain(self._path, error) from error

    @contextmanager
    def writing(self, kind: Literal["DEFERRED", "IMMEDIATE"] = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """One transaction. An IntegrityError is the caller's to understand; everything else is the store's."""
        try:
            with transaction(self.db, kind):
                yield self.db
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise explain(self._path, error) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
