"""Single blocks of what a user says, and of what tools answered → parts. Every model must be able to hear them.

Pictures and files are parts of their own; text documents and search results are words, with their titles. What our own
writer would say in other words is told by `is_plain`: the turn keeps the JSON of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL, Attachment, File, Image, Native, Text, ToolResult, UserPart
from ronda.wire.anthropic import API
from ronda.wire.codec.json import UNREADABLE, encode
from ronda.wire.shared.fields import bad, decode_field


class _Source(Struct, frozen=True):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: Raw = NULL


class UserBlock(Struct, frozen=True):
    """Any block: the members that are read of one or the other."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    source: _Source | str | None = None
    title: str | None = None
    context: str | None = None
    file_id: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Raw] | None = None
    tool_use_id: str | None = None
    content: Raw = NULL
    is_error: bool | None = None
    citations: Raw = NULL


# The same without room for anything else: what our writer says in the same way.


class _PlainText(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str


class _PlainData(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="base64"):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class _PlainUrl(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="url"):
    url: str


class _PlainImage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="image"):
    source: _PlainData | _PlainUrl


class _PlainResult(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str = ""
    is_error: bool = False


_decode_plain = msgspec.json.Decoder(_PlainText | _PlainImage | _PlainResult).decode


def is_plain(raw: Raw) -> bool:
    try:
        _decode_plain(raw)
    except UNREADABLE:
        return False
    return True


def need(value: str | None, path: str) -> str:
    if value is None:
        raise bad(path, "is missing")
    return value


_Parts: TypeAlias = Sequence[UserPart]


def _text(block: UserBlock, path: str) -> _Parts:
    return (Text(need(block.text, f"{path}.text")),)


def _source(block: UserBlock, path: str, kinds: tuple[str, ...]) -> _Source:
    source = block.source
    if not isinstance(source, _Source):
        raise bad(f"{path}.source", "is missing" if source is None else "must be an object")
    if source.type not in kinds:
        raise bad(f"{path}.source.type", f"is {source.type[:40]!r}; it can be {', '.join(kinds)}")
    return source


def _data(source: _Source, path: str, default: str | None = None) -> str:
    media_type = source.media_type or default
    if media_type is None:
        raise bad(f"{path}.source.media_type", "is missing")
    return f"data:{media_type};base64,{need(source.data, f'{path}.source.data')}"


def _image(block: UserBlock, path: str) -> _Parts:
    source = _source(block, path, ("base64", "url", "file"))
    if source.type == "base64":
        return (Image(_data(source, path)),)
    if source.type == "url":
        return (Image(need(source.url, f"{path}.source.url")),)
    return (File(id=need(source.file_id, f"{path}.source.file_id")),)


def _document(block: UserBlock, path: str) -> _Parts:
    """Text is said as text, with its title: every model can read that, and few take a file of it."""
    source = _source(block, path, ("base64", "text", "content", "url", "file"))
    match source.type:
        case "base64":
            return (File(_data(source, path, "application/pdf"), block.title),)
        case "url":
            return (File(need(source.url, f"{path}.source.url"), block.title),)
        case "file":
            return (File(None, block.title, need(source.file_id, f"{path}.source.file_id")),)
        case "text":
            inside: _Parts = (Text(need(source.data, f"{path}.source.data")),)
        case _:
            inside = _contents(source.content, f"{path}.source.content", _FLAT)
    about = {"title": block.title, "context": block.context}
    return _within("document", {name: value for name, value in about.items() if value}, inside)


def _search_result(block: UserBlock, path: str) -> _Parts:
    if not isinstance(block.source, str):
        raise bad(f"{path}.source", "is missing" if block.source is None else "must be a string")
    about = {"source": block.source, "title": need(block.title, f"{path}.title")}
    return _within("search_result", about, _contents(block.content, f"{path}.content", _FLAT))


def _within(tag: str, about: dict[str, str], inside: _Parts) -> _Parts:
    head = "".join(f" {name}={encode(value).decode()}" for name, value in about.items())
    if all(type(part) is Text for part in inside):
        words = "\n".join([part.text for part in inside if type(part) is Text])
        return (Text(f"<{tag}{head}>\n{words}\n</{tag}>"),)
    return (Text(f"<{tag}{head}>"), *inside, Text(f"</{tag}>"))


def _upload(block: UserBlock, path: str) -> _Parts:
    return (File(id=need(block.file_id, f"{path}.file_id")),)


_Read: TypeAlias = Callable[[UserBlock, str], _Parts]
_FLAT: Final[dict[str, _Read]] = {"text": _text, "image": _image}
READ: Final[dict[str, _Read]] = {
    **_FLAT,
    "document": _document,
    "search_result": _search_result,
    "container_upload": _upload,
}


def _contents(raw: Raw, path: str, kinds: dict[str, _Read]) -> _Parts:
    """A string, or blocks inside a block. Of kinds that are not read (`tool_reference`, `browser_state`) the JSON says most."""
    if raw == NULL:
        return ()
    content: str | list[Raw] = decode_field(raw, str | list[Raw], path)
    if isinstance(content, str):
        return (Text(content),)
    parts: list[UserPart] = []
    for index, one in enumerate(content):
        where = f"{path}[{index}]"
        block: UserBlock = decode_field(one, UserBlock, where)
        read = kinds.get(block.type)
        parts += read(block, where) if read is not None else (Text(bytes(one).decode()),)
    return parts


def read_result(block: UserBlock, raw: Raw, path: str) -> ToolResult:
    use_id = need(block.tool_use_id, f"{path}.tool_use_id")
    parts = _contents(block.content, f"{path}.content", READ)
    texts = [part.text for part in parts if type(part) is Text]
    attachments: tuple[Attachment, ...] = tuple([part for part in parts if not isinstance(part, Text)])
    native = None if is_plain(raw) else Native(API, raw.copy())
    return ToolResult(use_id, "\n".join(texts), bool(block.is_error), attachments, native)
