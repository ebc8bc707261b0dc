"""`ronda doctor`: how code that a model writes is isolated on this machine, whether pages can be shown, which models have
a price, and what would help."""

from __future__ import annotations

import argparse
import asyncio
import sys

from ronda._extras import has_extra, install
from ronda._islands import island_module
from ronda.errors import BadConfig
from ronda.sandbox.doctor import Line, examine, examine_python, this_place, write_line
from ronda.sandbox.layers import find_layers


def doctor(arguments: argparse.Namespace) -> int:
    prices = _examine_prices(arguments)  # first: it may find the settings wrong
    isolation = examine(find_layers(), this_place())
    lines = [*isolation, asyncio.run(examine_python(sys.executable)), *_examine_page(), prices]
    print("\n".join(map(write_line, lines)))
    return 0 if lines[0].state == "works" else 1


def _examine_prices(arguments: argparse.Namespace) -> Line:
    """Of the models that a settings file names, those whose calls have no known cost."""
    from ronda.core.prices import find_price

    if arguments.config is None:
        if not has_extra("prices"):
            return Line("prices", "missing", "no table of prices: what calls cost is not known", install("prices"))
        return Line("prices", "works", "what calls cost is worked out by a table on this machine")
    from ronda.cli.settings import read_config
    from ronda.providers.prices import is_known
    from ronda.server.features.models.settings import ModelSettings
    from ronda.server.features.prices.settings import PriceSettings

    config = read_config(arguments)
    own = config.part(PriceSettings).prices
    named = [(model.model, model.base_url) for model in config.part(ModelSettings).models.values()]
    unknown = [
        spec
        for spec, base_url in [*config.model_places, *named]
        if find_price(own, spec) is None and not is_known(spec, base_url)
    ]
    if unknown:
        names = ", ".join(f"'{spec}'" for spec in unknown)
        helps = "give it under [prices] in the settings" if has_extra("prices") else install("prices")
        return Line("prices", "partly", f"no price is known of {names}", helps)
    return Line("prices", "works", "the price of every model of these settings is known")


def _examine_page() -> list[Line]:
    if not has_extra("page"):
        return [Line("page", "missing", "pages cannot be built, nor pictures of them taken", install("page"))]
    try:
        lines: list[Line] = island_module("ronda.tools.page.doctor").examine_page()  # with aiohttp behind it
    except BadConfig as error:
        return [Line("page", "missing", str(error))]
    return lines
