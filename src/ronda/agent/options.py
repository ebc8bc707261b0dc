"""How a model is to sample, and whether it calls tools: what people write → `Options` and `ToolChoice`, refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

import msgspec
from msgspec import Raw

from ronda.core.plan import Options, ToolChoice
from ronda.errors import BadConfig, BadRequest


class ModelOptions(TypedDict, total=False):
    """How the model is to sample. Fields that only one provider knows go into `extra`."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Sequence[str]
    seed: int | None
    parallel_tool_calls: bool | None
    reasoning_effort: str | None
    extra: Mapping[str, Any]


AnyOptions: TypeAlias = Options | ModelOptions
AnyToolChoice: TypeAlias = ToolChoice | str | Mapping[str, Any]


def read_options(options: AnyOptions, under: Options) -> Options:
    """What is given, laid over what there was."""
    if isinstance(options, Options):
        return options
    if not isinstance(options, Mapping):
        raise BadConfig(f"options is {options!r:.200}; write options={{'temperature': 0}}")
    known = ModelOptions.__annotations__
    for name in options:
        if name not in known:
            from ronda._suggest import did_you_mean  # for mistakes only

            hint = did_you_mean(str(name), known, f"there is {', '.join(known)}.")
            raise BadConfig(f"options has {name!r}; {hint} What only one provider knows goes into 'extra'")
    fields: dict[str, Any] = {**options}
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    extra = fields.pop("extra", {})
    try:
        checked = msgspec.convert(fields, Options)
        more = {name: Raw(msgspec.json.encode(value)) for name, value in dict(extra).items()}
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BadConfig(f"options do not fit: {error}") from error
    changed = {name: getattr(checked, name) for name in fields}
    return msgspec.structs.replace(under, **changed, extra={**under.extra, **more})


def read_tool_choice(choice: AnyToolChoice) -> ToolChoice:
    """A `ToolChoice`; or "auto", "none", "required"; or one of OpenAI's forms for a function by its name."""
    if isinstance(choice, ToolChoice):
        return choice
    from ronda.wire.openai_chat.declarations import read_choice  # most agents leave the choice to the model

    try:
        return read_choice(Raw(msgspec.json.encode(choice)))
    except (BadRequest, TypeError) as error:
        raise BadConfig(str(error)) from error
