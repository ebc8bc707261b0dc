"""Chat Completions as its server, the way in: request bytes → turns, tools, choice and options; or a 400 that names the field.

What is known is checked here, before any model is called. What is not known is kept, field by field, to be passed on to an
upstream of the same dialect; nothing is dropped on the quiet. It does not know which models, tools or sessions exist.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.plan import Options, ToolChoice
from ronda.errors import BadRequest
from ronda.wire.openai_chat import API, deprecated_functions
from ronda.wire.openai_chat.declarations import NO_TOOLS, read_choice, read_tools
from ronda.wire.openai_chat.messages import read_messages
from ronda.wire.openai_chat.server_answer import ChatOptions
from ronda.wire.own import session_fields
from ronda.wire.shared import capabilities
from ronda.wire.shared.approvals import FATE, read_approvals
from ronda.wire.shared.capabilities import Need
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.fields import (
    BACKGROUND,
    DISABLED,
    DISABLED_FATE,
    DISCONNECT,
    NOT_HERE,
    PERMISSION,
    PERMISSION_FATES,
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
from ronda.wire.shared.formats import read_response_format
from ronda.wire.shared.supplies import OUTPUTS_FATE, SKILLS, read_outputs, read_shell_skills

MAX_CHOICES = 8


class ChatRequest(DoorRequest, frozen=True, kw_only=True):
    answer: ChatOptions = ChatOptions()


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
        *session_fields.FIELDS,
        "inputs",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "random_seed",
        "parallel_tool_calls",
        *deprecated_functions.FIELDS,
        "reasoning_effort",
        "response_format",
        "on_disconnect",
        "background",
        "truncate_sequence",
        "files",
        "approvals",
        SKILLS,
        *capabilities.FIELDS,
        *PERMISSION,
        DISABLED,
    ]
)

# Most requests say no more than this, and looking for the rest would take as long as reading them.
_USUAL = frozenset({"model", "messages", "tools", "stream"})

# Fields with a meaning of their own that this server does not act on: passing them on would promise something.
_REFUSED = {
    "audio": "this server answers with text",
    **NOT_HERE,
}

# Words of Mistral's alone. Not all clients of its API say who they are, but each of them needs its shapes.
_MISTRALS = frozenset({"safe_prompt", "random_seed"})

# What clients of other services send in every request although it asks for nothing, and most upstreams refuse by name.
_HARMLESS = {"safe_prompt": Raw(b"false")}

# Every field that is known here, and what becomes of it. What is not named is passed on, as are the last ones.
FIELDS: Final[dict[str, str]] = {
    **dict.fromkeys(sorted(_READ), "read"),
    **session_fields.FIELDS,
    "functions": "read: deprecated; the answer has its call in the old form, too, and one at most",
    "function_call": "read: deprecated; goes with functions",
    "n": f"read: up to {MAX_CHOICES}",
    "stream_options": "read: include_usage; stream_tool_calls, of which false sends every call in one piece; "
    "include_obfuscation can only be false",
    "inputs": "read: for an agent that has some",
    "truncate_sequence": "read: what the model finds too long is cut at its beginning, with a warning",
    "on_disconnect": DISCONNECT,
    "background": BACKGROUND,
    "files": OUTPUTS_FATE,
    "approvals": FATE,
    SKILLS: "read (ours): `skill_reference` and `inline`, as in the shell tool of Responses; on a server with --enable-shell",
    **capabilities.FATES,
    **PERMISSION_FATES,
    DISABLED: DISABLED_FATE,
    **{name: f"refused: {why}" for name, why in _REFUSED.items()},
    "modalities": 'refused: only ["text"]; this server answers with text',
    "random_seed": "read: Mistral's word for seed; who uses it gets Mistral's shapes, as with safe_prompt",
    "safe_prompt": "passed on, where it is true",
    "grammar": "passed on: to the local model; not beside response_format",
    "any other": "passed on: to an upstream of this API as it is; another gets what it knows, and `warnings` names the rest",
}


def read_request(body: bytes) -> ChatRequest:
    fields = read_fields(body)
    if "approvals" in fields and (decisions := read_approvals(fields)):
        return ChatRequest(model="", turns=(), stream=field(fields, "stream", bool, False), decisions=decisions)
    declared = read_tools(field(fields, "tools", list[Raw], [])) if "tools" in fields else NO_TOOLS
    if fields.keys() <= _USUAL and not declared.customs:
        return ChatRequest(
            model=field(fields, "model", str, "default"),
            turns=read_messages(fields),
            tools=declared.specs,
            needs=declared.needs,
            container=declared.container,
            stream=field(fields, "stream", bool, False),
            is_usual="tools" not in fields,
        )
    for name in fields.keys() & _REFUSED.keys():
        raise BadRequest(f"'{name}' is not supported here: {_REFUSED[name]}", param=name)
    modalities = field(fields, "modalities", list[str] | None, None)
    if modalities is not None and modalities != ["text"]:
        raise BadRequest("'modalities' can only be [\"text\"]: this server answers with text", param="modalities")
    if "grammar" in fields and "response_format" in fields:
        raise BadRequest("'grammar' and 'response_format' are mutually exclusive; give one of them", param="grammar")
    stream = field(fields, "stream", bool, False)
    streamed = read_stream_options(fields, stream)
    skills = read_shell_skills(fields)
    skill_needs = (Need(SKILLS, SKILLS, capabilities.HOSTED["container"]),) if skills.skills else ()
    is_old = not deprecated_functions.FIELDS.isdisjoint(fields)
    answer = ChatOptions(
        include_usage=bool(streamed.include_usage),
        whole_calls=streamed.stream_tool_calls is False or bool(declared.customs),
        customs=declared.customs,
        as_function_call=is_old,
        warnings=misspelt(fields, FIELDS),
    )
    tools, options = declared.specs, _read_options(fields)
    choice = read_choice(fields["tool_choice"]) if "tool_choice" in fields else ToolChoice()
    if is_old:
        tools, choice = deprecated_functions.read_functions(fields)
        options = replace(options, parallel_tool_calls=False)
    return ChatRequest(
        model=field(fields, "model", str, "default"),
        turns=read_messages(fields),
        tools=tools,
        needs=(*capabilities.read_needs(fields), *declared.needs, *skill_needs),
        container=declared.container | skills,
        outputs=read_outputs(fields),
        choice=choice,
        options=options,
        stream=stream,
        answer=answer if _MISTRALS.isdisjoint(fields) else answer.of_mistral(),
        n=read_bounded(fields, "n", 1, MAX_CHOICES) or 1,
        max_tool_rounds=read_bounded(fields, "max_tool_rounds", 0),
        truncates=field(fields, "truncate_sequence", bool, False),
        session=session_fields.read_session(fields),
        lingers=read_disconnect(fields),
        permission=read_permission(fields),
        disabled_tools=read_disabled_tools(fields),
        background=read_background(fields),
        inputs=field(fields, "inputs", dict[str, Any], {}),
    )


class _StreamOptions(Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    stream_tool_calls: bool | None = None  # Mistral's


_AS_USUAL = _StreamOptions()


def read_stream_options(fields: dict[str, Raw], stream: bool) -> _StreamOptions:
    options: _StreamOptions | None = field(fields, "stream_options", _StreamOptions, None)
    if options is None:
        return _AS_USUAL
    if not stream:
        raise BadRequest("'stream_options' goes with 'stream': true", param="stream_options")
    if options.include_obfuscation:
        where = "stream_options.include_obfuscation"
        raise BadRequest(f"'{where}' is not supported here: chunks are sent as they are", param=where)
    return options


def _read_options(fields: dict[str, Raw]) -> Options:
    # Some clients mean "no limit of mine" by 0. Whether a model can take it is the model's affair.
    limit = read_bounded(fields, "max_tokens", 0)
    newer_limit = read_bounded(fields, "max_completion_tokens", 0)
    extra = {name: value.copy() for name, value in fields.items() if name not in _READ and value != _HARMLESS.get(name)}
    if newer_limit is not None:  # newer models know this name alone, older servers the other: say what the caller said
        extra["max_completion_tokens"] = fields["max_completion_tokens"].copy()
        if limit is not None:
            extra["max_tokens"] = fields["max_tokens"].copy()
    stop: str | list[str] = field(fields, "stop", str | list[str], [])
    return Options(
        max_tokens=newer_limit if newer_limit is not None else limit,
        temperature=field(fields, "temperature", float, None),
        top_p=field(fields, "top_p", float, None),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=whole(fields, "random_seed" if "seed" not in fields else "seed"),
        parallel_tool_calls=field(fields, "parallel_tool_calls", bool, None),
        reasoning_effort=field(fields, "reasoning_effort", str, None),
        response_format=read_response_format(fields["response_format"]) if "response_format" in fields else None,
        extra=extra,
        native_api=API if extra else "",
    )
