"""Chat Completions as its server, the way in: request bytes → turns, tools, choice and options; or a 400 that names the field.

What is known is checked here, before any model is called. What is not known is kept, field by field, to be passed on to an
upstream of the same dialect; nothing is dropped on the quiet. It does not know which models, tools or sessions exist.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import Options, ResponseFormat, ToolChoice
from ronda.errors import BadRequest
from ronda.wire.asked import Asked
from ronda.wire.openai_chat.declarations import read_choice, read_tools
from ronda.wire.openai_chat.fields import decode_field, must_be_schema
from ronda.wire.openai_chat.messages import read_messages

MAX_CHOICES = 8

T = TypeVar("T")


class ChatRequest(Asked, frozen=True, kw_only=True):
    include_usage: bool = False


# Fields that mean something to Ronda and are read below; everything else is `extra`.
_READ = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "n",
        "max_tool_rounds",
        "session_id",
        "inputs",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "parallel_tool_calls",
        "reasoning_effort",
        "response_format",
        "on_disconnect",
    ]
)

# Fields with a meaning of their own that this server does not act on: passing them on would promise something.
_REFUSED = {
    "tool_dispatch_url": "it is the operator's to set, with --tool-dispatch-url",
    "functions": "it is deprecated; declare them in 'tools'",
    "function_call": "it is deprecated; use 'tool_choice'",
    "audio": "this server answers with text",
    "web_search_options": "this server has no web search",
    "files": "this server captures no files",
    "agent_permission": "this server has no approvals",
    "code_execution_permission": "this server has no approvals",
    "enable_code_execution": "this server has no code execution",
    "enable_shell": "this server has no shell",
}


# Every field that is known here, and what becomes of it. What is not named is passed on, as are the last ones.
FIELDS: Final[dict[str, str]] = {
    **dict.fromkeys(sorted(_READ), "read"),
    "n": f"read: up to {MAX_CHOICES}",
    "stream_options": "read: include_usage; include_obfuscation can only be false",
    "inputs": "read: for an agent that has some",
    "on_disconnect": 'read: only "cancel"',
    **{name: f"refused: {why}" for name, why in _REFUSED.items()},
    "modalities": 'refused: only ["text"]; this server answers with text',
    "grammar": "passed on: to the local model; not beside response_format",
    "any other": "passed on: to an upstream of this API as it is; another takes what it knows and refuses the rest by name",
}

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


def read_request(body: bytes) -> ChatRequest:
    try:
        if not body.isascii():
            body.decode()  # parts that are only passed on are not read by anybody else here
        fields = _decode_fields(body)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"the body is not a JSON object: {why_not(body, error)}") from error
    fields = {name: value for name, value in fields.items() if value != NULL}
    for name in fields.keys() & _REFUSED.keys():
        raise BadRequest(f"'{name}' is not supported here: {_REFUSED[name]}", param=name)
    if _field(fields, "on_disconnect", str, "cancel") != "cancel":
        raise BadRequest("'on_disconnect' can only be \"cancel\" on this server", param="on_disconnect")
    modalities = _field(fields, "modalities", list[str] | None, None)
    if modalities is not None and modalities != ["text"]:
        raise BadRequest("'modalities' can only be [\"text\"]: this server answers with text", param="modalities")
    if "grammar" in fields and "response_format" in fields:
        raise BadRequest("'grammar' and 'response_format' are mutually exclusive; give one of them", param="grammar")
    stream = _field(fields, "stream", bool, False)
    return ChatRequest(
        model=_field(fields, "model", str, "default"),
        turns=read_messages(fields),
        tools=read_tools(_field(fields, "tools", list[Raw], [])),
        choice=read_choice(fields["tool_choice"]) if "tool_choice" in fields else ToolChoice(),
        options=_read_options(fields),
        stream=stream,
        include_usage=_read_stream_options(fields, stream),
        n=_bounded(fields, "n", 1, MAX_CHOICES) or 1,
        max_tool_rounds=_bounded(fields, "max_tool_rounds", 0, None),
        session=_read_session(fields),
        inputs=_field(fields, "inputs", dict[str, Any], {}),
    )


def why_not(body: bytes, error: Exception) -> str:
    """msgspec calls half a surrogate pair "truncated", which sends people looking in the wrong place."""
    if re.search(rb"\\u[dD][89abAB]", body) and "truncated" in str(error):
        return "it has a lone surrogate (\\ud800 to \\udfff without its pair), which is no character"
    return str(error)


def _field(fields: dict[str, Raw], name: str, kind: Any, default: T) -> T:
    raw = fields.get(name)
    if raw is None:
        return default
    return decode_field(raw, kind, name)  # type: ignore[no-any-return]  # `kind` says which type it is


def _bounded(fields: dict[str, Raw], name: str, least: int, most: int | None) -> int | None:
    value: int | None = _field(fields, name, int, None)
    if value is not None and (value < least or (most is not None and value > most)):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise BadRequest(f"{name} must be {bounds}.", param=name)
    return value


def _read_session(fields: dict[str, Raw]) -> str | None:
    session: str | None = _field(fields, "session_id", str, None)
    if session is not None and not (0 < len(session) <= 256 and session.isprintable()):
        raise BadRequest("'session_id' must be 1 to 256 printable characters", param="session_id")
    return session


class _StreamOptions(Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


def _read_stream_options(fields: dict[str, Raw], stream: bool) -> bool:
    options: _StreamOptions | None = _field(fields, "stream_options", _StreamOptions, None)
    if options is not None and not stream:
        raise BadRequest("'stream_options' goes with 'stream': true", param="stream_options")
    if options is not None and options.include_obfuscation:
        where = "stream_options.include_obfuscation"
        raise BadRequest(f"'{where}' is not supported here: chunks are sent as they are", param=where)
    return bool(options is not None and options.include_usage)


def _read_options(fields: dict[str, Raw]) -> Options:
    limit = _bounded(fields, "max_tokens", 1, None)
    newer_limit = _bounded(fields, "max_completion_tokens", 1, None)
    extra = {name: value.copy() for name, value in fields.items() if name not in _READ}
    if newer_limit is not None:  # newer models know this name alone, older servers the other: say what the caller said
        extra["max_completion_tokens"] = fields["max_completion_tokens"].copy()
        if limit is not None:
            extra["max_tokens"] = fields["max_tokens"].copy()
    stop: str | list[str] = _field(fields, "stop", str | list[str], [])
    return Options(
        max_tokens=newer_limit if newer_limit is not None else limit,
        temperature=_field(fields, "temperature", float, None),
        top_p=_field(fields, "top_p", float, None),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=_field(fields, "seed", int, None),
        parallel_tool_calls=_field(fields, "parallel_tool_calls", bool, None),
        reasoning_effort=_field(fields, "reasoning_effort", str, None),
        response_format=_read_format(fields),
        extra=extra,
    )


class _JsonSchema(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "answer"
    schema: Raw = NULL
    strict: bool | None = None
    description: str | None = None


class _Format(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


def _read_format(fields: dict[str, Raw]) -> ResponseFormat | None:
    format: _Format | None = _field(fields, "response_format", _Format, None)
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return ResponseFormat("json_object")
    said = format.json_schema
    if said is None:
        raise BadRequest("'response_format.json_schema' is missing", param="response_format.json_schema")
    if said.schema != NULL:
        must_be_schema(said.schema, "response_format.json_schema.schema")
    schema = said.schema.copy() if said.schema != NULL else NULL
    return ResponseFormat("json_schema", said.name, schema, said.strict, said.description)
