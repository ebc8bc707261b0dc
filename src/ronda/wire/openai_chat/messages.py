"""Messages of a request → turns. What a message says beyond what we understand stays with the turn, as it came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import (
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
from ronda.errors import BadRequest
from ronda.wire.fields import MAX_MESSAGES, bad, check_count, decode_field
from ronda.wire.json import text_of
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.calls import LONG_ID


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


# The same without room for anything else: the quick way to see that nothing would be lost.


class _KnownUrl(_Url, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownAudio(_AudioData, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownFile(_FileData, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownPart(_Part, frozen=True, forbid_unknown_fields=True):
    image_url: _KnownUrl | str | None = None
    video_url: _KnownUrl | str | None = None
    input_audio: _KnownAudio | None = None
    file: _KnownFile | None = None


class _KnownCallFunction(_CallFunction, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownCall(_Call, frozen=True, forbid_unknown_fields=True):
    function: _KnownCallFunction


class _KnownMessage(_Message, frozen=True, forbid_unknown_fields=True):
    content: str | list[_KnownPart] | None = None  # type: ignore[assignment]  # frozen, so a list of the narrower is one
    tool_calls: list[_KnownCall] | None = None  # type: ignore[assignment]


_ROLES = ("system", "developer", "user", "assistant", "tool")


_decode_known = msgspec.json.Decoder(list[_KnownMessage]).decode
_decode_one_known = msgspec.json.Decoder(_KnownMessage).decode


def read_messages(fields: dict[str, Raw]) -> tuple[Turn, ...]:
    raw = fields.get("messages")
    if raw is None:
        raise BadRequest("'messages' is missing", param="messages")
    if bytes(raw)[:1] == b'"':
        return (UserTurn((Text(decode_field(raw, str, "messages")),)),)
    natives: list[Raw] | None = None
    try:
        messages: Sequence[_Message] = _decode_known(raw)
        if any(_says_more(message) for message in messages):
            natives = decode_field(raw, list[Raw], "messages")
    except (msgspec.ValidationError, RecursionError):
        # Something unknown or something wrong: the second is an error, the first is kept as it came.
        messages = decode_field(raw, list[_Message], "messages")
        natives = decode_field(raw, list[Raw], "messages")
    except (msgspec.DecodeError, UnicodeError):
        messages = decode_field(raw, list[_Message], "messages")
    if not messages:
        raise BadRequest("'messages' is empty", param="messages")
    check_count(messages, MAX_MESSAGES, "messages")
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


def _says_more(message: _Message) -> bool:
    """Things we understand and could not write again: thoughts some upstreams want back, names of other roles, ids that
    some proxy hid something in."""
    thoughts = message.reasoning_content or message.reasoning
    long_ids = any(call.id is not None and len(call.id) > LONG_ID for call in message.tool_calls or ())
    return bool(thoughts) or long_ids or (message.name is not None and message.role not in ("user", "tool"))


def _native(raw: Raw) -> Native | None:
    """The message as it came, where it says more than we would write."""
    try:
        message = _decode_one_known(raw)
    except msgspec.ValidationError:
        return Native(API, raw.copy())
    return Native(API, raw.copy()) if _says_more(message) else None


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
    raise bad(f"{path}.role", reason)


def _text_only(message: _Message, path: str) -> str:
    if message.content is None:
        raise bad(f"{path}.content", "is missing")
    if isinstance(message.content, str):
        return message.content
    return "".join(_text_part(part, f"{path}.content[{n}]") for n, part in enumerate(message.content))


def _text_part(part: _Part, path: str) -> str:
    if part.text is None or part.type not in (None, "text", "input_text"):
        raise bad(path, f"is of type {part.type!r}; only text can stand here")
    return part.text


def _user_parts(message: _Message, path: str) -> tuple[UserPart, ...]:
    if message.content is None:
        raise bad(f"{path}.content", "is missing")
    if isinstance(message.content, str):
        return (Text(message.content),)
    if not message.content:
        raise bad(f"{path}.content", "is an empty list")
    return tuple([_user_part(part, f"{path}.content[{n}]") for n, part in enumerate(message.content)])


def _user_part(part: _Part, path: str) -> UserPart:
    kind = part.type or "text"
    read = _USER_PARTS.get(kind)
    if read is None:
        raise bad(f"{path}.type", f"is {kind[:40]!r}; it can be {', '.join(_USER_PARTS)}")
    made = read(part)
    if made is None:
        raise bad(f"{path}.{kind}", "is missing")
    if isinstance(made, File) and part.file is not None and part.file.file_url is not None:
        raise bad(
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
            raise bad(f"{path}.tool_calls[{n}].id", f"is {id!r}, which another call of this message has already")
        seen.add(id)
        parts.append(ToolCall(id, call.function.name, text_of(arguments)))
    if message.content is None and not calls and not message.refusal:
        raise bad(f"{path}.content", "is missing: no content was provided, expected tool calls to be provided")
    return tuple(parts), "tool_calls" if calls else "stop"


def _read_result(message: _Message, at: int, native: Native | None) -> ToolResult:
    path = f"messages[{at}]"
    if message.tool_call_id is None:
        raise bad(f"{path}.tool_call_id", "is missing")
    content = message.content
    if content is None:
        raise bad(f"{path}.content", "is missing")
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
