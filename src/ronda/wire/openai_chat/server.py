"""Chat Completions as its server, the way in: request bytes → turns, tools, choice and options; or a 400 that names the field.

What is known is checked here, before any model is called. What is not known is kept, field by field, to be passed on to an
upstream of the same dialect; nothing is dropped on the quiet. It does not know which models, tools or sessions exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import (
    NULL,
    AssistantPart,
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.core.plan import ANY_OBJECT, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.schema.validate import check_schema
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.calls import text_of

MAX_CHOICES = 8
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

T = TypeVar("T")


class ChatRequest(Struct, frozen=True):
    """A request that was found to make sense, as far as that can be said without knowing the server."""

    model: str
    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...]
    choice: ToolChoice
    options: Options
    stream: bool
    include_usage: bool
    n: int
    max_tool_rounds: int | None
    session: str | None


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
    "grammar": "this server enforces no grammars",
}


def read_request(body: bytes) -> ChatRequest:
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"the body is not a JSON object: {_why_not(body, error)}") from error
    fields = {name: value for name, value in fields.items() if value != NULL}
    for name in fields.keys() & _REFUSED.keys():
        raise BadRequest(f"'{name}' is not supported here: {_REFUSED[name]}", param=name)
    if _field(fields, "on_disconnect", str, "cancel") != "cancel":
        raise BadRequest("'on_disconnect' can only be \"cancel\" on this server", param="on_disconnect")
    modalities = _field(fields, "modalities", list[str] | None, None)
    if modalities is not None and modalities != ["text"]:
        raise BadRequest("'modalities' can only be [\"text\"]: this server answers with text", param="modalities")
    stream = _field(fields, "stream", bool, False)
    return ChatRequest(
        model=_field(fields, "model", str, "default"),
        turns=_read_messages(fields),
        tools=_read_tools(_field(fields, "tools", list[Raw], [])),
        choice=read_choice(fields["tool_choice"]) if "tool_choice" in fields else ToolChoice(),
        options=_read_options(fields),
        stream=stream,
        include_usage=_read_stream_options(fields, stream),
        n=_bounded(fields, "n", 1, MAX_CHOICES) or 1,
        max_tool_rounds=_bounded(fields, "max_tool_rounds", 0, None),
        session=_read_session(fields),
    )


def _why_not(body: bytes, error: Exception) -> str:
    """msgspec calls half a surrogate pair "truncated", which sends people looking in the wrong place."""
    if re.search(rb"\\u[dD][89abAB]", body) and "truncated" in str(error):
        return "it has a lone surrogate (\\ud800 to \\udfff without its pair), which is no character"
    return str(error)


def _field(fields: dict[str, Raw], name: str, kind: Any, default: T) -> T:
    raw = fields.get(name)
    if raw is None:
        return default
    return decode_field(raw, kind, name)  # type: ignore[no-any-return]  # `kind` says which type it is


def decode_field(raw: Raw, kind: Any, path: str) -> Any:
    """Decode one field; what is wrong with it is said with its full path."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except RecursionError:
        raise BadRequest(f"'{path}' is nested too deeply", param=path) from None
    except msgspec.DecodeError as error:
        reason, _, where = str(error).partition(" - at `$")
        path += where.rstrip("`")
        raise BadRequest(f"'{path}': {reason}", param=path) from error
    except UnicodeError as error:
        raise BadRequest(f"'{path}' is not valid text: {error}", param=path) from error


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


class _StreamOptions(Struct, frozen=True):
    include_usage: bool | None = None


def _read_stream_options(fields: dict[str, Raw], stream: bool) -> bool:
    options: _StreamOptions | None = _field(fields, "stream_options", _StreamOptions, None)
    if options is not None and not stream:
        raise BadRequest("'stream_options' goes with 'stream': true", param="stream_options")
    return bool(options is not None and options.include_usage)


def _read_options(fields: dict[str, Raw]) -> Options:
    limit = _bounded(fields, "max_tokens", 1, None)
    newer_limit = _bounded(fields, "max_completion_tokens", 1, None)
    extra = {name: value.copy() for name, value in fields.items() if name not in _READ}
    if newer_limit is not None:  # newer models know this name alone, older servers the other: say what the caller said
        extra["max_completion_tokens"] = fields["max_completion_tokens"].copy()
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


class _JsonSchema(Struct, frozen=True):
    name: str = "answer"
    schema: Raw = NULL
    strict: bool | None = None
    description: str | None = None


