"""The Responses API as its server, the way in: request bytes → turns, tools, choice and options; or a 400 that names the field.

What is known is checked here, before any model is called. What only an upstream of this API has an equivalent of goes to such an
upstream only; an unknown field is passed on like any dialect's own fields. It does not know which models, tools or
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
from ronda.wire.shared.field_table import (
    BACKGROUND,
    DISABLED_TOOLS,
    LINGERS,
    PERMISSION,
    STOP,
    WHOLE,
    Field,
    Table,
    bounded,
)
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
    read_bounded,
    read_fields,
)
from ronda.wire.shared.formats import JsonSchema
from ronda.wire.shared.supplies import OUTPUTS_FATE, read_outputs

_MORE: Final = "passed on: to an upstream of this API; others have no equivalent"
_SAME: Final = "passed on"
_LATER: Final = "read: the answer is 202 at once, or a stream that outlives its connection"

# Every field of a request, and what becomes of it. What is not named here is passed on as it is.
TABLE: Final = Table(
    [
        Field("model", str, "model"),
        Field("input"),
        Field("instructions", str, "instructions"),
        Field("inputs", dict[str, Any], "inputs", "read: for an agent that has some"),
        Field("previous_response_id", str, "previous"),
        Field("store"),
        Field("stream"),
        Field("stream_options", fate="read: include_obfuscation; usage always comes"),
        Field(
            "include",
            fate="read: reasoning.encrypted_content, message.output_text.logprobs, web_search_call.action.sources and "
            "code_interpreter_call.outputs; what is of hosted tools goes to an upstream of this API that runs some",
        ),
        Field("tools"),
        Field("tool_choice"),
        Field("parallel_tool_calls", bool, "options.parallel_tool_calls"),
        Field("max_tool_calls", bounded(1), "max_tool_calls"),
        Field("max_tool_rounds", bounded(0), "max_tool_rounds"),
        Field("max_output_tokens"),
        Field("max_tokens", fate="read: another name for max_output_tokens"),
        Field("max_completion_tokens", fate="read: another name for max_output_tokens"),
        Field("temperature", float, "options.temperature"),
        Field("top_p", float, "options.top_p"),
        Field("top_logprobs", bounded(0, 20), "answer.top_logprobs"),
        Field("stop", STOP, "options.stop"),
        Field("seed", WHOLE, "options.seed"),
        Field("text", fate="read: format; verbosity goes to an upstream of this API"),
        Field("response_format", fate="read: as Chat Completions has it, where 'text.format' is not given"),
        Field("reasoning", fate="read: effort; the rest goes to an upstream of this API"),
        Field("reasoning_effort", fate="read: another name for reasoning.effort"),
        Field("metadata", fate="read: kept with the response"),
        *session_fields.ROWS,
        Field("presence_penalty", fate=_SAME),
        Field("frequency_penalty", fate=_SAME),
        Field("safety_identifier", str, "answer.safety_identifier", _SAME),
        Field("prompt_cache_key", str, "answer.prompt_cache_key", _SAME),
        Field("user", str, "answer.user", _SAME),
        Field("service_tier", fate="passed on, where it is not auto or default"),
        Field(
            "truncation",
            Literal["auto", "disabled"],
            "answer.truncation",
            "read: with auto, what the model finds too long is cut at its beginning, with a warning; also passed on to an "
            "upstream of this API",
        ),
        Field("truncate_sequence", bool, "truncates", "read: another word for truncation auto"),
        *[
            Field(name, fate=_MORE)
            for name in ("prompt_cache_options", "prompt_cache_retention", "image", "personality", "client_metadata")
        ],
        Field("background", BACKGROUND, "background", _LATER),
        Field("background", LINGERS, "lingers", _LATER),
        Field("conversation", fate="refused: use previous_response_id"),
        Field("prompt", fate="refused: this server keeps no prompts"),
        Field("context_management", fate="refused: compact a conversation with POST /v1/responses/compact"),
        Field("moderation", fate="refused: this server does not moderate"),
        Field("access_programs", fate="refused: this server has none"),
        Field(
            "generate",
            bool,
            "generates",
            "read: false makes a response without output, which calls no model, for others to go on from",
        ),
        Field("stream_id", fate="refused: a connection has one response at a time"),
        Field("on_disconnect", LINGERS, "lingers", DISCONNECT),
        Field("n", fate="refused: only 1; Chat Completions has several choices"),
        *[Field(name, fate=f"refused: {why}") for name, why in NOT_HERE.items()],
        Field("files", fate=OUTPUTS_FATE),
        *[Field(name, fate=fate) for name, fate in capabilities.FATES.items()],
        *[Field(name, PERMISSION, "permission", fate) for name, fate in PERMISSION_FATES.items()],
        Field(DISABLED, DISABLED_TOOLS, "disabled_tools", DISABLED_FATE),
    ]
)
FIELDS: Final = TABLE.fates
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
    # Where some only name others, or leave out the result of a call that ran here: turns are read when that is found.
    items: tuple[Raw, ...] = ()
    named: tuple[tuple[int, str], ...] = ()
    generates: bool = True  # else it only prepares what others go on from
    service_fields: dict[str, Raw] = msgspec.field(
        default_factory=dict
    )  # what is said of hosted tools besides them, for a service that runs some


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
    members = TABLE.read(fields)
    options, verbosity, summary = _read_options(fields, include, members.options)
    previous: str | None = members.request.get("previous")
    choice = read_choice(fields["tool_choice"], tools.waiting) if "tool_choice" in fields else ToolChoice()
    answer_options = StoredOptions(
        previous=previous,
        summary=summary,
        verbosity=verbosity,
        service_tier=_tier(fields),
        metadata=_read_metadata(fields),
        store=store,
        background=members.request.get("background", False),
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
        **members.answer,
    )
    generates: bool = members.request.get("generates", True)
    if answer_options.background and not generates:
        raise BadRequest("'generate' is false: there is nothing to do in the background", param="generate")
    read_input = _read_input(
        fields, sealer, may_be_empty=previous is not None or not generates, continues=previous is not None
    )
    needs = () if fields.keys().isdisjoint(capabilities.FIELDS) else capabilities.read_needs(fields)
    if answer_options.truncation == "auto":
        members.request["truncates"] = True
    return ResponseRequest(
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
        keep="stored" if store else "memory",
        answer=answer_options,
        service_fields=_service_fields(fields, include),
        **{"model": "default", **members.request},
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
    for index, name in enumerate(include):
        if name not in _INCLUDABLE:
            raise bad(f"include[{index}]", f"is {name[:80]!r}; it can be {', '.join(sorted(_INCLUDABLE))}")
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


def _read_options(
    fields: Mapping[str, Raw], include: list[str], members: dict[str, Any]
) -> tuple[Options, str | None, str | None]:
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
        parts: dict[str, Raw] = decode_field(fields["reasoning"], dict[str, Raw], "reasoning")
        if rest := {name: raw for name, raw in parts.items() if name != "effort" and raw != NULL}:
            native["reasoning"] = Raw(msgspec.json.encode(rest))
    if text.verbosity is not None:
        native["verbosity"] = Raw(msgspec.json.encode(text.verbosity))
    return (
        Options(
            max_tokens=_read_limit(fields),
            reasoning_effort=reasoning.effort or field(fields, "reasoning_effort", str, None),
            response_format=_read_format(text.format, fields),
            extra=extra,
            native=native,
            native_api=API if native else "",
            **members,
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
