"""Sessions in the tables of a catalog."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from ronda.store.sessions import (
    NO_LABELS,
    ROOT,
    Bounds,
    Cursor,
    Lease,
    LeaseAnswer,
    NewNode,
    NodeRow,
    SessionPage,
    SessionRow,
)

if TYPE_CHECKING:
    from ronda.store.sqlite_catalog import SqliteCatalog

SESSION_TABLES: Final = (
    """CREATE TABLE session (
        id INTEGER PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
        head INTEGER NOT NULL, ends INTEGER NOT NULL, size INTEGER NOT NULL, labels BLOB NOT NULL, UNIQUE (owner, name)
    )""",
    "CREATE INDEX session_use ON session (owner, updated, name)",
    "CREATE INDEX session_age ON session (updated)",
    """CREATE TABLE session_node (
        session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE, number INTEGER NOT NULL, parent INTEGER NOT NULL,
        upto INTEGER NOT NULL, count INTEGER NOT NULL, asked INTEGER NOT NULL, run TEXT NOT NULL, created REAL NOT NULL,
        turns BLOB NOT NULL, PRIMARY KEY (session, number)
    )""",
    "CREATE UNIQUE INDEX session_run ON session_node (session, run) WHERE run <> ''",
    """CREATE TABLE session_lease (
        owner TEXT NOT NULL, name TEXT NOT NULL, holder TEXT NOT NULL, run TEXT NOT NULL, until REAL NOT NULL,
        interrupted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (owner, name)
    ) WITHOUT ROWID""",
)

_ROW: Final = "name, created, updated, head, ends, size, labels"
_NODE: Final = "parent, upto, turns, count, asked, run, number, created"
_AT_ONCE: Final = 50  # sessions that one transaction forgets, so that those who write hardly wait


class SqliteSessions:
    def __init__(self, catalog: SqliteCatalog) -> None:
        self._catalog = catalog

    async def find(self, owner: str, name: str) -> SessionRow | None:
        if not self._catalog.is_there:
            return None

        return await self._catalog.read(lambda db: _find(db, owner, name))

    async def page(self, owner: str, limit: int, before: Cursor | None = None) -> SessionPage:
        def find_all(db: sqlite3.Connection) -> SessionPage:
            place, values = ("", ()) if before is None else ("AND (updated, name) < (?, ?)", before)
            rows = db.execute(
                f"SELECT {_ROW} FROM session WHERE owner = ? {place} ORDER BY updated DESC, name DESC LIMIT ?",
                (owner, *values, limit + 1),
            ).fetchall()
            found = [_row(row) for row in rows[:limit]]
            return SessionPage(found, (found[-1].updated, found[-1].name) if len(rows) > limit else None)

        return await self._catalog.read(find_all) if self._catalog.is_there else SessionPage([])

    async def path(self, owner: str, name: str, node: int) -> list[NodeRow]:
        def find_all(db: sqlite3.Connection) -> list[NodeRow]:
            if (session := _key(db, owner, name)) is None:
                return []
            rows = db.execute(
                f"""WITH RECURSIVE path (session, number) AS (
                    SELECT ?, ? UNION ALL
                    SELECT session_node.session, session_node.parent FROM session_node JOIN path USING (session, number)
                ) SELECT {_NODE} FROM path JOIN session_node USING (session, number) ORDER BY number""",
                (session, node),
            )
            return [NodeRow(*row) for row in rows.fetchall()]

        return await self._catalog.read(find_all)

    async def tips(self, owner: str, name: str) -> list[NodeRow]:
        def find_all(db: sqlite3.Connection) -> list[NodeRow]:
            rows = db.execute(
                f"""SELECT {_NODE.replace("turns", "x''")} FROM session_node AS node
                WHERE session = ? AND NOT EXISTS (
                    SELECT 1 FROM session_node AS child WHERE child.session = node.session
                    AND child.parent = node.number AND child.upto = node.upto + node.count
                ) ORDER BY number""",
                (_key(db, owner, name),),
            )
            return [NodeRow(*row) for row in rows.fetchall()]

        return await self._catalog.read(find_all)

    async def node_of(self, owner: str, name: str, run: str) -> int | None:
        return await self._catalog.read(lambda db: _node_of(db, _key(db, owner, name), run))

    async def add(
        self,
        owner: str,
        name: str,
        node: NewNode,
        now: float,
        *,
        stood_at: int | None = None,
        release: Lease | None = None,
    ) -> tuple[int, bool]:
        def add(db: sqlite3.Connection) -> tuple[int, bool]:
            if release is not None:
                _release(db, owner, name, release)
            found = db.execute("SELECT id, head FROM session WHERE owner = ? AND name = ?", (owner, name)).fetchone()
            session, head = (_begin(db, owner, name, NO_LABELS, now), ROOT) if found is None else found
            if node.run and (known := _node_of(db, session, node.run)) is not None:
                return known, head == known
            number = _add_node(db, session, node, now)
            is_head: bool = head == stood_at
            if is_head:
                db.execute("UPDATE session SET head = ?, ends = ? WHERE id = ?", (number, node.ends, session))
            return number, is_head

        return await self._catalog.write(add)

    async def replace(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
        def put(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM session WHERE owner = ? AND name = ?", (owner, name))
            _put(db, owner, name, node, labels, now)

        await self._catalog.write(put)

    async def create(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> bool:
        def put(db: sqlite3.Connection) -> bool:
            if _key(db, owner, name) is not None:
                return False
            _put(db, owner, name, node, labels, now)
            return True

        return await self._catalog.write(put)

    async def change(self, owner: str, name: str, now: float, *, head: int | None, labels: Raw | None) -> bool:
        def change(db: sqlite3.Connection) -> bool:
            if (session := _key(db, owner, name)) is None:
                return False
            if head is not None:
                question = "SELECT upto + count FROM session_node WHERE session = ? AND number = ?"
                ends = (0,) if head == ROOT else db.execute(question, (session, head)).fetchone()
                if ends is None:
                    return False
                db.execute("UPDATE session SET head = ?, ends = ? WHERE id = ?", (head, ends[0], session))
            if labels is not None:
                db.execute("UPDATE session SET labels = ? WHERE id = ?", (bytes(labels), session))
            db.execute("UPDATE session SET updated = ? WHERE id = ?", (now, session))
            return True

        return await self._catalog.write(change)

    async def delete(self, owner: str, name: str) -> bool:
        if not self._catalog.is_there:
            return False

        def delete(db: sqlite3.Connection) -> bool:
            return db.execute("DELETE FROM session WHERE owner = ? AND name = ?", (owner, name)).rowcount > 0

        return await self._catalog.write(delete)

    async def prune(self, bounds: Bounds, now: float) -> int:
        forgotten = 0
        while self._catalog.is_there and (some := await self._catalog.write(lambda db: _prune_some(db, bounds, now))):
            forgotten += some
        return forgotten

    # ---- leases ------------------------------------------------------------------------------------------------------

    async def lease(self, owner: str, name: str, lease: Lease, now: float, dead: str | None = None) -> LeaseAnswer:
        def take(db: sqlite3.Connection) -> LeaseAnswer:
            question = "SELECT holder, run, until FROM session_lease WHERE owner = ? AND name = ?"
            found = db.execute(question, (owner, name)).fetchone()
            other = None if found is None else Lease(*found)
            if other is not None and other.until > now and other.holder != dead:
                return LeaseAnswer(False, other)
            db.execute(
                "INSERT OR REPLACE INTO session_lease VALUES (?, ?, ?, ?, ?, 0)",
                (owner, name, lease.holder, lease.run, lease.until),
            )
            return LeaseAnswer(True, other, _find(db, owner, name))

        return await self._catalog.write(take)

    async def renew(self, holder: str, until: float) -> list[tuple[str, str]]:
        def renew(db: sqlite3.Connection) -> list[tuple[str, str]]:
            db.execute("UPDATE session_lease SET until = ? WHERE holder = ?", (until, holder))
            question = "SELECT owner, name FROM session_lease WHERE holder = ? AND interrupted"
            return db.execute(question, (holder,)).fetchall()

        return await self._catalog.write(renew)

    async def interrupt(self, owner: str, name: str) -> None:
        def interrupt(db: sqlite3.Connection) -> None:
            db.execute("UPDATE session_lease SET interrupted = 1 WHERE owner = ? AND name = ?", (owner, name))

        await self._catalog.write(interrupt)

    async def release(self, owner: str, name: str, lease: Lease) -> None:
        await self._catalog.write(lambda db: _release(db, owner, name, lease))


def _release(db: sqlite3.Connection, owner: str, name: str, lease: Lease) -> None:
    statement = "DELETE FROM session_lease WHERE owner = ? AND name = ? AND holder = ? AND run = ?"
    db.execute(statement, (owner, name, lease.holder, lease.run))


def _row(row: tuple[str, float, float, int, int, int, bytes]) -> SessionRow:
    name, created, updated, head, ends, size, labels = row
    return SessionRow(name, created, updated, head, ends, size, Raw(labels))


def _find(db: sqlite3.Connection, owner: str, name: str) -> SessionRow | None:
    found = db.execute(f"SELECT {_ROW} FROM session WHERE owner = ? AND name = ?", (owner, name)).fetchone()
    return None if found is None else _row(found)


def _key(db: sqlite3.Connection, owner: str, name: str) -> int | None:
    found = db.execute("SELECT id FROM session WHERE owner = ? AND name = ?", (owner, name)).fetchone()
    return None if found is None else found[0]


def _node_of(db: sqlite3.Connection, session: int | None, run: str) -> int | None:
    question = "SELECT number FROM session_node WHERE session = ? AND run = ? AND run <> ''"
    found = db.execute(question, (session, run)).fetchone()
    return None if found is None else found[0]


def _begin(db: sqlite3.Connection, owner: str, name: str, labels: Raw, now: float) -> int:
    key = db.execute(
        "INSERT INTO session (owner, name, created, updated, head, ends, size, labels) VALUES (?, ?, ?, ?, 0, 0, 0, ?)",
        (owner, name, now, now, bytes(labels)),
    ).lastrowid
    assert key is not None
    return key


def _add_node(db: sqlite3.Connection, session: int, node: NewNode, now: float) -> int:
    (last,) = db.execute("SELECT coalesce(max(number), 0) FROM session_node WHERE session = ?", (session,)).fetchone()
    number: int = last + 1
    db.execute(
        "INSERT INTO session_node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session, number, node.parent, node.upto, node.count, node.asked, node.run, now, node.turns),
    )
    db.execute("UPDATE session SET updated = ?, size = size + ? WHERE id = ?", (now, len(node.turns), session))
    return number


def _put(db: sqlite3.Connection, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
    session = _begin(db, owner, name, labels, now)
    number = _add_node(db, session, node, now)
    db.execute("UPDATE session SET head = ?, ends = ? WHERE id = ?", (number, node.ends, session))


def _prune_some(db: sqlite3.Connection, bounds: Bounds, now: float) -> int:
    """The oldest few of those that are beyond the bounds."""
    count, size = db.execute("SELECT count(*), coalesce(sum(size), 0) FROM session").fetchone()
    oldest = db.execute(
        """SELECT id, updated, size FROM session WHERE NOT EXISTS (
            SELECT 1 FROM session_lease AS lease WHERE lease.owner = session.owner AND lease.name = session.name
        ) ORDER BY updated, name LIMIT ?""",
        (_AT_ONCE,),
    ).fetchall()
    gone: list[tuple[int]] = []
    for key, updated, bytes_of in oldest:
        is_old = bounds.max_age is not None and updated < now - bounds.max_age
        are_many = bounds.max_count is not None and count > bounds.max_count
        are_large = bounds.max_bytes is not None and size > bounds.max_bytes
        if not (is_old or are_many or are_large):
            break
        gone.append((key,))
        count, size = count - 1, size - bytes_of
    db.executemany("DELETE FROM session WHERE id = ?", gone)
    db.execute("DELETE FROM session_lease WHERE until < ?", (now - 86400,))  # of sessions that never came to be
    return len(gone)
