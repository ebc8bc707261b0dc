"""Settings of budgets."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Struct

from ronda.server.setting import Setting

_budgets = partial(Setting, "prices and budgets")

Scope: TypeAlias = Literal["run", "session", "key", "owner"]
Per: TypeAlias = Literal["day", "week", "month", "total"]
Unit: TypeAlias = Literal["usd", "tokens", "rounds", "tool_calls", "seconds"]

SCOPES: Final[tuple[Scope, ...]] = ("run", "session", "key", "owner")
PERIODS: Final[tuple[Per, ...]] = ("day", "week", "month", "total")
UNITS: Final[tuple[Unit, ...]] = ("usd", "tokens", "rounds", "tool_calls", "seconds")


class BudgetLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """What each of a kind may spend, or the one with a `name`: the id of a key, the name of an owner or a session."""

    scope: Scope
    name: str = "*"
    per: Per = "total"
    usd: float | None = None
    tokens: int | None = None
    rounds: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None

    @property
    def amounts(self) -> dict[Unit, float]:
        return {unit: float(amount) for unit in UNITS if (amount := getattr(self, unit)) is not None}


class BudgetOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """`unknown_price`: what becomes of a call whose price is not known, where money is limited."""

    enabled: bool = False
    timezone: str = "UTC"
    unknown_price: Literal["refuse", "allow"] = "refuse"
    limits: tuple[BudgetLimit, ...] = ()


class BudgetSettings(Struct, frozen=True):
    budgets: Annotated[
        BudgetOptions,
        _budgets(
            "",
            "what runs, sessions, keys and owners may spend: enabled, timezone, unknown_price, limits; see "
            "[budgets](budgets.md#budgets)",
            members={
                "enabled": _budgets("--budgets", "keep a ledger of what keys and owners spend, and heed its limits")
            },
        ),
    ] = BudgetOptions()