class _Format(Struct, frozen=True):
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
        _must_be_schema(said.schema, "response_format.json_schema.schema")
    schema = said.schema.copy() if said.schema != NULL else NULL
    return ResponseFormat("json_schema", said.name, schema, said.strict, said.description)


def _must_be_schema(raw: Raw, path: str) -> dict[str, Any]:
    schema = decode_field(raw, dict[str, Any], path)
    if (problem := check_schema(schema)) is not None:
        raise BadRequest(f"'{path}' is not a JSON Schema: {problem}", param=path)
    return schema  # type: ignore[no-any-return]  # decoded as such


# ---- tools ------------------------------------------------------------------------------------------------------------


class _Function(Struct, frozen=True):
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    arguments: Raw = NULL  # another name some clients have for `parameters`
    strict: bool | None = None


class _Tool(_Function, frozen=True):
    """Nested as OpenAI has it, or flat as the Responses API does: both are in use on this endpoint."""

    type: str = "function"
    function: _Function | None = None


_HOSTED = {
    "web_search": 'tools[].type="web_search" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "web_search_preview": 'tools[].type="web_search_preview" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "shell": 'tools[].type="shell" is only supported by the Responses API.',
    "namespace": 'tools[].type="namespace" is only supported by the Responses API.',
    "code_interpreter": 'tools[].type="code_interpreter" is not available: this server has no code execution',
}


def _read_tools(raws: list[Raw]) -> tuple[ToolSpec, ...]:
    tools: list[ToolSpec] = []
    seen: set[str] = set()
    for at, raw in enumerate(raws):
        path = f"tools[{at}]"
        said: _Tool = decode_field(raw, _Tool, path)
        if said.type != "function":
            known = _HOSTED.get(said.type, f"'{path}.type' is {said.type!r}; only \"function\" is supported here")
            raise BadRequest(known, param=f"{path}.type")
        function: _Function = said.function if said.function is not None else said
        inner = f"{path}.function" if said.function is not None else path
        if function.name is None:
            raise BadRequest(f"'{inner}.name' is missing", param=f"{inner}.name")
        if not _NAME.fullmatch(function.name):
            raise BadRequest(
                f"'{inner}.name' is {function.name[:80]!r}; it must be 1 to 64 letters, digits, '_', '-' or '.'",
                param=f"{inner}.name",
            )
        if function.name in seen:
            raise BadRequest(f"'{path}': a tool named '{function.name}' is declared twice", param=path)
        seen.add(function.name)
        parameters = function.parameters if function.parameters != NULL else function.arguments
        needs_none = True
        if parameters == NULL:
            parameters = ANY_OBJECT
        else:
            schema = _must_be_schema(parameters, f"{inner}.parameters")
            needs_none = not schema.get("required")
        tools.append(
            ToolSpec(
                name=function.name,
                description=function.description or "",
                parameters=parameters.copy(),
                strict=function.strict,
                kind="caller",
                no_arguments_needed=needs_none,
            )
        )
    return tuple(tools)


class _Named(Struct, frozen=True):
    name: str | None = None
    type: str | None = None
    function: _Named | None = None


class _Allowed(Struct, frozen=True):
    mode: Literal["auto", "required"] = "auto"
    tools: list[_Named] = []


class _Choice(Struct, frozen=True):
    type: str
    function: _Named | None = None
    name: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[_Named] | None = None
    allowed_tools: _Allowed | None = None


def read_choice(raw: Raw) -> ToolChoice:
    """All forms in use: a word, a named function nested or flat, and `allowed_tools` nested or flat."""
    said: str | _Choice = decode_field(raw, str | _Choice, "tool_choice")
    if isinstance(said, str):
        if said not in ("none", "auto", "required"):
            raise BadRequest(
                f'\'tool_choice\' is {said!r}; it can be "none", "auto", "required" or an object', param="tool_choice"
            )
        return ToolChoice(said)  # type: ignore[arg-type]  # one of the three, as just seen
    if said.type == "function":
        name = said.function.name if said.function is not None else said.name
        if not name:
            raise BadRequest("'tool_choice' names no function", param="tool_choice.function.name")
        return ToolChoice("required", (name,), named=True)
    if said.type == "allowed_tools":
        allowed = said.allowed_tools or _Allowed(said.mode, said.tools or [])
        names = tuple(dict.fromkeys(_allowed_name(tool) for tool in allowed.tools))
        if not names:
            raise BadRequest("tool_choice.allowed_tools requires at least one tool.", param="tool_choice")
        return ToolChoice(allowed.mode, names)
    if said.type in _HOSTED:
        raise BadRequest(f"tool_choice forcing hosted tool `{said.type}` is not supported.", param="tool_choice")
    raise BadRequest(
        f'\'tool_choice.type\' is {said.type!r}; it can be "function" or "allowed_tools"', param="tool_choice"
    )


