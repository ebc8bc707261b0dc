"""`ronda budget`: what keys and owners have spent, and what they may."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any, Final

from ronda.cli.storage import open_storage
from ronda.cli.table import print_table
from ronda.errors import BadConfig
from ronda.server.features.budgets.ledger import TABLES, Account, Ledger
from ronda.server.features.budgets.settings import PERIODS, UNITS

_FLAGS: Final = {unit: f"--{unit.replace('_', '-')}" for unit in UNITS}


def budget(arguments: argparse.Namespace) -> int:
    if arguments.action == "set":
        _check(arguments)
    asyncio.run(_with_ledger(arguments))
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.scope is None or arguments.name is None:
        raise BadConfig("whose budget? Say a scope and a name: 'ronda budget set owner ann --per month --usd 20'")
    if not [unit for unit in UNITS if getattr(arguments, unit) is not None]:
        raise BadConfig(
            f"what is limited? Give one of {', '.join(_FLAGS.values())}; a number below 0 takes a limit back"
        )
    if arguments.scope == "run" and (arguments.name != "*" or arguments.per != "total"):
        raise BadConfig("a run has no name before it begins, and no days: 'ronda budget set run \"*\" --usd 1'")


async def _with_ledger(arguments: argparse.Namespace) -> None:
    async with open_storage(arguments, "budgets") as storage:
        storage.catalog.add_tables("budgets", TABLES)
        ledger = Ledger(storage.catalog, (), arguments.timezone or "UTC", storage.clock)
        if arguments.action == "set":
            await _set(ledger, arguments)
        else:
            await _show(ledger)


async def _set(ledger: Ledger, arguments: argparse.Namespace) -> None:
    for unit in UNITS:
        amount: float | None = getattr(arguments, unit)
        if amount is not None:
            await ledger.set_limit(
                arguments.scope, arguments.name, arguments.per, unit, None if amount < 0 else float(amount)
            )
    print("servers with --budgets heed it from their next model call on", file=sys.stderr)


async def _show(ledger: Ledger) -> None:
    limits = await ledger.kept_limits()
    rows: list[tuple[Any, ...]] = [(scope, name, per, unit, f"{amount:g}") for scope, name, per, unit, amount in limits]
    if rows:
        print_table([("SCOPE", "NAME", "PER", "UNIT", "LIMIT"), *rows])
    spent: list[tuple[Any, ...]] = []
    for row in await ledger.accounts():
        scope, _, name = row.partition(":")
        if scope in ("key", "owner"):
            account = Account("key" if scope == "key" else "owner", name)
            for per in PERIODS:
                used = await ledger.spent(account, per)
                cost = f"${used.usd:.4f}" + (f" + {used.unknown} calls of unknown price" if used.unknown else "")
                spent.append(
                    (scope, name or "-", per, cost, f"{used.tokens:,}", str(used.rounds), str(used.tool_calls))
                )
    if spent:
        if rows:
            print()
        print_table([("SCOPE", "NAME", "PER", "COST", "TOKENS", "ROUNDS", "TOOL CALLS"), *spent])
    if not rows and not spent:
        print("nothing was spent yet, and nothing is limited: 'ronda serve --budgets' keeps the ledger")
