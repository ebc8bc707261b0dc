"""Settings of what models cost."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.core.prices import Price
from ronda.server.setting import Setting

_prices = partial(Setting, "prices and budgets")


class PriceSettings(Struct, frozen=True):
    prices: Annotated[
        dict[str, Price],
        _prices(
            "",
            "what models cost, in US dollars for a million tokens, by PROVIDER:NAME: input, output, cached, cache_written; "
            "see [prices](budgets.md#prices)",
        ),
    ] = {}