def _allowed_name(tool: _Named) -> str:
    name = tool.function.name if tool.function is not None else tool.name
    if not name:
        kind = tool.type or "?"
        raise BadRequest(
            f"tool_choice.allowed_tools contains hosted tool `{kind}`; hosted tool forcing/filtering is not supported.",
            param="tool_choice",
        )
    return name


def check_choice(choice: ToolChoice, names: frozenset[str]) -> None:
    """Whatever is chosen must be there: among the caller's tools or the server's."""
    if choice.mode == "required" and not names:
        raise BadRequest('tool_choice="required" requires at least one tool.', param="tool_choice")
    for name in choice.names:
        if name not in names:
            raise BadRequest(f"tool_choice references unknown function tool `{name}`.", param="tool_choice")


# ---- messages ---------------------------------------------------------------------------------------------------------


class _Url(Struct, frozen=True):
    url: str
    detail: str | None = None


class _AudioData(Struct, frozen=True):
    data: str
    format: str


class _FileData(Struct, frozen=True):
    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None
    file_url: str | None = None


class _Part(Struct, frozen=True):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: _Url | str | None = None
    video_url: _Url | str | None = None
    input_audio: _AudioData | None = None
    file: _FileData | None = None


class _CallFunction(Struct, frozen=True):
    name: str
    arguments: str | dict[str, Raw] | None = None
    parameters: str | dict[str, Raw] | None = None


class _Call(Struct, frozen=True):
    function: _CallFunction
    id: str | None = None
    type: str | None = None


