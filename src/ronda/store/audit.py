"""What was done in the name of all owners, one row for each act: who, what, when, from where. Rows are only added."""

from __future__ import annotations

from msgspec import Struct

from ronda.store.sql import TableStore


class Act(Struct, frozen=True):
    at: float
    owner: str  # of the key that it was done with
    actor: str  # that key's id; "" for a command on the server's machine
    act: str  # "key.create", "key.revoke", "run.cancel", "approval.decide", …
    subject: str  # the id of what it was done to
    client: str = ""  # the address that it came from
    details: str = ""  # in a few words; never a secret, and nothing that a client or a model has said


class KeptAct(Act, frozen=True, kw_only=True):
    id: int


class Audit(TableStore):
    async def add(self, act: Act) -> None:
        row = (act.at, act.owner, act.actor, act.act, act.subject, act.client, act.details)
        statement = """INSERT INTO audit (at, owner, actor, act, subject, client, details)
            VALUES (?, ?, ?, ?, ?, ?, ?)"""
        await self._tables.write(lambda db: db.execute(statement, row))

    async def page(self, limit: int, before: int | None = None) -> list[KeptAct]:
        """The newest first; `before` is the id of the last that was seen."""
        where, values = ("WHERE id < ?", (before, limit)) if before is not None else ("", (limit,))
        rows = await self._rows(
            f"SELECT at, owner, actor, act, subject, client, details, id FROM audit {where} ORDER BY id DESC LIMIT ?",
            values,
        )
        return [KeptAct(*row[:7], id=row[7]) for row in rows]
