"""Messages of a request → turns. What a message says beyond what we understand stays with the turn, as it came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
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
)
from ronda.errors import BadRequest
from ronda.wire.codec.json import decode_members, encode, text_of
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.calls import LONG_ID
from ronda.wire.openai_chat.deprecated_functions import FunctionCall, is_old, translate_messages
from ronda.wire.openai_chat.quirks import MISTRALS
from ronda.wire.shared.custom_tools import arguments_for
from ronda.wire.shared.fields import MAX_MESSAGES, bad, check_count, decode_field
from ronda.wire.shared.message_parts import FileData, Part, PartReader, Sound, Url, read_sound, read_text, read_video
from ronda.wire.shared.told_calls import Record, recorded_turns


class _CallFunction(Struct, frozen=True):
    name: str
    arguments: str | dict[str, Raw] | None = None
    parameters: str | dict[str, Raw] | None = None


class _CustomCall(Struct, frozen=True):
    name: str
    input: str = ""


class _Call(Struct, frozen=True):
    function: _CallFunction | None = None
    id: str | None = None
    type: str | None = None
    custom: _CustomCall | None = None


class _Message(Struct, frozen=True):
    role: str
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


# The same without room for anything else: the quick way to see that nothing would be lost.


class _KnownUrl(Url, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownAudio(Sound, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownFile(FileData, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownPart(Part, frozen=True, forbid_unknown_fields=True):
    image_url: _KnownUrl | str | None = None
    video_url: _KnownUrl | str | None = None
    input_audio: _KnownAudio | None = None
    file: _KnownFile | None = None


class _KnownCallFunction(_CallFunction, frozen=True, forbid_unknown_fields=True):
    pass


class _KnownCall(_Call, frozen=True, forbid_unknown_fields=True):
    function: _KnownCallFunction | None = None


_Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


class _KnownMessage(_Message, frozen=True, forbid_unknown_fields=True):
    role: _Role
    content: str | list[_KnownPart] | None = None  # type: ignore[assignment]  # frozen, so a list of the narrower is one
    tool_calls: list[_KnownCall] | None = None  # type: ignore[assignment]


# And with what is understood although few write it.


class _ThoughtPart(Struct, frozen=True):
    text: str | None = None


class _AnyPart(Part, frozen=True):
    thinking: str | list[_ThoughtPart] | None = None  # Mistral's


class _AnyMessage(_Message, frozen=True):
    content: str | list[_AnyPart] | None = None  # type: ignore[assignment]
    agentic_tool_calls: list[Record] | None = None  # what ran here before it was said, as our answer reported it
    function_call: FunctionCall | None = None  # by clients that know no tools


_QUOTE: Final = ord('"')

_decode_known = msgspec.json.Decoder(list[_KnownMessage]).decode
_decode_one_known = msgspec.json.Decoder(_KnownMessage).decode


def read_messages(fields: dict[str, Raw]) -> tuple[Turn, ...]:
    raw = fields.get("messages")
    if raw is None:
        raise BadRequest("'messages' is missing", param="messages")
    if memoryview(raw)[0] == _QUOTE:
        return (UserTurn((Text(decode_field(raw, str, "messages")),)),)
    natives: list[Raw] | None = None
    try:
        messages: Sequence[_Message] = _decode_known(raw)
        for message in messages:
            if _says_more(message):
                natives = decode_field(raw, list[Raw], "messages")
                break
    except (msgspec.ValidationError, RecursionError):
        # Something unknown or something wrong: the second is an error, the first is kept as it came.
        messages = found = decode_field(raw, list[_AnyMessage], "messages")
        natives = decode_field(raw, list[Raw], "messages")
        if any(map(is_old, found)):
            natives = translate_messages(natives, found)
            messages = decode_field(Raw(encode(natives)), list[_AnyMessage], "messages")
    except (msgspec.DecodeError, UnicodeError):
        messages = decode_field(raw, list[_Message], "messages")
    if not messages:
        raise BadRequest("'messages' is empty", param="messages")
    check_count(messages, MAX_MESSAGES, "messages")
    turns: list[Turn] = []
    results: list[ToolResult] = []
    for index, message in enumerate(messages):
        native = _native(message, natives[index]) if natives is not None else None
        if message.role == "tool":
            results.append(_read_result(message, index, native))
            continue
        if results:
            turns.append(ToolTurn(tuple(results)))
            results = []
        if type(message) is _AnyMessage and message.agentic_tool_calls is not None:
            native = None if natives is None else _native(message, _without_records(natives[index]))
            if not message.tool_calls:  # else the run is found that has all of it
                check_count(message.agentic_tool_calls, MAX_MESSAGES, f"messages[{index}].agentic_tool_calls")
                turns += recorded_turns(message.agentic_tool_calls)
        turns.append(_read_message(message, index, native))
    if results:
        turns.append(ToolTurn(tuple(results)))
    return tuple(turns)


def _without_records(raw: Raw) -> Raw:
    members = decode_members(raw)
    members.pop("agentic_tool_calls", None)
    return Raw(encode(members))


def _says_more(message: _Message) -> bool:
    """Things we understand and could not write again: thoughts some upstreams want back, names of other roles, ids that
    some proxy hid something in."""
    if message.reasoning_content or message.reasoning:
        return True
    if message.name is not None and message.role not in ("user", "tool"):
        return True
    calls = message.tool_calls
    return calls is not None and any(call.id is not None and len(call.id) > LONG_ID for call in calls)


def _native(message: _Message, raw: Raw) -> Native | None:
    """The message as it came, where it says more than we would write."""
    if message.tool_calls and any(call.custom is not None for call in message.tool_calls):
        return None  # a model is offered a function for a custom tool, and has to find a call of one
    try:
        known = _decode_one_known(raw)
    except msgspec.ValidationError:
        return Native(API, raw.copy())
    return Native(API, raw.copy()) if _says_more(known) else None


def _read_message(message: _Message, at: int, native: Native | None) -> Turn:
    path = f"messages[{at}]"
    match message.role:
        case "user":
            content = message.content  # nearly always a text
            parts = (Text(content),) if type(content) is str else _PARTS.user_parts(content, f"{path}.content")
            return UserTurn(parts, message.name, native)
        case "assistant":
            return AssistantTurn(*_assistant_parts(message, path), native)
        case "system":
            return SystemTurn(_PARTS.plain_text(message.content, f"{path}.content"), "system", native)
        case "developer":
            return SystemTurn(_PARTS.plain_text(message.content, f"{path}.content"), "developer", native)
        case role:
            raise bad(f"{path}.role", f"is {role[:40]!r}; it can be {', '.join(get_args(_Role))}")


def _read_image(part: Part, path: str) -> UserPart:
    image = part.image_url
    if image is None:
        raise bad(f"{path}.image_url", "is missing")
    return Image(image) if isinstance(image, str) else Image(image.url, image.detail)


def _read_file(part: Part, path: str) -> UserPart:
    file = part.file
    if file is None:
        raise bad(f"{path}.file", "is missing")
    if file.file_url is not None:
        raise bad(
            f"{path}.file.file_url",
            "is not supported by Chat Completions; send 'file_data', or use Responses 'input_file'",
        )
    return File(file.file_data, file.filename, file.file_id)


_PARTS: Final[PartReader[Part]] = PartReader(
    {
        "text": read_text,
        "image_url": _read_image,
        "input_audio": read_sound,
        "video_url": read_video,
        "file": _read_file,
    },
    texts=frozenset({"text", "input_text"}),
)


def _assistant_parts(message: _Message, path: str) -> tuple[tuple[AssistantPart, ...], Literal["stop", "tool_calls"]]:
    parts: list[AssistantPart] = []
    if thought := message.reasoning_content or message.reasoning:
        parts.append(Reasoning(thought))
    if message.content is not None:
        parts += _said_parts(message.content, f"{path}.content")
    if message.refusal:
        parts.append(Refusal(message.refusal))
    calls = message.tool_calls or []
    seen: set[str] = set()
    for n, call in enumerate(calls):
        name, arguments = _called(call, f"{path}.tool_calls[{n}]")
        call_id = call.id or name  # as the reference server does, for clients that send none
        if call_id in seen:
            raise bad(f"{path}.tool_calls[{n}].id", f"is {call_id!r}, which another call of this message has already")
        seen.add(call_id)
        parts.append(ToolCall(call_id, name, arguments))
    if message.content is None and not calls and not message.refusal:
        raise bad(f"{path}.content", "is missing: no content was provided, expected tool calls to be provided")
    return tuple(parts), "tool_calls" if calls else "stop"


def _called(call: _Call, path: str) -> tuple[str, str]:
    if call.custom is not None:
        return call.custom.name, arguments_for(call.custom.input)
    if call.function is None:
        raise bad(f"{path}.function", "is missing")
    given = call.function.arguments
    return call.function.name, text_of(given if given is not None else call.function.parameters)


def _said_parts(content: str | Sequence[Part], path: str) -> list[AssistantPart]:
    """Mistral's clients come to this address too, and send back what its models thought and referred to."""
    if isinstance(content, str) or not any(part.type in MISTRALS for part in content):
        return [*_PARTS.assistant_parts(content, path)]
    parts: list[AssistantPart | None] = []
    for index, part in enumerate(content):
        if part.type not in MISTRALS:
            parts.append(_PARTS.assistant_part(part, f"{path}[{index}]"))
        elif isinstance(part, _AnyPart) and part.thinking:
            pieces = [_ThoughtPart(part.thinking)] if isinstance(part.thinking, str) else part.thinking
            parts.append(Reasoning("".join([piece.text or "" for piece in pieces])))
    return [part for part in parts if part is not None]


def _read_result(message: _Message, at: int, native: Native | None) -> ToolResult:
    path = f"messages[{at}]"
    if message.tool_call_id is None:
        raise bad(f"{path}.tool_call_id", "is missing")
    text, attachments = _PARTS.tool_output(message.content, f"{path}.content")
    return ToolResult(message.tool_call_id, text, attachments=attachments, native=native)
