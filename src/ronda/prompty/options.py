"""A file's model options → the loop's options, in the words of whoever is asked.

What a provider has no word for is left out without a sound, as the specification has it; `additionalProperties` go out as
they are and override nothing. `stream` among them is the file's wish for a stream, and no field of a request.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.plan import Options, ResponseFormat
from ronda.prompty.model import Model, ModelOptions, Prompty
from ronda.prompty.parameters import parameters_of

ANTHROPIC_TOKENS: Final = 4096  # the specification's default, where the wire would ask for what the model allows
STRUCTURED: Final = "structured_output"

_encode = msgspec.json.Encoder().encode

# Sent under these names beside what the loop has words of its own for.
_PENALTIES: Final = ("frequency_penalty", "presence_penalty")
_EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "openai-chat": _PENALTIES,
    "openai": (),
    "anthropic": ("top_k",),
    "gemini": ("top_k", *_PENALTIES),
    "mistral": _PENALTIES,
    "mistral-agent": _PENALTIES,
    "local": ("top_k", *_PENALTIES),
}
_ALL: Final = ("top_k", *_PENALTIES)


def options_of(prompty: Prompty, kind: str) -> Options:
    """`kind` is the provider of ours that is asked: `openai-chat`, `anthropic`, …"""
    options = _model_options(prompty.model)
    extra: dict[str, Raw] = {}
    for name in _EXTRAS.get(kind, _ALL):
        if (value := getattr(options, name)) is not None:
            extra[name] = Raw(_encode(value))
    limit = options.max_output_tokens
    if limit is not None and kind == "openai-chat":
        extra["max_completion_tokens"] = Raw(_encode(limit))  # never the deprecated max_tokens
    if limit is None and kind == "anthropic":
        limit = ANTHROPIC_TOKENS
    takes_more = kind != "openai"  # the Responses API has no word for these
    known = Options(
        max_tokens=limit,
        temperature=options.temperature,
        top_p=options.top_p,
        stop=(options.stop_sequences or ()) if takes_more else (),
        seed=options.seed if takes_more else None,
        parallel_tool_calls=options.allow_multiple_tool_calls,
        response_format=response_format_of(prompty),
    )
    more = {name: Raw(_encode(value)) for name, value in _additional(options).items()}
    extra = {**{name: value for name, value in more.items() if name not in _known_names(options, prompty)}, **extra}
    return msgspec.structs.replace(known, extra=extra) if extra else known


def response_format_of(prompty: Prompty) -> ResponseFormat | None:
    if not prompty.outputs:
        return None
    schema = Raw(_encode(parameters_of(prompty.outputs, strict=True)))
    return ResponseFormat("json_schema", STRUCTURED, schema, strict=True)


def wants_stream(prompty: Prompty) -> bool:
    return _model_options(prompty.model).additional_properties.get("stream") is True


def additional(prompty: Prompty) -> dict[str, Any]:
    """What goes out as it is."""
    return _additional(_model_options(prompty.model))


def _model_options(model: Model | None) -> ModelOptions:
    return model.options if model is not None and model.options is not None else ModelOptions()


def _additional(options: ModelOptions) -> dict[str, Any]:
    return {name: value for name, value in options.additional_properties.items() if name != "stream"}


# The names in a request of each option that the file may say under its own: additional properties override nothing.
_NAMES: Final = {
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "stop_sequences": ("stop", "stop_sequences"),
    "seed": ("seed",),
    "allow_multiple_tool_calls": ("parallel_tool_calls",),
}
_OF_THE_REQUEST: Final = frozenset({"model", "messages", "input", "tools", "stream_options"})


def _known_names(options: ModelOptions, prompty: Prompty) -> frozenset[str]:
    names = {name for option, names in _NAMES.items() if getattr(options, option) is not None for name in names}
    return _OF_THE_REQUEST | names | ({"response_format"} if prompty.outputs else set())
