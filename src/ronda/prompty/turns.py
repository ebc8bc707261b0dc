"""Messages ⇄ turns: `turns_of` is what a model call needs, `messages_of` what a caller of Prompty is shown.

The Prompty profile of the wires. Where a message says something that the turns have no equivalent of, the JSON in which the
provider's dialect says it rides along and goes out as it is; other dialects get the turn only:

    a name, and whatever else a marker or thread   OpenAI chat has it besides role and content, on every message
    a file that is an address                      `{"type": "file", "file": {"url": …}}`
    `responses_function_call` in the metadata      the Responses API's own item, and the message's text as its output

The other way, what a tool returned is one message each, and calls are metadata of the message that has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
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
from ronda.prompty.message_parts import Message, Part, sniff
from ronda.prompty.segments import TemplateError
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_request import write_turn
from ronda.wire.openai_responses import API as RESPONSES
from ronda.wire.upstream.native import callers

_ITEM: Final = "responses_function_call"
# What turns have words for themselves, and what is no member of a message.
_IN_TURNS: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "nonce", _ITEM})


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """An empty system message is left out; tool results that follow each other are one turn."""
    turns: list[Turn] = []
    for message in messages:
        for turn in _turns(message):
            if type(turn) is ToolTurn and turns and type(turns[-1]) is ToolTurn:
                turns[-1] = ToolTurn((*turns[-1].results, *turn.results))
            else:
                turns.append(turn)
    return turns


def _turns(message: Message) -> list[Turn]:
    item = message.metadata.get(_ITEM)
    if isinstance(item, Mapping) and isinstance(item.get("name"), str):
        return _function_call(message, item)
    turns = _plain_turns(message)
    if len(turns) == 1 and message.role != "tool" and (native := _chat(message, turns[0])) is not None:
        return [msgspec.structs.replace(turns[0], native=native)]
    return turns


def _function_call(message: Message, item: Mapping[str, Any]) -> list[Turn]:
    value = message.metadata.get("tool_call_id")
    call_id = str(item.get("call_id") or value or item.get("id") or "")
    arguments = item.get("arguments", "{}")
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    native = Native(callers(RESPONSES), Raw(msgspec.json.encode([{"type": "function_call", **item}])))
    call = AssistantTurn((ToolCall(call_id, item["name"], written),), "tool_calls", native)
    return [call] if message.role == "assistant" else [call, ToolTurn((ToolResult(call_id, message.text),))]


def _chat(message: Message, turn: Turn) -> Native | None:
    more = {name: value for name, value in message.metadata.items() if name not in _IN_TURNS and _is_json(value)}
    if type(turn) is UserTurn and turn.name is not None:
        more.pop("name", None)
    remote = type(turn) is UserTurn and any(map(_is_address, turn.parts))
    if not (more or remote) or not (written := write_turn(turn)):
        return None
    fields: dict[str, Any] = msgspec.json.decode(written)
    if remote:
        fields["content"] = [_as_address(part) for part in fields["content"]]
    return Native(CHAT, Raw(msgspec.json.encode({**fields, **more})))


def _is_json(value: Any) -> bool:
    """A thread may come from a program, with things of its own in it."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_address(part: object) -> bool:
    return isinstance(part, File) and part.data is not None and part.data[:4].lower() == "http"


def _as_address(part: dict[str, Any]) -> dict[str, Any]:
    data = part.get("file", {}).get("file_data", "")
    return {"type": "file", "file": {"url": data}} if data[:4].lower() == "http" else part


# ---- what turns have words for ------------------------------------------------------------------------------------------


def _plain_turns(message: Message) -> list[Turn]:
    match message.role:
        case "system" | "developer":
            # Written here, since msgspec leaves out only the very object that is the default.
            role: Literal["system", "developer"] = "developer" if message.role == "developer" else "system"
            words: list[Turn] = [SystemTurn(message.text, role)] if message.text else []
            media = [_user_part(part) for part in message.content if part.kind != "text"]
            return [*words, UserTurn(tuple(media))] if media else words
        case "user":
            name = message.metadata.get("name")
            parts = tuple([_user_part(part) for part in message.content])
            return [UserTurn(parts, name if isinstance(name, str) else None)]
        case "assistant":
            return [_assistant_turn(message)]
        case _:
            return [ToolTurn((_tool_result(message),))]


