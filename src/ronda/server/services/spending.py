"""What owners have spent, where a feature keeps account of it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct


class MonthsSpending(Struct, frozen=True):
    """Of one owner, since the month began, in US dollars. `limit` is that of a month; None: there is none."""

    spent: float
    reserved: float = 0.0
    limit: float | None = None


@runtime_checkable
class Spending(Protocol):
    """Asked for with `provided(Spending)`: None where the server keeps no account."""

    async def of_month(self, owner: str) -> MonthsSpending: ...
