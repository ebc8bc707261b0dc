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
from ronda.wire.shared.field_table import (
    BACKGROUND,
    DISABLED_TOOLS,
    LINGERS,
    PERMISSION,
    STOP,
    Field,
    Reads,
    Table,
    bounded,
)
from ronda.wire.shared.fields import BACKGROUND as BACKGROUND_FATE
from ronda.wire.shared.fields import (
    DISABLED,
    DISABLED_FATE,
    DISCONNECT,
    NOT_HERE,
    PERMISSION_FATES,
    field,
    misspelt,
    read_bounded,
    read_fields,
    whole,
)
from ronda.wire.shared.formats import read_response_format
from ronda.wire.shared.supplies import OUTPUTS_FATE, SKILLS, read_outputs, read_shell_skills

MAX_CHOICES = 8


class ChatRequest(DoorRequest, frozen=True, kw_only=True):
    answer: ChatOptions = ChatOptions()


# Most requests say no more than this, and looking for the rest would take as long as reading them.
_USUAL = frozenset({"model", "messages", "tools", "stream"})

# Fields with a meaning of their own that this server does not act on: passing them on would promise something.
_REFUSED = {
    "audio": "this server answers with text",
    **NOT_HERE,
}

# Words of Mistral's only. Not all clients of its API say who they are, but each of them needs its shapes.
_MISTRALS = frozenset({"safe_prompt", "random_seed"})

# What clients of other services send in every request although it asks for nothing, and most upstreams refuse by name.
_HARMLESS = {"safe_prompt": Raw(b"false")}

_CAPABILITIES = {name: Field(name, fate=fate) for name, fate in capabilities.FATES.items()}
_SESSION = {row.name: row for row in session_fields.ROWS}

# Every field that is known here, and what becomes of it. What is not named is passed on, as are the last ones.
TABLE: Final = Table(
    [
        Field("agent_permission", PERMISSION, "permission", PERMISSION_FATES["agent_permission"]),
        Field("approvals", fate=FATE),
        Field("background", BACKGROUND, "background", BACKGROUND_FATE),
        Field("background", LINGERS, "lingers", BACKGROUND_FATE),
        Field("code_execution_permission", PERMISSION, "permission", PERMISSION_FATES["code_execution_permission"]),
        Field(DISABLED, DISABLED_TOOLS, "disabled_tools", DISABLED_FATE),
        _CAPABILITIES["enable_code_execution"],
        _CAPABILITIES["enable_shell"],
        Field("files", fate=OUTPUTS_FATE),
        Field("function_call", fate="read: deprecated; goes with functions"),
        Field("functions", fate="read: deprecated; the answer has its call in the old form, too, and one at most"),
        Field("inputs", dict[str, Any], "inputs", "read: for an agent that has some"),
        Field("max_completion_tokens"),
        Field("max_tokens"),
        Field("max_tool_rounds", bounded(0), "max_tool_rounds"),
        Field("messages"),
        Field("model", str, "model"),
        Field("n", bounded(1, MAX_CHOICES), "n", f"read: up to {MAX_CHOICES}"),
        _SESSION["on_busy"],
        Field("on_disconnect", LINGERS, "lingers", DISCONNECT),
        Field("parallel_tool_calls", bool, "options.parallel_tool_calls"),
        Field(
            "random_seed", fate="read: Mistral's word for seed; who uses it gets Mistral's shapes, as with safe_prompt"
        ),
        Field("reasoning_effort", str, "options.reasoning_effort"),
        Field(
            "response_format", Reads(lambda fields, name: read_response_format(fields[name])), "options.response_format"
        ),
        Field("seed"),
        _SESSION["session_id"],
        _SESSION["session_mode"],
        Field(
            SKILLS,
            fate="read (ours): `skill_reference` and `inline`, as in the shell tool of Responses; on a server with "
            "--enable-shell",
        ),
        Field("stop", STOP, "options.stop"),
        Field("stream"),
        Field(
            "stream_options",
            fate="read: include_usage; stream_tool_calls, of which false sends every call in one piece; "
            "include_obfuscation can only be false",
        ),
        Field("temperature", float, "options.temperature"),
        Field("tool_choice"),
        Field("tools"),
        Field("top_p", float, "options.top_p"),
        Field(
            "truncate_sequence",
            bool,
            "truncates",
            "read: what the model finds too long is cut at its beginning, with a warning",
        ),
        _CAPABILITIES["web_search_options"],
        *[Field(name, fate=f"refused: {why}") for name, why in _REFUSED.items()],
        Field("modalities", fate='refused: only ["text"]; this server answers with text'),
        Field("safe_prompt", fate="passed on, where it is true"),
        Field("grammar", fate="passed on: to the local model; not next to response_format"),
        Field(
            "any other",
            fate="passed on: to an upstream of this API as it is; another gets what it knows, and `warnings` names the rest",
        ),
    ]
)
FIELDS: Final = TABLE.fates
_READ: Final = TABLE.names("read")


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
    members = TABLE.read(fields)
    tools, options = declared.specs, _read_options(fields, members.options)
    choice = read_choice(fields["tool_choice"]) if "tool_choice" in fields else ToolChoice()
    if is_old:
        tools, choice = deprecated_functions.read_functions(fields)
        options = replace(options, parallel_tool_calls=False)
    return ChatRequest(
        turns=read_messages(fields),
        tools=tools,
        needs=(*capabilities.read_needs(fields), *declared.needs, *skill_needs),
        container=declared.container | skills,
        outputs=read_outputs(fields),
        choice=choice,
        options=options,
        stream=stream,
        answer=answer if _MISTRALS.isdisjoint(fields) else answer.of_mistral(),
        **{"model": "default", **members.request},
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


def _read_options(fields: dict[str, Raw], members: dict[str, Any]) -> Options:
    # Some clients mean "no limit of mine" by 0. Whether a model can take it is the model's affair.
    limit = read_bounded(fields, "max_tokens", 0)
    newer_limit = read_bounded(fields, "max_completion_tokens", 0)
    extra = {name: value.copy() for name, value in fields.items() if name not in _READ and value != _HARMLESS.get(name)}
    if newer_limit is not None:  # newer models know this name only, older servers the other: say what the caller said
        extra["max_completion_tokens"] = fields["max_completion_tokens"].copy()
        if limit is not None:
            extra["max_tokens"] = fields["max_tokens"].copy()
    return Options(
        max_tokens=newer_limit if newer_limit is not None else limit,
        seed=whole(fields, "random_seed" if "seed" not in fields else "seed"),
        extra=extra,
        native_api=API if extra else "",
        **members,
    )
