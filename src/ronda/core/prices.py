"""Tokens and a price → US dollars. Where prices come from is elsewhere (`providers.prices`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ronda.core.parts import Usage

_MILLION: Final = 1_000_000


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens. Without `cached` and `cache_written`, what a cache gave or took costs as other input."""

    input: float
    output: float
    cached: float | None = None
    cache_written: float | None = None

    def __post_init__(self) -> None:
        given = (self.input, self.output, self.cached or 0.0, self.cache_written or 0.0)
        if not all(0 <= one < _MILLION for one in given):
            raise ValueError("a price is a number of US dollars for a million tokens, and not negative")

    def cost(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_written is None else self.cache_written
        plain = max(0, usage.input - usage.cached - usage.cache_written)
        paid = plain * self.input + usage.cached * cached + usage.cache_written * written + usage.output * self.output
        return paid / _MILLION


FREE: Final = Price(0.0, 0.0)


def find_price(prices: Mapping[str, Price], spec: str) -> Price | None:
    """The operator's price of a model: by its name as it stands, else by the first pattern that matches (`openai:gpt-5*`)."""
    if (found := prices.get(spec)) is not None:
        return found
    return next((price for pattern, price in prices.items() if _matches(pattern, spec)), None)


def _matches(pattern: str, spec: str) -> bool:
    """`*` stands for any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), spec) is not None
