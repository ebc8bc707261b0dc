"""More models behind one server: `[models.NAME]` → a name that requests may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ronda.agent.value import where_is
from ronda.core.plan import NO_OPTIONS, Options
from ronda.core.prices import find_price
from ronda.drive import Provider
from ronda.errors import BadConfig
from ronda.providers import open_provider, split_spec
from ronda.providers.prices import PricedModel
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Finding, Services
from ronda.server.features.models.fallback import Candidate, CoolDown, FallbackModel
from ronda.server.features.models.settings import ModelSettings, NamedModel
from ronda.server.features.prices.settings import PriceSettings
from ronda.server.services.models import Source, Target

DEFAULT = "default"


class NamedModels(Feature):
    name = "models"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        models = settings.part(ModelSettings).models
        for name, model in models.items():
            if name == DEFAULT or not name:
                yield Finding("[models] has no 'default': that is the server's own model, --model")
            try:
                split_spec(model.model)
            except BadConfig as error:
                yield Finding(f"[models.{name}]: {error}")
            for other in model.fallback:
                if other != DEFAULT and other not in models:
                    yield Finding(f"[models.{name}] falls back to {other!r:.100}, which is no name in [models]")
                if other == name:
                    yield Finding(f"[models.{name}] falls back to itself")
            if not 0 <= model.cool_down <= 86400:
                yield Finding(f"[models.{name}] cool_down is {model.cool_down:g}; it can be 0 to 86400 seconds")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = settings
        self._models = settings.part(ModelSettings).models
        self._own_prices = settings.part(PriceSettings).prices
        self._opened: dict[str, Provider] = {}
        default = services.models.default
        cooling = CoolDown()
        self.named = {
            name: Target(
                name,
                model.model,
                self._provider(name, model, default, cooling),
                options=_options(model),
                max_tokens=model.max_tokens,
            )
            for name, model in self._models.items()
        }

    def _provider(self, name: str, model: NamedModel, default: Target, cooling: CoolDown) -> Provider:
        if not model.fallback:
            return self._open(name)
        first = Candidate(name, model.model, self._priced(name), model.cool_down)
        others = [
            Candidate(other, default.spec, self._with_price(default.spec, default.provider), model.cool_down)
            if other == DEFAULT
            else Candidate(other, self._models[other].model, self._priced(other), self._models[other].cool_down)
            for other in model.fallback
        ]
        return FallbackModel([first, *others], model.fallback_on, cooling)

    def _open(self, name: str) -> Provider:
        """One for each name: what fails for one that falls back to it cools down for all."""
        if name not in self._opened:
            model, settings = self._models[name], self._settings
            where = where_is(
                model.model,
                model.base_url,
                timeouts=settings.timeouts,
                vision=model.vision,
                transport=settings.transport,
            )
            where = replace(where, slots=settings.slots, context=settings.context)
            self._opened[name] = open_provider(model.model, where)
        return self._opened[name]

    def _priced(self, name: str) -> Provider:
        return self._with_price(self._models[name].model, self._open(name))

    def _with_price(self, spec: str, provider: Provider) -> Provider:
        price = find_price(self._own_prices, spec)
        return provider if price is None else PricedModel(provider, price.cost, replaces=True)

    def targets(self) -> Sequence[Source]:
        return [self]

    # ---- as a source of targets --------------------------------------------------------------------------------------

    async def find(self, name: str, owner: str) -> Target | None:
        found = self.named.get(name)
        if found is not None:
            return found
        return next(
            (target for target in self.named.values() if target.spec == name), None
        )  # of a run that is reopened

    def names(self) -> Iterable[str]:
        return self.named


def _options(model: NamedModel) -> Options:
    options = Options(model.max_tokens, model.temperature, model.top_p)
    return NO_OPTIONS if options == NO_OPTIONS else options
