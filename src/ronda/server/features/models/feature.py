"""More models behind one server: `--model` again, `[models.NAME]` → names that requests may ask for; limits toward upstreams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from ronda.agent.value import missing_key, where_is
from ronda.core.plan import NO_OPTIONS, Options
from ronda.core.prices import find_price
from ronda.core.run import Run
from ronda.drive import Provider
from ronda.errors import BadConfig
from ronda.providers import open_provider, split_spec
from ronda.providers.prices import PricedModel
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Chore, Feature, Finding, Line, Services
from ronda.server.features.models.fallback import Candidate, CoolDown, FallbackModel
from ronda.server.features.models.settings import ModelSettings, NamedModel
from ronda.server.features.models.upstreams import RENEWED, TABLES, LimitedModel, UpstreamRows, Upstreams
from ronda.server.features.prices.settings import PriceSettings
from ronda.server.services.models import CoolingModels, Source, Target, examine_model
from ronda.store.values.scopes import Scopes

DEFAULT = "default"


class NamedModels(Feature):
    name = "models"
    tables = TABLES

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        part = settings.part(ModelSettings)
        yield from _check_more(settings.model, part)
        yield from _check_upstreams(part)
        models = part.models
        for name, model in models.items():
            if name == DEFAULT or not name:
                yield Finding("[models] has no 'default': that is the server's own model, --model")
            try:
                split_spec(model.model)
            except BadConfig as error:
                yield Finding(f"[models.{name}]: {error}")
            for other in model.fallback:
                if other != DEFAULT and other not in part.named:
                    yield Finding(f"[models.{name}] falls back to {other!r:.100}, which is no name in [models]")
                if other == name:
                    yield Finding(f"[models.{name}] falls back to itself")
            if not 0 <= model.cool_down <= 86400:
                yield Finding(f"[models.{name}] cool_down is {model.cool_down:g}; it can be 0 to 86400 seconds")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = settings
        part = settings.part(ModelSettings)
        self.counts_calls = bool(part.upstreams)
        self._models = part.named
        self._own_prices = settings.part(PriceSettings).prices
        self._opened: dict[str, Provider] = {}
        self._upstreams = Upstreams(
            UpstreamRows(services.catalog, services.clock), part.upstreams, services.supervisor.sleep
        )
        default = services.models.default
        self._cooling = CoolDown()
        self.named = {
            name: Target(
                name,
                model.model,
                self._provider(name, model, default, self._cooling),
                options=_options(model),
                max_tokens=model.max_tokens,
            )
            for name, model in self._models.items()
        }

    def _provider(self, name: str, model: NamedModel, default: Target, cooling: CoolDown) -> Provider:
        if not model.fallback:
            return self._open(name)
        own = Candidate(
            DEFAULT, default.spec, self._with_price(default.spec, self._limited_default(default)), model.cool_down
        )
        candidates = [own if one == DEFAULT else self._candidate(one) for one in (name, *model.fallback)]
        return FallbackModel(candidates, model.fallback_on, cooling)

    def _candidate(self, name: str) -> Candidate:
        model = self._models[name]
        return Candidate(name, model.model, self._priced(name), model.cool_down, model.max_tokens)

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
            self._opened[name] = self._upstreams.limited(model.model, where.base_url, open_provider(model.model, where))
        return self._opened[name]

    def _priced(self, name: str) -> Provider:
        return self._with_price(self._models[name].model, self._open(name))

    def _with_price(self, spec: str, provider: Provider) -> Provider:
        price = find_price(self._own_prices, spec)
        return provider if price is None else PricedModel(provider, price.cost, replaces=True)

    def _limited_default(self, default: Target) -> Provider:
        return self._upstreams.limited(default.spec, self._settings.base_url, default.provider)

    def provides(self) -> Mapping[type, object]:
        return {CoolingModels: self._cooling}

    def targets(self) -> Sequence[Source]:
        return [self]

    async def doctor(self) -> Sequence[Line]:
        return [examine_model(f"model {name}", target, self._missing_key(name)) for name, target in self.named.items()]

    def _missing_key(self, name: str) -> str | None:
        model = self._models[name]
        return missing_key(model.model, where_is(model.model, model.base_url))

    # ---- limits toward upstreams -------------------------------------------------------------------------------------

    def around(self, run: Run, provider: Provider) -> Provider:
        """The models of this feature have their limits inside; here are the server's own model, and those of agents."""
        if isinstance(provider, FallbackModel | LimitedModel):
            return provider
        spec = run.plan.model
        return self._upstreams.limited(
            spec, self._settings.base_url if spec == self._settings.model else None, provider
        )

    def chores(self) -> Sequence[Chore]:
        return [Chore("the calls under way at upstreams", RENEWED, self._upstreams.renew)]

    async def runs_ended(self) -> None:
        await self._upstreams.all_left()

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

    def names_open_to(self, scopes: Scopes) -> Iterable[str]:
        return [name for name, target in self.named.items() if scopes.allows_model((name, target.spec))]


def _check_more(own: str, part: ModelSettings) -> Iterable[Finding]:
    names = [DEFAULT, split_spec(own)[1], *part.models]
    for spec in part.more_models:
        try:
            name = split_spec(spec)[1]
        except BadConfig as error:
            yield Finding(f"--model {spec!r:.100}: {error}")
            continue
        if name in names:
            yield Finding(f"two models are named {name!r:.100}; give one of them another name, under [models]")
        names.append(name)


def _check_upstreams(part: ModelSettings) -> Iterable[Finding]:
    for name, limit in part.upstreams.items():
        amounts = {"calls": limit.calls, "requests": limit.requests, "tokens": limit.tokens}
        for what, amount in amounts.items():
            if amount is not None and amount < 1:
                yield Finding(f"{what} of [upstreams.{name}] is {amount}; it must be at least 1")
        if not 0 <= limit.wait <= 3600:
            yield Finding(f"wait of [upstreams.{name}] is {limit.wait:g}; it can be 0 to 3600 seconds")


def _options(model: NamedModel) -> Options:
    options = Options(model.max_tokens, model.temperature, model.top_p)
    return NO_OPTIONS if options == NO_OPTIONS else options