def _assistant_turn(message: Message) -> AssistantTurn:
    if any(part.kind != "text" for part in message.content):
        raise TemplateError("an assistant's message holds text and tool calls, no media")
    calls = message.metadata.get("tool_calls") or ()
    parts: list[AssistantPart] = [Text(message.text)] if message.text or not calls else []
    parts += [_tool_call(call) for call in calls]
    return AssistantTurn(tuple(parts), "tool_calls" if calls else "stop")


def _tool_call(call: Any) -> ToolCall:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise TemplateError("a tool call in a thread is {id, function: {name, arguments}}")
    arguments = function.get("arguments", "{}")
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(str(call.get("id", "")), function["name"], written)


def _tool_result(message: Message) -> ToolResult:
    call = message.metadata.get("tool_call_id")
    if not isinstance(call, str):
        raise TemplateError("a tool's message in a thread needs its tool_call_id")
    media = [_user_part(part) for part in message.content if part.kind != "text"]
    return ToolResult(call, message.text, attachments=tuple([part for part in media if not isinstance(part, Text)]))


def _user_part(part: Part) -> UserPart:
    match part.kind:
        case "text":
            return Text(part.value)
        case "image":
            if _remote(part.value):
                return Image(part.value, part.detail)
            return Image(_data_url(part, "image"), part.detail)
        case "audio":
            if _remote(part.value):
                raise TemplateError("audio is sent as base64 or a data: URL; fetch the address first")
            media_type, data = _open_data_url(_data_url(part, "audio"))
            return Audio(data, _AUDIO.get(media_type, media_type.removeprefix("audio/")))
        case _:
            if part.id is not None:
                return File(id=part.id, name=part.name)
            return File(data=part.value if _remote(part.value) else _data_url(part, "file"), name=part.name)


_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")


def _remote(value: str) -> bool:
    return value[:8].lower().startswith(("http://", "https://"))


def _data_url(part: Part, kind: str) -> str:
    if part.value[:5].lower() == "data:":
        return part.value
    media_type = part.media_type or sniff(part.value)
    if not part.value or not _BASE64.fullmatch(part.value) or (media_type is None and kind != "file"):
        raise TemplateError(
            f"{kind} content is a URL, a data: URL, or base64 with its mediaType; files are not read here"
        )
    return f"data:{media_type or 'application/octet-stream'};base64,{''.join(part.value.split())}"


def _open_data_url(url: str) -> tuple[str, str]:
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        raise TemplateError("audio in a data: URL is base64")
    return head.split(";")[0], data


# ---- and back ---------------------------------------------------------------------------------------------------------


def messages_of(turns: Sequence[Turn]) -> list[Message]:
    found: list[Message] = []
    for turn in turns:
        match turn:
            case SystemTurn(text=text, role=role):
                found.append(Message(role, (Part("text", text),)))
            case UserTurn(parts=parts):
                found.append(Message("user", tuple([_part(part) for part in parts])))
            case AssistantTurn():
                words = turn.text or turn.refusal
                content = (Part("text", words),) if words else ()
                calls = turn.calls
                found.append(
                    Message("assistant", content, {"tool_calls": [_call(call) for call in calls]} if calls else {})
                )
            case ToolTurn(results=results):
                found += [_result(result) for result in results]
    return found


def count_of(turns: Sequence[Turn]) -> int:
    """How many messages `messages_of` would give."""
    return sum([len(turn.results) if type(turn) is ToolTurn else 1 for turn in turns])


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.as_written}}


def _result(result: ToolResult) -> Message:
    content = (Part("text", result.content), *[_part(item) for item in result.attachments])
    return Message("tool", content, {"tool_call_id": result.call_id})


def _part(part: UserPart) -> Part:
    match part:
        case Text(text=text):
            return Part("text", text)
        case Image(url=url, detail=detail):
            return Part("image", url, detail=detail)
        case Audio(data=data, format=audio_format):
            return Part("audio", data, f"audio/{audio_format}")
        case Video(url=url):
            return Part("video", url)
        case File(data=data, name=name, id=file_id):
            return Part("file", data or "", name=name, id=file_id)
