"""What a provider says about its models → `ModelInfo`, and a table of capabilities → what the provider left out.

Some providers list context windows and modalities, others only names. What the provider says always wins, an empty list
too: a table only fills in what is missing. The caller brings the table; nothing is fetched here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig

Raw: TypeAlias = Mapping[str, Any]


class ModelInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A model that a provider has. None is "not said"; an empty tuple is said. `additional_properties` is the raw record."""

    id: str
    display_name: str | None = None
    owned_by: str | None = None
    context_window: int | None = None
    input_modalities: tuple[str, ...] | None = None
    output_modalities: tuple[str, ...] | None = None
    additional_properties: dict[str, Any] | None = None


# ---- a provider's record ------------------------------------------------------------------------------------------------

_WINDOWS = ("maxContextLength", "contextWindow", "context_length")
_MORE_WINDOWS = ("max_context_length", "context_window", "max_model_len", "max_input_tokens")
_INPUTS = ("inputModalities", "input_modalities", "supportedInputModalities")
_OUTPUTS = ("outputModalities", "output_modalities", "supportedOutputModalities")


def map_model(provider: str, raw: Raw, shape: str | None = None) -> ModelInfo:
    """One record of a provider's list. `shape` says which of several lists it is from; else it is told by its fields.

    An unknown provider is read as one that speaks OpenAI's interface, whose servers each add fields of their own.
    """
    if shape is None and provider in ("foundry", "azure"):
        shape = "catalog" if "id" in raw and "properties" not in raw else "deployment"
    match provider, shape:
        case "anthropic", _:
            return msgspec.structs.replace(_plain(raw), owned_by="anthropic")
        case "foundry" | "azure", "deployment":
            return _deployment(raw)
        case _:
            return _plain(raw)


def map_models(provider: str, answer: Raw | Sequence[Raw], shape: str | None = None) -> list[ModelInfo]:
    """The whole answer of a list: the records are under `data`, `value` or `models`, or are the answer."""
    records: Any = answer
    if isinstance(answer, Mapping):
        records = next((answer[key] for key in ("data", "value", "models") if isinstance(answer.get(key), list)), [])
    return [map_model(provider, record, shape) for record in records if isinstance(record, Mapping)]


def _plain(raw: Raw) -> ModelInfo:
    return ModelInfo(
        id=_text(raw, "id", "name") or "",
        display_name=_text(raw, "display_name", "displayName"),
        owned_by=_text(raw, "owned_by", "ownedBy"),
        context_window=_count(raw, *_WINDOWS, *_MORE_WINDOWS),
        input_modalities=_words(raw, *_INPUTS),
        output_modalities=_words(raw, *_OUTPUTS),
        additional_properties=dict(raw),
    )


def _deployment(raw: Raw) -> ModelInfo:
    """Both forms: flat, from a project's own list, and nested under `properties`, from the management interface."""
    properties = _inside(raw, "properties")
    model = _inside(properties, "model")
    capabilities = next(
        (found for place in (properties, model, raw) if (found := _inside(place, "capabilities"))), dict[str, Any]()
    )
    places = (capabilities, model, raw)
    return ModelInfo(
        id=_text(raw, "name", "id") or "",
        display_name=_text(raw, "modelName") or _text(model, "name"),
        owned_by=_text(raw, "modelPublisher") or _text(model, "publisher") or "azure",
        context_window=next((window for one in places if (window := _count(one, *_WINDOWS)) is not None), None),
        input_modalities=next((words for one in places if (words := _words(one, *_INPUTS)) is not None), None),
        output_modalities=next((words for one in places if (words := _words(one, *_OUTPUTS)) is not None), None),
        additional_properties=dict(raw),
    )


def _inside(raw: Raw, key: str) -> Raw:
    found = raw.get(key)
    return found if isinstance(found, Mapping) else {}


def _text(raw: Raw, *keys: str) -> str | None:
    return next((value for key in keys if isinstance(value := raw.get(key), str)), None)


def _count(raw: Raw, *keys: str) -> int | None:
    for key in keys:
        value = raw.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)  # capabilities of a deployment are all text
    return None


def _words(raw: Raw, *keys: str) -> tuple[str, ...] | None:
    for key in keys:
        value = raw.get(key)
        if isinstance(value, list):
            return tuple(word for word in value if isinstance(word, str))
        if isinstance(value, str):
            return tuple(word.strip() for word in value.split(",") if word.strip())
    return None


# ---- what the record lacks ------------------------------------------------------------------------------------------------


class Capability(Struct, frozen=True, rename="camel"):
    """What models have whose name is `prefix`, or begins with it and continues with something new."""

    prefix: str
    context_window: int | None = None
    input_modalities: tuple[str, ...] | None = None
    output_modalities: tuple[str, ...] | None = None

    def covers(self, model: str) -> bool:
        """`gpt-4` covers `gpt-4-0613`, and not `gpt-4o`, `gpt-45` or `gpt-4.1`: those are other names."""
        after = model[len(self.prefix) : len(self.prefix) + 1]
        return model.startswith(self.prefix) and not (after.isascii() and after.isalnum()) and after != "."


class Capabilities(Struct, frozen=True):
    """The table: by provider, in any order."""

    providers: dict[str, tuple[Capability, ...]] = {}

    def find(self, provider: str, model: str) -> Capability | None:
        fitting = [known for known in self.providers.get(provider, ()) if known.covers(model)]
        return max(fitting, key=lambda known: len(known.prefix), default=None)


def read_capabilities(path: Path) -> Capabilities:
    """What the models of providers can do: a table in a JSON file, for `enrich`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Capabilities)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadConfig(f"{path} is not a table of model capabilities: {error}") from error


def enrich(info: ModelInfo, provider: str, capabilities: Capabilities) -> ModelInfo:
    """The same model with what it lacks filled in from the table; unchanged if the table doesn't know it."""
    known = capabilities.find(provider, info.id)
    if known is None:
        return info
    return msgspec.structs.replace(
        info,
        context_window=known.context_window if info.context_window is None else info.context_window,
        input_modalities=known.input_modalities if info.input_modalities is None else info.input_modalities,
        output_modalities=known.output_modalities if info.output_modalities is None else info.output_modalities,
    )
