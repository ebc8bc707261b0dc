"""Which model each variant gets: those that `[app] models` names, in turn, or the server's own."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

import msgspec

from ronda.agent import where_is
from ronda.agent.value import missing_key
from ronda.errors import NotFound
from ronda.providers import open_provider, split_spec
from ronda.providers.vision import TextOnly
from ronda.server.features.app_stream.settings import AppSettings
from ronda.server.services.models import Models, Target
from ronda.wire.app_stream.parameters import BadParameters, Parameters

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig

_NO_FILMS = ("openai:", "anthropic:", "mistral:", "mistral-agent:", "local:")  # their APIs have no equivalent of one
CREATE_VARIANTS = 4  # variants, as the front end expects before it is told
UPDATE_VARIANTS = 2


class AppModels:
    """Models are opened when they are first used. One without its key is passed over, as if it were not named."""

    def __init__(self, settings: ServerConfig, models: Models) -> None:
        self._settings = settings
        self._app = settings.part(AppSettings).app
        self._models = models
        self._targets: list[Target] | None = None
        specs = [model.model for model in self._app.named] or [settings.model]
        self._is_local = all(spec.startswith("local:") for spec in specs)

    def count(self, parameters: Parameters) -> int:
        """How many variants there are. A model of this machine's has no time for several."""
        if self._is_local:
            return 1
        if parameters.input_mode == "video" or parameters.generation_type == "update":
            return UPDATE_VARIANTS if self._app.variants is None else min(UPDATE_VARIANTS, self._app.variants)
        return self._app.variants or CREATE_VARIANTS

    async def choose(self, count: int, shown: Parameters | None = None) -> list[Target]:
        """Those that can be shown what the user shows: a page that a model has not seen is a page of its own invention. A page
        that is there can be changed by others, too, where there are no better ones."""
        targets = await self._usable()
        if shown is not None and any(message.images for message in shown.messages):
            seeing = [target for target in targets if not isinstance(target.provider, TextOnly)]
            targets = _better(seeing, targets, shown, "see pictures: its operator can name one")
        if shown is not None and any(message.videos for message in shown.messages):
            watching = [target for target in targets if not target.spec.startswith(_NO_FILMS)]
            targets = _better(watching, targets, shown, "watch films: its operator can name one of Gemini's")
        return list(islice(cycle(targets), count))

    async def find_named(self, spec: str) -> Target:
        """The model that a run was begun with."""
        own = await self._models.find("default")
        if spec == own.spec:
            return own
        targets = await self._usable() if self._app.models else []
        found = next((target for target in targets if target.spec == spec), None) or await self._models.find_named(spec)
        if found is None:
            raise NotFound(f"the model '{spec}' is not one of this server's any more", code="model_not_found")
        return found

    async def _usable(self) -> list[Target]:
        config = self._settings
        if not self._app.models:
            if (variable := self._models.missing_key) is not None:
                raise BadParameters(f"No API key found for {config.model}: set {variable} where the server is started.")
            return [await self._models.find("default")]
        if self._targets is None:
            targets, missing = [], []
            for model in self._app.named:
                where = where_is(model.model, model.base_url, timeouts=config.timeouts, transport=config.transport)
                if (variable := missing_key(model.model, where)) is not None:
                    missing.append(variable)
                    continue
                where = msgspec.structs.replace(where, slots=config.slots, context=config.context)
                targets.append(Target(split_spec(model.model)[1], model.model, open_provider(model.model, where)))
            if not targets:
                names = ", ".join(dict.fromkeys(missing))
                raise BadParameters(f"No API key found for the models of this server: set {names} where it is started.")
            self._targets = targets
        return self._targets


def _better(able: list[Target], offered: list[Target], shown: Parameters, what: str) -> list[Target]:
    if not able and shown.generation_type == "create":
        raise BadParameters(f"No model of this server can {what} in [app] models.")
    return able or offered
