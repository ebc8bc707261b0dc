"""The operator's prices, over what providers and the table of prices say."""

from __future__ import annotations

from ronda.core.prices import find_price
from ronda.core.run import Run
from ronda.drive import Provider
from ronda.providers.prices import PricedModel
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Services
from ronda.server.features.prices.settings import PriceSettings


class Prices(Feature):
    name = "prices"
    after = ("models",)  # whose limits are nearer to the model

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._prices = settings.part(PriceSettings).prices

    def around(self, run: Run, provider: Provider) -> Provider:
        if getattr(provider, "is_priced", False):  # several models: each has its own price
            return provider
        price = find_price(self._prices, run.plan.model)
        return provider if price is None else PricedModel(provider, price.cost, replaces=True)
