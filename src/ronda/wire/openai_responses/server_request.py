"""The Responses API as its server, the way in: request bytes → turns, tools, choice and options; or a 400 that names the field.

What is known is checked here, before any model is called. What only an upstream of this API has a word for goes to such an
upstream alone; an unknown field is passed on like any dialect's own fields. It does not know which models, tools or
responses exist: items that are only named, and the response before this one, are for the server to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL, user
from ronda.core.plan import Options, ResponseFormat, ToolChoice
from ronda.errors import BadRequest
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.approvals import DECISION_MARK, read_decisions
from ronda.wire.openai_responses.encrypted_content import Sealer
from ronda.wire.openai_responses.input import Input, read_items, references, split_input, untold
from ronda.wire.openai_responses.resource import StoredOptions
from ronda.wire.openai_responses.tools import forced_type, needs_of, read_choice, read_tools
from ronda.wire.own import session_fields
from ronda.wire.shared import capabilities
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.fields import (
    DISABLED,
    DISABLED_FATE,
    DISCONNECT,
    NOT_HERE,
    PERMISSION_FATES,
    bad,
    decode_field,
    field,
    misspelt,
    read_background,
    read_bounded,
    read_disabled_tools,
    read_disconnect,
    read_fields,
    read_permission,
    whole,
)
from ronda.wire.shared.formats import JsonSchema
from ronda.wire.shared.supplies import OUTPUTS_FATE, read_outputs

_MORE: Final = "passed on: to an upstream of this API; others have no word for it"
_SAME: Final = "passed on"

# Every field of a request, and what becomes of it. What is not named here is passed on as it is.
FIELDS: Final[dict[str, str]] = {
    "model": "read",
    "input": "read",
    "instructions": "read",
    "inputs": "read: for an agent that has some",
    "previous_response_id": "read",
    "store": "read",
    "stream": "read",
    "stream_options": "read: include_obfuscation; usage always comes",
    "include": "read: reasoning.encrypted_content, message.output_text.logprobs, web_search_call.action.sources and "
    "code_interpreter_call.outputs; what is of hosted tools goes to an upstream of this API that runs some",
    "tools": "read",
    "tool_choice": "read",
    "parallel_tool_calls": "read",
    "max_tool_calls": "read",
    "max_tool_rounds": "read",
    "max_output_tokens": "read",
    "max_tokens": "read: another name for max_output_tokens",
    "max_completion_tokens": "read: another name for max_output_tokens",
    "temperature": "read",
    "top_p": "read",
    "top_logprobs": "read",
    "stop": "read",
    "seed": "read",
    "text": "read: format; verbosity goes to an upstream of this API",
    "response_format": "read: as Chat Completions has it, where 'text.format' is not given",
    "reasoning": "read: effort; the rest goes to an upstream of this API",
    "reasoning_effort": "read: another name for reasoning.effort",
    "metadata": "read: kept with the response",
    **session_fields.FIELDS,
    "presence_penalty": _SAME,
    "frequency_penalty": _SAME,
    "safety_identifier": _SAME,
    "prompt_cache_key": _SAME,
    "user": _SAME,
    "service_tier": "passed on, where it is not auto or default",
    "truncation": "read: with auto, what the model finds too long is cut at its beginning, with a warning; also passed on to an "
    "upstream of this API",
    "truncate_sequence": "read: another word for truncation auto",
    "prompt_cache_options": _MORE,
    "prompt_cache_retention": _MORE,
    "image": _MORE,
    "personality": _MORE,
    "client_metadata": _MORE,
    "background": "read: the answer is 202 at once, or a stream that outlives its connection",
    "conversation": "refused: use previous_response_id",
    "prompt": "refused: this server keeps no prompts",
    "context_management": "refused: compact a conversation with POST /v1/responses/compact",
    "moderation": "refused: this server does not moderate",
    "access_programs": "refused: this server has none",
    "generate": "read: false makes a response without output, which calls no model, for others to go on from",
    "stream_id": "refused: a connection has one response at a time",
    "on_disconnect": DISCONNECT,
    "n": "refused: only 1; Chat Completions has several choices",
    **{name: f"refused: {why}" for name, why in NOT_HERE.items()},
    "files": OUTPUTS_FATE,
    **capabilities.FATES,
    **PERMISSION_FATES,
    DISABLED: DISABLED_FATE,
}
_REFUSED = {
    name: fate.removeprefix("refused: ")
    for name, fate in FIELDS.items()
    if fate.startswith("refused") and name not in capabilities.FIELDS
}
_NATIVE = tuple([name for name, fate in FIELDS.items() if fate == _MORE])
# What may be said although it is refused, since it asks for nothing.
_HARMLESS = {"n": b"1"}

_INCLUDABLE = frozenset(
    {
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
    }
)
_TRUE = Raw(b"true")


class ResponseRequest(DoorRequest, frozen=True, kw_only=True):
    answer: StoredOptions
    instructions: str | None = None
    previous: str | None = None
    # Where some only name others, or leave out what came of a call that ran here: turns are read when that is found.
    items: tuple[Raw, ...] = ()
    named: tuple[tuple[int, str], ...] = ()
    generates: bool = True  # else it only prepares what others go on from
    service_fields: dict[str, Raw] = msgspec.field(
        default_factory=dict
    )  # what is said of hosted tools beside them, for a service that runs some


def read_request(body: bytes, sealer: Sealer | None = None) -> ResponseRequest:
    return request_of(read_fields(body), sealer)


def request_of(fields: Mapping[str, Raw], sealer: Sealer | None = None) -> ResponseRequest:
    for name in fields.keys() & _REFUSED.keys():
        if bytes(fields[name]) != _HARMLESS.get(name):
            raise BadRequest(f"'{name}' is not supported here: {_REFUSED[name]}", param=name)
    stream: bool = field(fields, "stream", bool, False)
    if DECISION_MARK in bytes(fields.get("input", b"")) and (decisions := read_decisions(fields)):
        return ResponseRequest(model="", turns=(), stream=stream, decisions=decisions, answer=StoredOptions())
    store: bool = field(fields, "store", bool, True)
    include = _read_include(fields)
    tools = read_tools(field(fields, "tools", list[Raw], []))
    options, verbosity, summary = _read_options(fields, include)
    previous: str | None = field(fields, "previous_response_id", str, None)
    choice = read_choice(fields["tool_choice"], tools.waiting) if "tool_choice" in fields else ToolChoice()
    answer_options = StoredOptions(
        previous=previous,
        truncation=field(fields, "truncation", Literal["auto", "disabled"], "disabled"),
        summary=summary,
        verbosity=verbosity,
        top_logprobs=read_bounded(fields, "top_logprobs", 0, 20) or 0,
        service_tier=_tier(fields),
        metadata=_read_metadata(fields),
        safety_identifier=field(fields, "safety_identifier", str, None),
        prompt_cache_key=field(fields, "prompt_cache_key", str, None),
        user=field(fields, "user", str, None),
        store=store,
        background=read_background(fields),
        namespaces=tools.namespaces,
        customs=tools.customs,
        waiting=tools.waiting,
        servers=tools.servers,
        sealed="reasoning.encrypted_content" in include,
        shows_sources="web_search_call.action.sources" in include,
        obfuscated=_read_stream_options(fields, stream),
        code_outputs="code_interpreter_call.outputs" in include,
        hosted=tools.hosted,
        forced=forced_type(choice),
        warnings=misspelt(fields, FIELDS),
    )
    generates: bool = field(fields, "generate", bool, True)
    if answer_options.background and not generates:
        raise BadRequest("'generate' is false: there is nothing to do in the background", param="generate")
    read_input = _read_input(
        fields, sealer, may_be_empty=previous is not None or not generates, continues=previous is not None
    )
    needs = () if fields.keys().isdisjoint(capabilities.FIELDS) else capabilities.read_needs(fields)
    return ResponseRequest(
        model=field(fields, "model", str, "default"),
        turns=tuple(read_input.turns),
        ids=read_input.ids,
        items=read_input.items,
        named=tuple(read_input.named.items()),
        tools=tools.specs,
        choice=choice,
        needs=(*needs, *tools.needs, *needs_of(choice)),
        container=tools.container,
        outputs=read_outputs(fields) if "files" in fields else (),
        options=options,
        stream=stream,
        max_tool_rounds=read_bounded(fields, "max_tool_rounds", 0),
        max_tool_calls=read_bounded(fields, "max_tool_calls", 1),
        truncates=answer_options.truncation == "auto" or field(fields, "truncate_sequence", bool, False),
        session=None if session_fields.FIELDS.keys().isdisjoint(fields) else session_fields.read_session(fields),
        lingers=read_disconnect(fields),
        permission=read_permission(fields),
        disabled_tools=read_disabled_tools(fields),
        background=answer_options.background,
        keep="stored" if store else "memory",
        inputs=field(fields, "inputs", dict[str, Any], {}),
        answer=answer_options,
        instructions=field(fields, "instructions", str, None),
        previous=previous,
        generates=generates,
        service_fields=_service_fields(fields, include),
    )


def _service_fields(fields: Mapping[str, Raw], include: list[str]) -> dict[str, Raw]:
    wanted = [name for name in include if name.partition(".")[0].endswith(("_call", "_call_output"))]
    members = {"include": Raw(msgspec.json.encode(wanted))} if wanted else {}
    return {**members, "max_tool_calls": fields["max_tool_calls"].copy()} if "max_tool_calls" in fields else members


def _read_input(fields: Mapping[str, Raw], sealer: Sealer | None, *, may_be_empty: bool, continues: bool) -> Input:
    raw = fields.get("input")
    if may_be_empty and (raw is None or bytes(raw) == b"[]"):
        return Input()
    if raw is None:
        raise BadRequest("'input' is missing", param="input")
    items = split_input(raw)
    if isinstance(items, str):
        return Input([user(items)])
    named = references(items)
    if named or untold(items):
        return Input(items=tuple([item.copy() for item in items]), named=named)
    return read_items(items, sealer, continues=continues)


def _read_include(fields: Mapping[str, Raw]) -> list[str]:
    include: list[str] = field(fields, "include", list[str], [])
    for at, name in enumerate(include):
        if name not in _INCLUDABLE:
            raise bad(f"include[{at}]", f"is {name[:80]!r}; it can be {', '.join(sorted(_INCLUDABLE))}")
    return include


class _StreamOptions(Struct, frozen=True, forbid_unknown_fields=True):
    include_obfuscation: bool | None = None
    include_usage: bool | None = None


def _read_stream_options(fields: Mapping[str, Raw], stream: bool) -> bool:
    options: _StreamOptions | None = field(fields, "stream_options", _StreamOptions, None)
    if options is not None and not stream:
        raise BadRequest("'stream_options' goes with 'stream': true", param="stream_options")
    return bool(options is not None and options.include_obfuscation)


def _read_metadata(fields: Mapping[str, Raw]) -> dict[str, str]:
    metadata: dict[str, str] = field(fields, "metadata", dict[str, str], {})
    if len(metadata) > 16:
        raise bad("metadata", f"has {len(metadata)} pairs; there can be 16")
    for name, value in metadata.items():
        if len(name) > 64:
            raise bad("metadata", f"has a key of {len(name)} characters; it can have 64")
        if len(value) > 512:
            raise bad(f"metadata.{name}", f"has {len(value)} characters; it can have 512")
    return metadata


def _tier(fields: Mapping[str, Raw]) -> str:
    tier: str = field(fields, "service_tier", str, "default")
    return "default" if tier == "auto" else tier


class _Text(Struct, frozen=True, forbid_unknown_fields=True):
    format: Raw = NULL
    verbosity: str | None = None


class _Reasoning(Struct, frozen=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None  # its former name


def _read_options(fields: Mapping[str, Raw], include: list[str]) -> tuple[Options, str | None, str | None]:
    """How to sample, how much is to be said, and how much of a summary of the thoughts is wanted."""
    text: _Text = field(fields, "text", _Text, _Text())
    reasoning: _Reasoning = field(fields, "reasoning", _Reasoning, _Reasoning())
    extra = {name: raw.copy() for name, raw in fields.items() if name not in FIELDS or FIELDS[name] == _SAME}
    for name in ("presence_penalty", "frequency_penalty"):
        field(fields, name, float, 0.0)
    if read_bounded(fields, "top_logprobs", 0, 20) or "message.output_text.logprobs" in include:
        extra["logprobs"] = _TRUE  # said as Chat Completions does, which every provider knows
        extra["top_logprobs"] = Raw(b"%d" % (read_bounded(fields, "top_logprobs", 0, 20) or 0))
    if _tier(fields) != "default":
        extra["service_tier"] = fields["service_tier"].copy()
    native = {name: fields[name].copy() for name in _NATIVE if name in fields}
    if field(fields, "truncation", str, "disabled") == "auto":
        native["truncation"] = fields["truncation"].copy()
    if "reasoning" in fields:
        members: dict[str, Raw] = decode_field(fields["reasoning"], dict[str, Raw], "reasoning")
        if rest := {name: raw for name, raw in members.items() if name != "effort" and raw != NULL}:
            native["reasoning"] = Raw(msgspec.json.encode(rest))
    if text.verbosity is not None:
        native["verbosity"] = Raw(msgspec.json.encode(text.verbosity))
    stop: str | list[str] = field(fields, "stop", str | list[str], [])
    return (
        Options(
            max_tokens=_read_limit(fields),
            temperature=field(fields, "temperature", float, None),
            top_p=field(fields, "top_p", float, None),
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            seed=whole(fields, "seed"),
            parallel_tool_calls=field(fields, "parallel_tool_calls", bool, None),
            reasoning_effort=reasoning.effort or field(fields, "reasoning_effort", str, None),
            response_format=_read_format(text.format, fields),
            extra=extra,
            native=native,
            native_api=API if native else "",
        ),
        text.verbosity,
        reasoning.summary or reasoning.generate_summary,
    )


def _read_limit(fields: Mapping[str, Raw]) -> int | None:
    limits = {
        name: read_bounded(fields, name, 1) for name in ("max_output_tokens", "max_tokens", "max_completion_tokens")
    }
    members = {name: limit for name, limit in limits.items() if limit is not None}
    if len(set(members.values())) > 1:
        name = list(members)[1]
        raise BadRequest(f"'{name}' is another name for '{next(iter(members))}' here, and they differ", param=name)
    return next(iter(members.values()), None)


class _Format(JsonSchema, frozen=True, kw_only=True):
    """Flat as this API has it, or in `json_schema` as Chat Completions does."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Raw = NULL


def _read_format(raw: Raw, fields: Mapping[str, Raw]) -> ResponseFormat | None:
    path = "text.format"
    if raw == NULL:
        raw, path = fields.get("response_format", NULL), "response_format"
    if "grammar" in fields and raw != NULL:
        raise BadRequest(f"'grammar' and '{path}' are mutually exclusive; give one of them", param="grammar")
    if raw == NULL:
        return None
    answer_format: _Format = decode_field(raw, _Format, path)
    if answer_format.type == "text":
        return None
    if answer_format.type == "json_object":
        return ResponseFormat("json_object")
    if answer_format.json_schema == NULL:
        return answer_format.must_fit(path)
    nested: JsonSchema = decode_field(answer_format.json_schema, JsonSchema, f"{path}.json_schema")
    return nested.must_fit(f"{path}.json_schema")
