"""Owners who are being deleted: their runs end in every process, wherever `ronda owner delete` is called.

ronda owner delete ──► a row of `owner_removal` ──► each server looks, and cancels ──► nothing is driven ──► all of it goes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ronda.server.features.contract import Chore, Feature, Services
from ronda.store.owners import OwnerRows
from ronda.store.sql import TableStore

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig

TABLES: Final = (("CREATE TABLE owner_removal (owner {text} PRIMARY KEY, since {number}){by_key}",),)
OWNED: Final = (OwnerRows("owner_removal"),)
LOOK_SECONDS: Final = 1.0  # between two looks of a process


class Removals(TableStore):
    async def add(self, owner: str, now: float) -> None:
        statement = "INSERT INTO owner_removal (owner, since) VALUES (?, ?) ON CONFLICT DO NOTHING"
        await self._tables.write(lambda db: db.execute(statement, (owner, now)))

    async def all(self) -> set[str]:
        return {owner for (owner,) in await self._rows("SELECT owner FROM owner_removal")}

    async def remove(self, owner: str) -> None:
        await self._change("DELETE FROM owner_removal WHERE owner = ?", (owner,))


class Owners(Feature):
    name = "owners"
    tables = TABLES
    owned = OWNED

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._removals = Removals(services.catalog)
        self._runs = services.runs

    def chores(self) -> Sequence[Chore]:
        return [Chore("the runs of owners who are deleted", LOOK_SECONDS, self.end_runs)]

    async def end_runs(self) -> None:
        """Cancel what they have under way in this process, and forget what was shown of it. Where nothing is, nothing is read."""
        if not self._runs.live:
            return
        for owner in await self._removals.all():
            for run, live in list(self._runs.live.items()):
                if live.run.start.owner == owner:
                    self._runs.cancel(run, owner)
                    self._runs.logs.forget(run)
