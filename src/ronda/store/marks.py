"""What runs have read, of what must not leave on a stranger's word (`core.taint`), for those that go on from them.

    run:ID        a run                              the runs that go on from it
    session:NAME  a session, all its branches        the next runs in it: they share its folder, too
    answer:HASH   a question and what was answered   requests that bring a conversation as their client has it

Nothing here takes a mark back. A mark is forgotten with its session, or when nothing has asked for it for `LIFETIME` seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ronda.store.sql import Sql, TableStore

LIFETIME: Final = 90 * 86400.0  # longer than the folder of a session stays: 30 days without use
_USE: Final = 86400.0  # what was used so short a time ago need not be noted again
_AT_ONCE: Final = 500  # sources in one question: fewer than either database takes values

_PUT: Final = """INSERT INTO mark (owner, source, mark, used) VALUES (?, ?, ?, ?)
    ON CONFLICT (owner, source, mark) DO UPDATE SET used = excluded.used"""


def of_run(run: str) -> str:
    return f"run:{run}"


def of_session(name: str) -> str:
    return f"session:{name}"


def of_answer(digest: str) -> str:
    return f"answer:{digest}"


class Marks(TableStore):
    async def add(self, owner: str, sources: Sequence[str], marks: Collection[str], now: float) -> None:
        """What the sources had before, they keep."""

        def add(db: Sql) -> None:
            _forget_old(db, now)
            db.executemany(_PUT, [(owner, source, mark, now) for source in sources for mark in sorted(marks)])

        await self._tables.write(add)

    async def find(self, owner: str, sources: Sequence[str], now: float) -> frozenset[str]:
        """All marks that one of the sources has."""
        if not sources or not self._tables.is_there:
            return frozenset()

        def find(db: Sql) -> list[tuple[str, str, float]]:
            found: list[tuple[str, str, float]] = []
            for index in range(0, len(sources), _AT_ONCE):
                some = sources[index : index + _AT_ONCE]
                holes = ", ".join("?" * len(some))
                question = f"SELECT source, mark, used FROM mark WHERE owner = ? AND source IN ({holes})"
                found += db.execute(question, (owner, *some)).fetchall()
            return found

        found = await self._tables.read(find)
        if late := [(now, owner, source, mark) for source, mark, used in found if used < now - _USE]:
            change = "UPDATE mark SET used = ? WHERE owner = ? AND source = ? AND mark = ?"
            await self._tables.write(lambda db: db.executemany(change, late))
        return frozenset([mark for _, mark, _ in found])

    async def copy(self, owner: str, source: str, to: str, now: float) -> None:
        """Of a session that is copied with all it has."""
        if marks := await self.find(owner, [source], now):
            await self.add(owner, [to], marks, now)

    async def forget(self, owner: str, source: str) -> None:
        await self._change("DELETE FROM mark WHERE owner = ? AND source = ?", (owner, source))


def _forget_old(db: Sql, now: float) -> None:
    """Of all owners: so the table stays small. A clock that is suddenly far ahead forgets nothing: what was noted last says how
    late it can be."""
    (last,) = db.execute("SELECT max(used) FROM mark").fetchone()
    if last is not None:
        db.execute("DELETE FROM mark WHERE used < ?", (min(now, last + _USE) - LIFETIME,))
