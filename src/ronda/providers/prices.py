"""What a model call used → what it cost, in US dollars: None where its price is not known, never 0 for that.

Prices come from three places, and the first that knows is right: the operator (`Price`), the provider's own answer, and the table
of the package `genai-prices`, which is kept on this machine and read without a network. Models that run here are free.

A provider is wrapped when it is opened (`priced`), where a price can be known at all, so that the cost is part of what a call
used: it is journaled with the call, and a price that changes later does not change it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import structs

from ronda._extras import has_extra, install
from ronda.core.events import ModelFinished
from ronda.core.parts import Usage
from ronda.core.prices import FREE
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.drive.provider import CallMany
from ronda.providers.services import SERVICES

# Our names of providers at their own addresses → the table's.
_TABLE_NAMES: Final = {
    "anthropic": "anthropic",
    "gemini": "google",
    "mistral": "mistral",
    "openai": "openai",
    "openai-chat": "openai",
}
_FREE: Final = ("local",)

Cost: TypeAlias = Callable[[Usage], float | None]


def table_place(provider: str, base_url: str | None) -> dict[str, str] | None:
    """Where the table may have the prices of a provider's models, in its own words; None: nowhere."""
    if base_url is None and (service := SERVICES.get(provider)) is not None:
        base_url = service.fixed_address
    elif base_url is None:
        return {"provider_id": name} if (name := _TABLE_NAMES.get(provider)) is not None else None
    host = "" if base_url is None else urlsplit(base_url).hostname or ""
    # A server on this machine, or under a bare name of a network: no table has its prices.
    if host.rpartition(".")[2].isalpha() and "." in host:
        return {"provider_api_url": str(base_url)}
    return None


async def load_prices() -> None:
    """Load the table, if it is installed: it takes a moment."""
    if has_extra("prices"):
        await asyncio.to_thread(_table)


def ways_to_a_price() -> str:
    """What an operator can do where a price is not known."""
    table = "" if has_extra("prices") else f", install the table of prices ({install('prices')})"
    return f"give a price under [prices]{table}"


def is_known(spec: str, base_url: str | None = None) -> bool:
    """Whether the cost of a model's calls can be told without the operator's word. Loads the table: not for an event loop."""
    provider, _, name = spec.partition(":")
    if provider in _FREE:
        return True
    place = table_place(provider, base_url)
    return place is not None and has_extra("prices") and _table().cost(place, name, Usage(1, 1)) is not None


def priced(provider: Provider, kind: str, name: str, base_url: str | None) -> Provider:
    """With the cost of each call, where a price may be known; `kind` is the provider's name in a spec."""
    if kind in _FREE:
        return PricedModel(provider, FREE.cost)
    place = table_place(kind, base_url)
    return provider if place is None else PricedModel(provider, partial(_by_table, place, name), by_table=True)


class PricedModel:
    """Any provider, whose calls say what they cost. All else about it is the provider's own.

    `replaces`: the cost is worked out although the provider may have said one.
    """

    def __init__(self, provider: Provider, cost: Cost, *, by_table: bool = False, replaces: bool = False) -> None:
        self.provider = provider
        self._cost = cost
        self._by_table = by_table
        self._replaces = replaces

    @property
    def capabilities(self) -> Capabilities:
        able = capabilities_of(self.provider)
        call_many = able.call_many and partial(self._many, able.call_many)
        return structs.replace(able, call_many=call_many, cost=self._known_cost)

    def _known_cost(self, usage: Usage) -> float | None:
        return None if self._by_table and not has_extra("prices") else self._cost(usage)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return await self._with_cost(await self.provider.call(request, show))

    async def _many(self, call_many: CallMany, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        return [await self._with_cost(one) for one in await call_many(request, shows)]

    async def _with_cost(self, finished: ModelFinished) -> ModelFinished:
        usage = finished.usage
        if not usage.total or (usage.cost is not None and not self._replaces):
            return finished
        if self._by_table and "genai_prices.data" not in sys.modules:
            if not has_extra("prices"):
                return finished
            await asyncio.to_thread(_table)  # 1.6 MB of Python to import
        cost = self._cost(usage)
        if cost is None:
            return finished
        return structs.replace(finished, usage=structs.replace(usage, cost=cost))


# ---- the table ---------------------------------------------------------------------------------------------------------


class _Table(Protocol):
    def cost(self, place: Mapping[str, str], model: str, usage: Usage) -> float | None: ...


class _KeptTable:
    """genai-prices. It is asked for nothing newer: what a call cost must not depend on a network."""

    def __init__(self) -> None:
        from genai_prices import Usage as TableUsage
        from genai_prices.data_snapshot import get_snapshot

        get_snapshot()
        self._usage: Any = TableUsage

    def cost(self, place: Mapping[str, str], model: str, usage: Usage) -> float | None:
        from genai_prices import calc_price

        written = min(usage.cache_written, usage.input - min(usage.cached, usage.input))
        used = self._usage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=min(usage.cached, usage.input) or None,
            cache_write_tokens=written or None,
        )
        ask: Any = calc_price
        try:
            return float(ask(used, model, **place).total_price)
        except (LookupError, ValueError):  # no such model; or a kind of token that it has no price for
            return None


@cache
def _table() -> _Table:
    return _KeptTable()


def _by_table(place: Mapping[str, str], model: str, usage: Usage) -> float | None:
    return _table().cost(place, model, usage)
