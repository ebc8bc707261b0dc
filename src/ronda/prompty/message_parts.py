"""Messages and their parts as Prompty has them; rich inputs → parts and messages; messages → turns.

`Message` is the neutral form, with the words of the conformance vectors (`content`, `value`, where the schema's types say `parts`
and `source`). Nothing is fetched and no file is read: a media value is a URL, a data: URL, base64 or bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Audio,
    File,
    Image,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)
from ronda.prompty.segments import Rich, TemplateError

ROLES = ("system", "user", "assistant", "developer", "tool")


class Part(Struct, frozen=True, omit_defaults=True, rename={"media_type": "mediaType"}):
    """`value` is the text, or where the medium is: a URL, a data: URL, base64."""

    kind: str
    value: str
    media_type: str | None = None
    detail: str | None = None
    name: str | None = None
    id: str | None = None


class Message(Struct, frozen=True, omit_defaults=True):
    """`metadata` are the attributes of the role marker, or what else a thread's message held."""

    role: str
    content: tuple[Part, ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join([part.value for part in self.content if part.kind == "text"])


def read_thread(value: Any) -> list[Message] | None:
    """A list of messages, or None if it is something else."""
    if isinstance(value, Mapping) and isinstance(value.get("messages"), Sequence):
        value = value["messages"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return None
    if not all(isinstance(item, Message) or (isinstance(item, Mapping) and "role" in item) for item in value):
        return None
    return [read_message(item) for item in value]


def read_message(value: Any) -> Message:
    """`{role, content, …}`; content is a string or a list of parts, and every other key is metadata."""
    if isinstance(value, Message):
        return value
    role = str(value["role"]).lower()
    if role not in ROLES:
        raise TemplateError(f"a message of a thread has the role '{role}'; there are {', '.join(ROLES)}")
    content = value.get("content", value.get("parts"))
    extra = value.get("metadata")
    metadata = {key: item for key, item in value.items() if key not in ("role", "content", "parts", "metadata")}
    metadata |= dict(extra) if isinstance(extra, Mapping) else {}
    if content is None:
        return Message(role, (), metadata)
    if isinstance(content, str):
        return Message(role, (Part("text", content),), metadata)
    if not isinstance(content, Sequence):
        raise TemplateError("the content of a thread's message is a string or a list of parts")
    return Message(role, tuple([read_part(item) for item in content]), metadata)


_KINDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "file": "file",
    "input_file": "file",
}


def read_part(value: Any) -> Part:
    if isinstance(value, Part):
        return value
    if isinstance(value, str):
        return Part("text", value)
    found = value.get("kind", value.get("type")) if isinstance(value, Mapping) else None
    kind = _KINDS.get(str(found))
    if kind is None:
        raise TemplateError(f"a part of a thread's message has the kind '{found}'; there are text, image, audio, file")
    if kind == "text":
        return Part("text", str(value.get("value", value.get("text", ""))))
    return read_media(kind, value, f"a thread's {kind}")


def read_media(kind: str, value: Any, what: str) -> Part:
    """Whatever way people write an image, a file or a sound: `what` names it in the error."""
    if isinstance(value, Part):
        return value
    if isinstance(value, bytes | bytearray):
        encoded = base64.b64encode(bytes(value)).decode()
        return Part(kind, encoded, _sniff(encoded))
    if isinstance(value, str):
        return Part(kind, value)
    if isinstance(value, Mapping):
        for inner in ("image_url", "input_audio", "file", "url", "source", "value", "data", "file_data"):
            held = value.get(inner)
            if isinstance(held, str | bytes | bytearray | Mapping):
                found = read_media(kind, held, what)
                return msgspec.structs.replace(
                    found,
                    media_type=_first_text(value, "mediaType", "media_type", "mime_type")
                    or found.media_type
                    or _format(value),
                    detail=_first_text(value, "detail") or found.detail,
                    name=_first_text(value, "name", "filename") or found.name,
                )
        known = _first_text(value, "file_id", "id")
        if known:
            return Part(kind, "", name=_first_text(value, "name", "filename"), id=known)
    raise TemplateError(f"{what} is a URL, a data: URL, base64, bytes or a mapping with one of these")


def rich_parts(rich: Rich) -> list[Part]:
    """The parts an image, file or audio input becomes: several, when it is a list."""
    values = rich.value if isinstance(rich.value, list | tuple) else [rich.value]
    return [read_media(rich.kind, value, f"the {rich.kind} '{rich.name}'") for value in values]


def rich_messages(rich: Rich) -> list[Message]:
    messages = read_thread(rich.value)
    if messages is None:
        raise TemplateError(f"the thread '{rich.name}' is a list of messages: [{{role, content}}, …]")
    return messages


def to_turns(messages: Sequence[Message]) -> list[Turn]:
    """What the loop works on. An empty system message is left out; tool results that follow each other are one turn."""
    turns: list[Turn] = []
    for message in messages:
        if message.role in ("system", "developer"):
            media = [part for part in message.content if part.kind != "text"]
            if message.text:
                turns.append(SystemTurn(message.text, "developer" if message.role == "developer" else "system"))
            if media:
                turns.append(UserTurn(tuple([_user_part(part) for part in media])))
        elif message.role == "user":
            name = message.metadata.get("name")
            parts = tuple([_user_part(part) for part in message.content])
            turns.append(UserTurn(parts, name if isinstance(name, str) else None))
        elif message.role == "assistant":
            turns.append(_assistant_turn(message))
        else:
            result = _tool_result(message)
            if turns and isinstance(turns[-1], ToolTurn):
                turns[-1] = ToolTurn((*turns[-1].results, result))
            else:
                turns.append(ToolTurn((result,)))
    return turns


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
# The first bytes of a file say what it is; in base64, its first letters do.
_BEGINNINGS = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "JVBERi0": "application/pdf",
    "SUQz": "audio/mpeg",
    "//uQ": "audio/mpeg",
    "//vQ": "audio/mpeg",
    "T2dnUw": "audio/ogg",
    "ZkxhQ": "audio/flac",
}


def _remote(value: str) -> bool:
    return value[:8].lower().startswith(("http://", "https://"))


def _data_url(part: Part, kind: str) -> str:
    if part.value[:5].lower() == "data:":
        return part.value
    media_type = part.media_type or _sniff(part.value)
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


def _sniff(encoded: str) -> str | None:
    if encoded.startswith("UklGR"):  # RIFF: a sound or a picture, said eight bytes later
        try:
            inside = base64.b64decode(encoded[:16])[8:12]
        except ValueError:
            return None
        return {b"WAVE": "audio/wav", b"WEBP": "image/webp"}.get(inside)
    return next((found for start, found in _BEGINNINGS.items() if encoded.startswith(start)), None)


def _first_text(value: Mapping[str, Any], *keys: str) -> str | None:
    return next((value[key] for key in keys if isinstance(value.get(key), str) and value[key]), None)


def _format(value: Mapping[str, Any]) -> str | None:
    format = _first_text(value, "format")
    return f"audio/{format}" if format else None
