"""Addresses that want notices, and notices on their way, in tables of the catalog.

No secret is in a row: what a notice is signed with is made from the catalog's own secret and the id of the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ronda.store.owners import OwnerRows
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
    (
        # Addresses that single requests name are kept for as long as notices are on their way to them.
        "ALTER TABLE notice_address ADD COLUMN of_request INTEGER NOT NULL DEFAULT 0",
        # What was told, also after it was delivered: by the next process, or by another replica, it is not told again.
        "CREATE TABLE notice_told (id {text} PRIMARY KEY, at {number}){by_key}",
    ),
)


OWNED: Final = (
    OwnerRows("notice", "address IN (SELECT id FROM notice_address WHERE owner = :owner)"),
    OwnerRows("notice_address"),
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
    owner: str
    url: str
    body: bytes
    tries: int
    of_request: bool


class NewNotice(Struct, frozen=True):
    id: str
    address: str
    kind: str
    body: bytes
    created: float


class Undelivered(Struct, frozen=True):
    id: str
    address: str
    url: str
    of_request: bool
    kind: str
    created: float
    tries: int
    problem: str
    due: float | None


class NoticeRows(TableStore):
    async def add_address(self, row: NoticeAddress, max_addresses: int) -> bool:
        """False if the owner has as many as there may be."""

        def add(db: Sql) -> bool:
            question = "SELECT count(*) FROM notice_address WHERE owner = ? AND of_request = 0"
            (there,) = db.execute(question, (row.owner,)).fetchone()
            if there >= max_addresses:
                return False
            values = (row.id, row.owner, row.url, " ".join(row.kinds), row.created)
            db.execute("INSERT INTO notice_address (id, owner, url, kinds, created) VALUES (?, ?, ?, ?, ?)", values)
            return True

        return await self._tables.write(add, f"notices of {row.owner}")

    async def addresses(self, owner: str) -> list[NoticeAddress]:
        rows = await self._rows(
            """SELECT id, owner, url, kinds, created FROM notice_address WHERE owner = ? AND of_request = 0
               ORDER BY created, id""",
            (owner,),
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

    async def add(self, notices: Sequence[NewNotice], of_request: NoticeAddress | None = None) -> None:
        """What was told before is not told again. `of_request`: an address that is there for these notices only."""
        if not notices:
            return

        def add(db: Sql) -> None:
            if of_request is not None:
                row = (of_request.id, of_request.owner, of_request.url, "", of_request.created)
                db.execute(
                    """INSERT INTO notice_address (id, owner, url, kinds, created, of_request) VALUES (?, ?, ?, ?, ?, 1)
                       ON CONFLICT (id) DO NOTHING""",
                    row,
                )
            for one in notices:
                told = "INSERT INTO notice_told (id, at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
                if db.execute(told, (one.id, one.created)).rowcount:
                    db.execute(
                        """INSERT INTO notice (id, address, kind, body, created, due, tries, problem)
                           VALUES (?, ?, ?, ?, ?, ?, 0, '')""",
                        (one.id, one.address, one.kind, one.body, one.created, one.created),
                    )

        await self._tables.write(add)

    async def due(self, now: float, limit: int, *, of_owner: int, of_address: int) -> list[Due]:
        """Those of all owners in turn: an owner with many of them, or an address, keeps no other's waiting."""
        rows = await self._rows(
            """SELECT id, address, owner, url, body, tries, of_request FROM (
                 SELECT one.*, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY of_address, due) AS of_owner FROM (
                   SELECT notice.id AS id, address, owner, url, body, tries, of_request, due,
                     ROW_NUMBER() OVER (PARTITION BY address ORDER BY due, notice.id) AS of_address
                   FROM notice JOIN notice_address ON notice_address.id = address
                   WHERE due IS NOT NULL AND due <= ?
                 ) AS one WHERE of_address <= ?
               ) AS another WHERE of_owner <= ? ORDER BY of_owner, due LIMIT ?""",
            (now, of_address, of_owner, limit),
        )
        return [Due(row[0], row[1], row[2], row[3], bytes(row[4]), row[5], bool(row[6])) for row in rows]

    async def delivered(self, notice_id: str) -> None:
        await self._change("DELETE FROM notice WHERE id = ?", (notice_id,))

    async def failed(self, notice_id: str, problem: str, due: float | None) -> None:
        """`due`: when it is tried again; None: it is not, and stays to be looked at."""
        await self._change(
            "UPDATE notice SET tries = tries + 1, problem = ?, due = ? WHERE id = ?", (problem, due, notice_id)
        )

    async def undelivered(self, owner: str, limit: int) -> list[Undelivered]:
        rows = await self._rows(
            """SELECT notice.id, address, url, of_request, kind, notice.created, tries, problem, due FROM notice
               JOIN notice_address ON notice_address.id = address
               WHERE owner = ? ORDER BY notice.created DESC LIMIT ?""",
            (owner, limit),
        )
        return [Undelivered(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in rows]

    async def not_taken(self) -> tuple[int, int]:
        """Of all owners: how many are tried again, and how many were given up."""
        rows = await self._rows("SELECT due IS NULL, COUNT(*) FROM notice WHERE tries > 0 GROUP BY due IS NULL")
        counts = {bool(is_given_up): count for is_given_up, count in rows}
        return counts.get(False, 0), counts.get(True, 0)

    async def forget(self, given_up: float, told: float) -> None:
        """Notices that were given up before the one time; what was told before the other; addresses of requests that nothing is
        on its way to."""
        if not self._tables.is_there:
            return

        def forget(db: Sql) -> None:
            db.execute("DELETE FROM notice WHERE due IS NULL AND created < ?", (given_up,))
            db.execute("DELETE FROM notice_told WHERE at < ?", (told,))
            db.execute(
                """DELETE FROM notice_address WHERE of_request = 1
                   AND NOT EXISTS (SELECT 1 FROM notice WHERE address = notice_address.id)"""
            )

        await self._tables.write(forget)
