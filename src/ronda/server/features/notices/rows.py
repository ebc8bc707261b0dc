"""Addresses that want notices, and notices on their way, in tables of the catalog.

No secret is in a row: what a notice is signed with is made from the catalog's own secret and the id of the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ronda.store.sql import Sql, TableStore

TABLES: Final = (
    (
        """CREATE TABLE notice_address (
            id {text} PRIMARY KEY, owner {text}, url {text}, kinds {text}, created {number}
        ){by_key}""",
        "CREATE INDEX notice_address_owner ON notice_address (owner, created)",
        """CREATE TABLE notice (
            id {text} PRIMARY KEY, address {text} REFERENCES notice_address ON DELETE CASCADE, kind {text}, body {bytes},
            created {number}, due {any_number}, tries INTEGER NOT NULL, problem {text}
        ){by_key}""",
        "CREATE INDEX notice_due ON notice (due)",
    ),
)


class NoticeAddress(Struct, frozen=True):
    id: str
    owner: str
    url: str
    kinds: tuple[str, ...]
    created: float


class Due(Struct, frozen=True):
    """A notice that is to be sent, and where to."""

    id: str
    address: str
    url: str
    body: bytes
    created: float
    tries: int


class NoticeRows(TableStore):
    async def add_address(self, row: NoticeAddress, max_addresses: int) -> bool:
        """False if the owner has as many as there may be."""

        def add(db: Sql) -> bool:
            there = db.execute("SELECT count(*) FROM notice_address WHERE owner = ?", (row.owner,)).fetchone()[0]
            if there >= max_addresses:
                return False
            values = (row.id, row.owner, row.url, " ".join(row.kinds), row.created)
            db.execute("INSERT INTO notice_address (id, owner, url, kinds, created) VALUES (?, ?, ?, ?, ?)", values)
            return True

        return await self._tables.write(add, f"notices of {row.owner}")

    async def addresses(self, owner: str) -> list[NoticeAddress]:
        rows = await self._rows(
            "SELECT id, owner, url, kinds, created FROM notice_address WHERE owner = ? ORDER BY created, id", (owner,)
        )
        return [NoticeAddress(row_id, of, url, tuple(kinds.split()), at) for row_id, of, url, kinds, at in rows]

    async def delete_address(self, owner: str, address_id: str) -> bool:
        def delete(db: Sql) -> bool:
            found = (
                db.execute("DELETE FROM notice_address WHERE owner = ? AND id = ?", (owner, address_id)).rowcount > 0
            )
            if found:
                db.execute("DELETE FROM notice WHERE address = ?", (address_id,))
            return found

        return await self._tables.write(delete)

    async def add(self, notices: Sequence[tuple[str, str, str, bytes, float]]) -> None:
        """Of each the id, the address, the kind, the body and the time. One that is there already is not added again."""
        statement = """INSERT INTO notice (id, address, kind, body, created, due, tries, problem)
            VALUES (?, ?, ?, ?, ?, ?, 0, '') ON CONFLICT DO NOTHING"""
        rows = [(*one, one[-1]) for one in notices]
        await self._tables.write(lambda db: db.executemany(statement, rows))

    async def due(self, now: float, limit: int) -> list[Due]:
        rows = await self._rows(
            """SELECT notice.id, address, url, body, notice.created, tries FROM notice
               JOIN notice_address ON notice_address.id = address
               WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT ?""",
            (now, limit),
        )
        return [Due(row_id, address, url, bytes(body), at, tries) for row_id, address, url, body, at, tries in rows]

    async def delivered(self, notice_id: str) -> None:
        await self._change("DELETE FROM notice WHERE id = ?", (notice_id,))

    async def failed(self, notice_id: str, problem: str, due: float | None) -> None:
        """`due`: when it is tried again; None: it is not, and stays to be looked at."""
        await self._change(
            "UPDATE notice SET tries = tries + 1, problem = ?, due = ? WHERE id = ?", (problem, due, notice_id)
        )

    async def undelivered(self, owner: str, limit: int) -> list[tuple[str, str, str, float, int, str, float | None]]:
        return await self._rows(
            """SELECT notice.id, address, kind, notice.created, tries, problem, due FROM notice
               JOIN notice_address ON notice_address.id = address
               WHERE owner = ? ORDER BY notice.created DESC LIMIT ?""",
            (owner, limit),
        )

    async def forget_before(self, then: float) -> None:
        await self._change("DELETE FROM notice WHERE due IS NULL AND created < ?", (then,))
