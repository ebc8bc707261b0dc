"""A process that spends from a ledger until it is refused: PLACE RUN KILLED, where KILLED is the call at which it kills itself
between reserving and settling; 0 for none. It prints what it has settled, line by line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

from ronda.server.features.budgets.ledger import TABLES, Account, Amounts, Ledger
from ronda.server.features.budgets.settings import BudgetLimit
from ronda.store.catalog import Catalog

LIMIT = 1000
RESERVED, USED = 10, 9  # tokens of each call


def open_place(place: str) -> tuple[Catalog, Any]:
    """A catalog, and what is to be closed after it."""
    if place.startswith("postgresql"):
        from ronda.store.postgres import Database
        from ronda.store.postgres_catalog import PostgresCatalog
        from ronda.store.postgres_presence import PostgresPresence

        database = Database(place)
        catalog: Catalog = PostgresCatalog(database, PostgresPresence(database))
    else:
        from ronda.store.sqlite_catalog import SqliteCatalog

        catalog = SqliteCatalog(place, timeout=30.0)
    catalog.add_tables("budgets", TABLES)
    return catalog, None


def ledger_in(catalog: Catalog) -> Ledger:
    return Ledger(catalog, [BudgetLimit("owner", tokens=LIMIT), BudgetLimit("key", tokens=LIMIT)], "UTC", time.time)


def accounts(run: str) -> list[Account]:
    return [Account("run", run), Account("key", f"key_{run}"), Account("owner", "ann")]


async def spend(place: str, run: str, killed: int) -> None:
    catalog, _ = open_place(place)
    ledger, call = ledger_in(catalog), 0
    while True:
        call += 1
        name = f"{call}.1.1"
        verdict = await ledger.reserve(
            run, name, accounts(run), Amounts(tokens=RESERVED, rounds=1), keeps_last=False, room_for=lambda left: 0
        )
        if verdict.refused_by is not None:
            break
        if call == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        await ledger.settle(run, name, accounts(run), Amounts(tokens=USED, rounds=1))
        sys.stdout.write(f"{USED}\n")
        sys.stdout.flush()
    await catalog.close()


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], sys.argv[2], int(sys.argv[3])))
