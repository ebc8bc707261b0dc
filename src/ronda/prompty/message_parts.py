"""Messages and their parts as Prompty has them; threads and rich inputs → messages and parts.

`Message` is the neutral form, with the words of the conformance vectors (`content`, `value`, where the schema's types say `parts`
and `source`). Nothing is fetched and no file is read: a media value is a URL, a data: URL, base64 or bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

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
        return Part(kind, encoded, sniff(encoded))
    if isinstance(value, str):
        return Part(kind, value)
    if isinstance(value, Mapping):
        for inner in ("image_url", "input_audio", "file", "url", "source", "value", "data", "file_data"):
            content = value.get(inner)
            if isinstance(content, str | bytes | bytearray | Mapping):
                found = read_media(kind, content, what)
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


def sniff(encoded: str) -> str | None:
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
    audio_format = _first_text(value, "format")
    return f"audio/{audio_format}" if audio_format else None
