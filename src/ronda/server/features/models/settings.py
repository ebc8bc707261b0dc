"""Settings of more models."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct

from ronda.server.setting import Setting

_models = partial(Setting, "the model")

# Why another model is asked: too many requests, an error of the upstream's own, no connection or no answer in time, a key or a
# payment that it wants.
Reason: TypeAlias = Literal["rate_limit", "server_error", "connection", "access"]


class NamedModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model under a name. `fallback` are names of others, in their order; "default" is the server's own model.

    A model that failed is asked again after `cool_down` seconds, or when its upstream said.
    """

    model: str
    base_url: str | None = None
    vision: bool | None = None
    max_tokens: int | None = None  # of an answer, at most
    temperature: float | None = None
    top_p: float | None = None
    fallback: tuple[str, ...] = ()
    fallback_on: tuple[Reason, ...] = ("rate_limit", "server_error", "connection")
    cool_down: float = 30.0


class UpstreamLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """Of one upstream, over all processes that share a data folder or a database. None: as many as there are.

    A call waits at most `wait` seconds for its place; then it fails as a 429 does.
    """

    calls: int | None = None  # at a time
    requests: int | None = None  # a minute
    tokens: int | None = None  # a minute
    wait: float = 60.0


class ModelSettings(Struct, frozen=True):
    more_models: Annotated[
        tuple[str, ...],
        _models(
            "",
            "models besides the first, as `--model` given again names them, which requests ask for by name or as PROVIDER:NAME; "
            "see [several models](models.md#several-models-behind-one-server)",
        ),
    ] = ()
    models: Annotated[
        dict[str, NamedModel],
        _models(
            "",
            "more models, each under a name that requests may ask for: model, base_url, vision, max_tokens, temperature, top_p, "
            "fallback, fallback_on, cool_down; see [several models](models.md#several-models-behind-one-server)",
        ),
    ] = {}
    upstreams: Annotated[
        dict[str, UpstreamLimit],
        _models(
            "",
            "limits toward upstreams, by PROVIDER, PROVIDER:NAME or '*': calls, requests, tokens, wait; see "
            "[limits toward upstreams](models.md#limits-toward-upstreams)",
        ),
    ] = {}

    @property
    def model_places(self) -> list[tuple[str, str | None]]:
        return [(model.model, model.base_url) for model in self.named.values()]

    @property
    def named(self) -> dict[str, NamedModel]:
        """All models besides the server's own, by the names that requests give. A name of [models] is that one."""
        return {spec.partition(":")[2]: NamedModel(spec) for spec in self.more_models} | self.models