class _Message(Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _KnownMessage(_Message, frozen=True, forbid_unknown_fields=True):
    """The same without room for anything else: the quick way to see that nothing would be lost."""


_ROLES = ("system", "developer", "user", "assistant", "tool")


def _read_messages(fields: dict[str, Raw]) -> tuple[Turn, ...]:
    raw = fields.get("messages")
    if raw is None:
        raise BadRequest("'messages' is missing", param="messages")
    if bytes(raw)[:1] == b'"':
        return (UserTurn((Text(decode_field(raw, str, "messages")),)),)
    natives: list[Raw] | None = None
    try:
        messages: list[_Message] = msgspec.json.decode(raw, type=list[_KnownMessage])
    except (msgspec.ValidationError, RecursionError):
        # Something unknown or something wrong: the second is an error, the first is kept as it came.
        messages = decode_field(raw, list[_Message], "messages")
        natives = msgspec.json.decode(raw, type=list[Raw])
    except (msgspec.DecodeError, UnicodeError):
        messages = decode_field(raw, list[_Message], "messages")
    if not messages:
        raise BadRequest("'messages' is empty", param="messages")
    turns: list[Turn] = []
    results: list[ToolResult] = []
    for at, message in enumerate(messages):
        native = _native(natives[at]) if natives is not None else None
        if message.role == "tool":
            results.append(_read_result(message, at, native))
            continue
        if results:
            turns.append(ToolTurn(tuple(results)))
            results = []
        turns.append(_read_message(message, at, native))
    if results:
        turns.append(ToolTurn(tuple(results)))
    return tuple(turns)


def _native(raw: Raw) -> Native | None:
    members = msgspec.json.decode(raw, type=dict[str, Raw])
    known = _Message.__struct_fields__
    odd = any(name not in known and value != NULL for name, value in members.items())
    return Native(API, raw.copy()) if odd else None


def _read_message(message: _Message, at: int, native: Native | None) -> Turn:
    path = f"messages[{at}]"
    match message.role:
        case "user":
            return UserTurn(_user_parts(message, path), message.name, native)
        case "assistant":
            return AssistantTurn(*_assistant_parts(message, path), native)
        case "system":
            return SystemTurn(_text_only(message, path), "system", native)
        case "developer":
            return SystemTurn(_text_only(message, path), "developer", native)
        case "function":
            reason = 'is "function", which is deprecated; use "tool" with a \'tool_call_id\''
        case role:
            reason = f"is {role[:40]!r}; it can be {', '.join(_ROLES)}"
    raise _bad(f"{path}.role", reason)


def _bad(path: str, reason: str) -> BadRequest:
    return BadRequest(f"'{path}' {reason}", param=path)


def _text_only(message: _Message, path: str) -> str:
    if message.content is None:
        raise _bad(f"{path}.content", "is missing")
    if isinstance(message.content, str):
        return message.content
    return "".join(_text_part(part, f"{path}.content[{n}]") for n, part in enumerate(message.content))


def _text_part(part: _Part, path: str) -> str:
    if part.text is None or part.type not in (None, "text", "input_text"):
        raise _bad(path, f"is of type {part.type!r}; only text can stand here")
    return part.text


def _user_parts(message: _Message, path: str) -> tuple[UserPart, ...]:
    if message.content is None:
        raise _bad(f"{path}.content", "is missing")
    if isinstance(message.content, str):
        return (Text(message.content),)
    if not message.content:
        raise _bad(f"{path}.content", "is an empty list")
    return tuple([_user_part(part, f"{path}.content[{n}]") for n, part in enumerate(message.content)])


def _user_part(part: _Part, path: str) -> UserPart:
    kind = part.type or "text"
    read = _USER_PARTS.get(kind)
    if read is None:
        raise _bad(f"{path}.type", f"is {kind[:40]!r}; it can be {', '.join(_USER_PARTS)}")
    made = read(part)
    if made is None:
        raise _bad(f"{path}.{kind}", "is missing")
    if isinstance(made, File) and part.file is not None and part.file.file_url is not None:
        raise _bad(
            f"{path}.file.file_url",
            "is not supported by Chat Completions; send 'file_data', or use Responses 'input_file'",
        )
    return made


def _image(part: _Part) -> UserPart | None:
    said = part.image_url
    return None if said is None else Image(said) if isinstance(said, str) else Image(said.url, said.detail)


def _video(part: _Part) -> UserPart | None:
    said = part.video_url
    return None if said is None else Video(said if isinstance(said, str) else said.url)


def _audio(part: _Part) -> UserPart | None:
    return None if part.input_audio is None else Audio(part.input_audio.data, part.input_audio.format)


def _file(part: _Part) -> UserPart | None:
    said = part.file
    return None if said is None else File(said.file_data, said.filename, said.file_id)


_USER_PARTS: dict[str, Callable[[_Part], UserPart | None]] = {
    "text": lambda part: None if part.text is None else Text(part.text),
    "image_url": _image,
    "input_audio": _audio,
    "video_url": _video,
    "file": _file,
}


def _assistant_parts(message: _Message, path: str) -> tuple[tuple[AssistantPart, ...], Literal["stop", "tool_calls"]]:
    parts: list[AssistantPart] = []
    if thought := message.reasoning_content or message.reasoning:
        parts.append(Reasoning(thought))
    if isinstance(message.content, str):
        if message.content:
            parts.append(Text(message.content))
    elif message.content is not None:
        for n, part in enumerate(message.content):
            if part.type == "refusal" and part.refusal is not None:
                parts.append(Refusal(part.refusal))
            else:
                parts.append(Text(_text_part(part, f"{path}.content[{n}]")))
    if message.refusal:
        parts.append(Refusal(message.refusal))
    calls = message.tool_calls or []
    seen: set[str] = set()
    for n, call in enumerate(calls):
        arguments = call.function.arguments if call.function.arguments is not None else call.function.parameters
        id = call.id or call.function.name  # as the reference server does, for clients that send none
        if id in seen:
            raise _bad(f"{path}.tool_calls[{n}].id", f"is {id!r}, which another call of this message has already")
        seen.add(id)
        parts.append(ToolCall(id, call.function.name, text_of(arguments)))
    if message.content is None and not calls and not message.refusal:
        raise _bad(f"{path}.content", "is missing: no content was provided, expected tool calls to be provided")
    return tuple(parts), "tool_calls" if calls else "stop"


def _read_result(message: _Message, at: int, native: Native | None) -> ToolResult:
    path = f"messages[{at}]"
    if message.tool_call_id is None:
        raise _bad(f"{path}.tool_call_id", "is missing")
    content = message.content
    if content is None:
        raise _bad(f"{path}.content", "is missing")
    if isinstance(content, str):
        return ToolResult(message.tool_call_id, content, native=native)
    texts: list[str] = []
    attachments: list[Image | Audio | Video | File] = []
    for n, part in enumerate(content):
        made = _user_part(part, f"{path}.content[{n}]")
        if isinstance(made, Text):
            texts.append(made.text)
        else:
            attachments.append(made)
    return ToolResult(message.tool_call_id, "".join(texts), attachments=tuple(attachments), native=native)
