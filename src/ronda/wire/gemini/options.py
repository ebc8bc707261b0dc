"""How to sample, and what form the answer takes → generationConfig and the other members of a request.

A field Gemini does not know is a 400 for the whole request, so only what is named here goes out; `unsent` names the rest.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.parts import NULL
from ronda.core.plan import Options, ResponseFormat
from ronda.schema.lower import GEMINI, lower, lower_json
from ronda.wire.codec.json import decode_or, present
from ronda.wire.gemini.models import Model

# A chat client's word for it → Gemini's, inside generationConfig.
RENAMED: Final = {
    "max_completion_tokens": "maxOutputTokens",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
}
# Gemini's own, passed on as they are. The second kind is joined with ours, and theirs wins; `tools` are those Google runs.
OWN: Final = frozenset({"safetySettings", "cachedContent", "labels", "serviceTier", "modelArmorConfig"})
JOINED: Final = frozenset({"generationConfig", "toolConfig", "tools"})


def unsent(options: Options) -> tuple[str, ...]:
    """The fields of a request that Gemini has no equivalent of."""
    known = RENAMED.keys() | OWN | JOINED
    names = [name for name, value in options.extra.items() if name not in known and value != NULL]
    # There is no switch for it (docker-agent#2959).
    return (*names, "parallel_tool_calls") if options.parallel_tool_calls is False else tuple(names)


def write_options(options: Options, model: Model, has_tools: bool, tool_config: dict[str, Any]) -> dict[str, Any]:
    config = present(
        maxOutputTokens=options.max_tokens,
        temperature=options.temperature,
        topP=options.top_p,
        stopSequences=options.stop or None,
        seed=options.seed,
    )
    if options.response_format is not None and (model.answers_with_both or not has_tools):
        # Else only the loop holds the answer to its form.
        config |= _write_format(options.response_format)
    if options.reasoning_effort is not None:
        thinking = model.thinking_config(options.reasoning_effort)
        if thinking is not None:
            config["thinkingConfig"] = thinking
    extra = {name: value for name, value in options.extra.items() if value != NULL}
    config |= {RENAMED[name]: value for name, value in extra.items() if name in RENAMED}
    config |= _members(extra.get("generationConfig"))
    tool_config = tool_config | _members(extra.get("toolConfig"))
    rest: dict[str, Any] = {name: value for name, value in extra.items() if name in OWN}
    if config:
        rest["generationConfig"] = config
    if tool_config:
        rest["toolConfig"] = tool_config
    return rest


def hosted_tools(options: Options) -> list[Raw]:
    """Tools that run on Google's side: [{"googleSearch": {}}]."""
    return decode_or(None, list[Raw] | None, options.extra.get("tools", NULL)) or []


def own_config(options: Options) -> dict[str, Any]:
    """What the caller itself says in Gemini's words of how to generate."""
    return _members(options.extra.get("generationConfig"))


def _members(raw: Raw | None) -> dict[str, Any]:
    """Of what is no object, none."""
    return {} if raw is None else decode_or({}, dict[str, Raw], raw)


def _write_format(answer_format: ResponseFormat) -> dict[str, Any]:
    config: dict[str, Any] = {"responseMimeType": "application/json"}
    if answer_format.type == "json_schema" and answer_format.schema != NULL:
        config["responseJsonSchema"] = _lower_format(bytes(answer_format.schema))
    return config


def _lower_format(raw: bytes) -> dict[str, Any]:
    """An answer need not be an object, as arguments must: another thing is lowered inside of one."""
    schema = msgspec.json.decode(raw)
    if not isinstance(schema, dict) or schema.get("type") == "object":
        return lower_json(raw, GEMINI).schema
    around = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    inside = {key: value for key, value in schema.items() if key not in around}
    whole = lower({**around, "type": "object", "properties": {"answer": inside}}, GEMINI).schema
    answer = whole["properties"]["answer"]
    return answer if isinstance(answer, dict) else {}
