"""Sessions that clients name: what was said in each, as a tree, and who may continue one now.

A node is what one run added: the turns it was asked with and those that came of it. It stands behind `upto` turns of its parent's
path, so that a conversation which goes on from an earlier place leaves what followed there as a branch. The path from the root to
the `head` is the session as it stands. What the turns mean is not known here.

A lease lets one run at a time continue a session. It is one holder's (a process), and ends by itself unless it is renewed.
"""

from __future__ import annotations

import time
from typing import Final, Literal

from msgspec import Raw, structs

from ronda.store.prune_clock import PruneClock
from ronda.store.sql import Sql, Tables, TableStore
from ronda.store.values.sessions import (
    NO_LABELS,
    ROOT,
    Bounds,
    Cursor,
    Lease,
    LeaseAnswer,
    NewNode,
    NodeRow,
    Rewrite,
    SessionPage,
    SessionRow,
)

_ROW: Final = "name, created, updated, head, ends, size, labels"
_NODE: Final = "parent, upto, turns, count, asked, run, number, created"
_AT_ONCE: Final = 50  # sessions that one transaction forgets, so that writers hardly wait


class Sessions(TableStore):
    """A session is known by its owner and its name."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._clock = PruneClock("sessions", time.time())
        self.rewrite: Rewrite | None = None  # what becomes of words before they are kept

    async def find(self, owner: str, name: str) -> SessionRow | None:
        if not self._tables.is_there:
            return None

        return await self._tables.read(lambda db: _find(db, owner, name))

    async def page(self, owner: str, limit: int, before: Cursor | None = None) -> SessionPage:
        """An owner's, those that were used last first. `before` is that of the page before."""

        def find_all(db: Sql) -> SessionPage:
            place, values = ("", ()) if before is None else ("AND (updated, name) < (?, ?)", before)
            rows = db.execute(
                f"SELECT {_ROW} FROM session WHERE owner = ? {place} ORDER BY updated DESC, name DESC LIMIT ?",
                (owner, *values, limit + 1),
            ).fetchall()
            found = [_row(row) for row in rows[:limit]]
            return SessionPage(found, (found[-1].updated, found[-1].name) if len(rows) > limit else None)

        return await self._tables.read(find_all) if self._tables.is_there else SessionPage([])

    async def path(self, owner: str, name: str, node: int) -> list[NodeRow]:
        """The nodes from the root to this one; none if it is not there."""

        def find_all(db: Sql) -> list[NodeRow]:
            if (session := _key(db, owner, name)) is None:
                return []
            rows = db.execute(
                f"""WITH RECURSIVE path (session, number) AS (
                    SELECT CAST(? AS BIGINT), CAST(? AS BIGINT) UNION ALL
                    SELECT session_node.session, session_node.parent FROM session_node JOIN path USING (session, number)
                ) SELECT {_NODE} FROM path JOIN session_node USING (session, number) ORDER BY number""",
                (session, node),
            )
            return [NodeRow(*row) for row in rows.fetchall()]

        return await self._tables.read(find_all)

    async def tips(self, owner: str, name: str) -> list[NodeRow]:
        """The last nodes of all branches, oldest first, without their turns."""

        def find_all(db: Sql) -> list[NodeRow]:
            rows = db.execute(
                f"""SELECT {_NODE.replace("turns", "?")} FROM session_node AS node
                WHERE session = ? AND NOT EXISTS (
                    SELECT 1 FROM session_node AS child WHERE child.session = node.session
                    AND child.parent = node.number AND child.upto = node.upto + node.count
                ) ORDER BY number""",
                (b"", _key(db, owner, name)),
            )
            return [NodeRow(*row) for row in rows.fetchall()]

        return await self._tables.read(find_all)

    async def node_of(self, owner: str, name: str, run: str) -> int | None:
        return await self._tables.read(lambda db: _node_of(db, _key(db, owner, name), run))

    async def add(
        self,
        owner: str,
        name: str,
        node: NewNode,
        now: float,
        *,
        stood_at: int | None = None,
        release: Lease | None = None,
        labels: Raw = NO_LABELS,
    ) -> tuple[int, bool]:
        """`labels` are those of a session that is not there yet."""
        node, labels = self._rewritten(node, labels)

        def add(db: Sql) -> tuple[int, bool]:
            if release is not None:
                _release(db, owner, name, release)
            found = db.execute("SELECT id, head FROM session WHERE owner = ? AND name = ?", (owner, name)).fetchone()
            session, head = (_begin(db, owner, name, labels, now), ROOT) if found is None else found
            if node.run and (known := _node_of(db, session, node.run)) is not None:
                return known, head == known
            number = _add_node(db, session, node, now)
            is_head: bool = head == stood_at
            if is_head:
                db.execute("UPDATE session SET head = ?, ends = ? WHERE id = ?", (number, node.ends, session))
            return number, is_head

        return await self._tables.write(add, _lock_name(owner, name))

    def _rewritten(self, node: NewNode, labels: Raw) -> tuple[NewNode, Raw]:
        if self.rewrite is None:
            return node, labels
        return structs.replace(node, turns=self.rewrite.turns(node.turns)), self.rewrite.labels(labels)

    async def replace(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
        """The session is this node only."""
        node, labels = self._rewritten(node, labels)

        def put(db: Sql) -> None:
            db.execute("DELETE FROM session WHERE owner = ? AND name = ?", (owner, name))
            _put(db, owner, name, node, labels, now)

        await self._tables.write(put, _lock_name(owner, name))

    async def create(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> bool:
        """The same, of one that is not there yet; False if it is."""
        node, labels = self._rewritten(node, labels)

        def put(db: Sql) -> bool:
            if _key(db, owner, name) is not None:
                return False
            _put(db, owner, name, node, labels, now)
            return True

        return await self._tables.write(put, _lock_name(owner, name))

    async def change(self, owner: str, name: str, now: float, *, head: int | None, labels: Raw | None) -> bool:
        """False if there is no such session, or no such node in it."""
        labels = labels if labels is None or self.rewrite is None else self.rewrite.labels(labels)

        def change(db: Sql) -> bool:
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

        return await self._tables.write(change, _lock_name(owner, name))

    async def delete(self, owner: str, name: str) -> bool:
        statement = "DELETE FROM session WHERE owner = ? AND name = ?"
        return await self._change(statement, (owner, name), _lock_name(owner, name))

    async def prune(self, bounds: Bounds, now: float) -> int:
        """Forget what is beyond the bounds; returns how many sessions. One with a lease stays."""
        if not self._tables.is_there:
            return 0
        now = await self._tables.write(lambda db: self._clock.advance(db, now, _newest(db)))
        forgotten = 0
        while some := await self._tables.write(lambda db: _prune_some(db, bounds, now)):
            forgotten += some
        return forgotten

    # ---- leases ------------------------------------------------------------------------------------------------------

    async def lease(self, owner: str, name: str, lease: Lease, now: float, dead: str | None = None) -> LeaseAnswer:
        """Take it, if no other has it: one whose time is up, or whose holder is `dead`, has not."""

        def take(db: Sql) -> LeaseAnswer:
            question = "SELECT holder, run, until FROM session_lease WHERE owner = ? AND name = ?"
            found = db.execute(question, (owner, name)).fetchone()
            other = None if found is None else Lease(*found)
            if other is not None and other.until > now and other.holder != dead:
                return LeaseAnswer(False, other)
            db.execute(
                """INSERT INTO session_lease (owner, name, holder, run, until, interrupted)
                    VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT (owner, name)
                DO UPDATE SET holder = excluded.holder, run = excluded.run, until = excluded.until, interrupted = 0""",
                (owner, name, lease.holder, lease.run, lease.until),
            )
            return LeaseAnswer(True, other, _find(db, owner, name))

        return await self._tables.write(take, _lock_name(owner, name))

    async def renew(self, holder: str, until: float) -> list[tuple[str, str]]:
        """All leases of this holder. Returned are the sessions (owner, name) whose run is to make room."""

        def renew(db: Sql) -> list[tuple[str, str]]:
            db.execute("UPDATE session_lease SET until = ? WHERE holder = ?", (until, holder))
            question = "SELECT owner, name FROM session_lease WHERE holder = ? AND interrupted <> 0"
            return db.execute(question, (holder,)).fetchall()

        return await self._tables.write(renew)

    async def interrupt(self, owner: str, name: str) -> None:
        """Let the holder of the lease know that its run is to make room."""
        await self._change("UPDATE session_lease SET interrupted = 1 WHERE owner = ? AND name = ?", (owner, name))

    async def release(self, owner: str, name: str, lease: Lease) -> None:
        await self._tables.write(lambda db: _release(db, owner, name, lease))


def _lock_name(owner: str, name: str) -> str:
    return f"session {len(owner)}:{owner}{name}"


def _release(db: Sql, owner: str, name: str, lease: Lease) -> None:
    statement = "DELETE FROM session_lease WHERE owner = ? AND name = ? AND holder = ? AND run = ?"
    db.execute(statement, (owner, name, lease.holder, lease.run))


def _row(row: tuple[str, float, float, int, int, int, bytes]) -> SessionRow:
    name, created, updated, head, ends, size, labels = row
    return SessionRow(name, created, updated, head, ends, size, Raw(labels))


def _find(db: Sql, owner: str, name: str) -> SessionRow | None:
    found = db.execute(f"SELECT {_ROW} FROM session WHERE owner = ? AND name = ?", (owner, name)).fetchone()
    return None if found is None else _row(found)


def _key(db: Sql, owner: str, name: str) -> int | None:
    found = db.execute("SELECT id FROM session WHERE owner = ? AND name = ?", (owner, name)).fetchone()
    return None if found is None else found[0]


def _node_of(db: Sql, session: int | None, run: str) -> int | None:
    question = "SELECT number FROM session_node WHERE session = ? AND run = ? AND run <> ''"
    found = db.execute(question, (session, run)).fetchone()
    return None if found is None else found[0]


def _begin(db: Sql, owner: str, name: str, labels: Raw, now: float) -> int:
    key: int = db.execute(
        "INSERT INTO session (owner, name, created, updated, head, ends, size, labels) VALUES (?, ?, ?, ?, 0, 0, 0, ?) "
        "RETURNING id",
        (owner, name, now, now, bytes(labels)),
    ).fetchone()[0]
    return key


def _add_node(db: Sql, session: int, node: NewNode, now: float) -> int:
    (last,) = db.execute("SELECT coalesce(max(number), 0) FROM session_node WHERE session = ?", (session,)).fetchone()
    number: int = last + 1
    db.execute(
        """INSERT INTO session_node (session, number, parent, upto, count, asked, run, created, turns)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (session, number, node.parent, node.upto, node.count, node.asked, node.run, now, node.turns),
    )
    db.execute("UPDATE session SET updated = ?, size = size + ? WHERE id = ?", (now, len(node.turns), session))
    return number


def _put(db: Sql, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
    session = _begin(db, owner, name, labels, now)
    number = _add_node(db, session, node, now)
    db.execute("UPDATE session SET head = ?, ends = ? WHERE id = ?", (number, node.ends, session))


def _newest(db: Sql) -> float | None:
    newest: float | None = db.execute("SELECT max(updated) FROM session").fetchone()[0]
    return newest


def _prune_some(db: Sql, bounds: Bounds, now: float) -> int:
    """A few of those that are beyond the bounds: those that are too old, or some of the owner who keeps the most."""
    db.execute("DELETE FROM session_lease WHERE until < ?", (now - 86400,))  # of sessions that never came to be
    gone: list[int] = []
    if bounds.max_age is not None:
        gone = [key for key, _ in _longest_unused(db, "updated < ?", now - bounds.max_age)]
    if not gone:
        gone = _of_largest(db, "size", bounds.max_bytes, bounds.owner_bytes)
    if not gone:
        gone = _of_largest(db, "1", bounds.max_count, bounds.owner_count)
    db.executemany("DELETE FROM session WHERE id = ?", [(key,) for key in gone])
    return len(gone)


def _of_largest(db: Sql, counted: Literal["size", "1"], limit: int | None, owner_most: int | None) -> list[int]:
    """Sessions of the owner who keeps the most, until the bounds hold or another owner keeps more. `counted` is what the bounds
    count of a session: its bytes, or the session itself."""
    if limit is None and owner_most is None:
        return []
    kept = db.execute(
        f"SELECT owner, CAST(sum({counted}) AS BIGINT) AS amount FROM session GROUP BY owner ORDER BY amount DESC, owner"
    ).fetchall()
    beyond_all = 0 if limit is None else sum([amount for _, amount in kept]) - limit
    for index, (owner, amount) in enumerate(kept):
        beyond = max(beyond_all, 0 if owner_most is None else amount - owner_most)
        if beyond <= 0:
            return []
        others = kept[index + 1][1] if index + 1 < len(kept) else 0
        gone: list[int] = []
        for key, size in _longest_unused(db, "session.owner = ?", owner):
            if beyond <= 0 or (gone and amount < others):
                break
            freed = size if counted == "size" else 1
            gone.append(key)
            beyond, amount = beyond - freed, amount - freed
        if gone:
            return gone
    return []  # all that is left is in use


def _longest_unused(db: Sql, condition: str, value: float | str) -> list[tuple[int, int]]:
    """A few, without those that a run continues, and their sizes."""
    return db.execute(
        f"""SELECT id, size FROM session WHERE {condition} AND NOT EXISTS (
            SELECT 1 FROM session_lease AS lease WHERE lease.owner = session.owner AND lease.name = session.name
        ) ORDER BY updated, name LIMIT ?""",
        (value, _AT_ONCE),
    ).fetchall()
