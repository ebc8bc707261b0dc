"""Settings of the app stream: which models write pages, what draws their pictures, what they are shown with."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from msgspec import Struct

from ronda.server.setting import AGENTS, Setting

_agents = partial(Setting, AGENTS)


class AppModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model for variants of a page: PROVIDER:NAME, as --model, and where it is if not at its vendor's."""

    model: str
    base_url: str | None = None


class AppConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Of /generate-code: which models write pages, in turn, and how many variants of a new one there are."""

    models: tuple[AppModel | str, ...] = ()
    variants: int | None = None
    public_url: str | None = None  # where browsers reach this server, if not under the name that they ask for

    @property
    def named(self) -> list[AppModel]:
        return [AppModel(model) if isinstance(model, str) else model for model in self.models]


class AppSettings(Struct, frozen=True):
    app: Annotated[
        AppConfig,
        _agents(
            "",
            "of /generate-code: models, variants, public_url",
            members={
                "models": _agents(
                    "--app-model MODEL",
                    "a model that writes pages for /generate-code, instead of --model; give it again for others, which "
                    "take turns",
                )
            },
        ),
    ] = AppConfig()
    images: Annotated[dict[str, Any], _agents("", "the service that draws pictures for pages")] = {}
    page: Annotated[dict[str, Any], _agents("", "what pages are shown with, for models that build pages")] = {}

    @property
    def model_places(self) -> list[tuple[str, str | None]]:
        return [(model.model, model.base_url) for model in self.app.named]

    def __repr__(self) -> str:
        """Without the key of the service that draws: this may end up in logs and tracebacks."""
        return "AppSettings(…)"
