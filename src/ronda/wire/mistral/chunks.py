"""Content as Mistral's clients send it: a text or a list of chunks ⇄ parts.

Chunks that we have no part for (references, what a tool of Mistral's found) are kept in an assistant's turn for a Mistral
upstream to get back, and become a short note where a person sends them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from ronda.core.parts import (
    NULL,
    AssistantPart,
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Text,
    ToolCall,
    UserPart,
)
from ronda.wire.codec.json import encode
from ronda.wire.mistral import API
from ronda.wire.mistral.validation_errors import Loc, refuse
from ronda.wire.web.citations import Source, cite, cited_stretches


class _Chunk(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class TextChunk(_Chunk, frozen=True, tag="text"):
    text: str


class ImageUrl(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    url: str
    detail: Literal["low", "auto", "high"] | None = None


class ImageChunk(_Chunk, frozen=True, tag="image_url"):
    image_url: str | ImageUrl


class DocumentChunk(_Chunk, frozen=True, tag="document_url"):
    document_url: str
    document_name: str | None = None


class ReferenceChunk(_Chunk, frozen=True, tag="reference"):
    reference_ids: list[int | str]


class FileChunk(_Chunk, frozen=True, tag="file"):
    file_id: str


class ToolReferenceChunk(_Chunk, frozen=True, tag="tool_reference"):
    tool: str
    title: str
    url: str | None = None
    favicon: str | None = None
    description: str | None = None


class ThinkChunk(_Chunk, frozen=True, tag="thinking"):
    thinking: list[TextChunk | ReferenceChunk | ToolReferenceChunk]
    signature: str | None = None
    closed: bool | None = None

    @property
    def text(self) -> str:
        return "".join([piece.text for piece in self.thinking if isinstance(piece, TextChunk)])


class AudioChunk(_Chunk, frozen=True, tag="input_audio"):
    input_audio: str


class ToolFileChunk(_Chunk, frozen=True, tag="tool_file"):
    tool: str
    file_id: str
    file_name: str | None = None
    file_type: str | None = None


class ResourceChunk(_Chunk, frozen=True, tag="resource"):
    uri: str
    content: TextChunk | ImageChunk


class ResourceLinkChunk(_Chunk, frozen=True, tag="resource_link"):
    uri: str
    metadata: Raw = NULL


Chunk: TypeAlias = (
    TextChunk
    | ImageChunk
    | DocumentChunk
    | ReferenceChunk
    | FileChunk
    | ThinkChunk
    | AudioChunk
    | ToolReferenceChunk
    | ToolFileChunk
    | ResourceChunk
    | ResourceLinkChunk
)
Content: TypeAlias = str | list[Chunk] | None


# ---- in ---------------------------------------------------------------------------------------------------------------


def user_parts(content: Content) -> tuple[UserPart, ...]:
    if isinstance(content, str) or content is None:
        return (Text(content or ""),)
    return tuple([_PARTS[type(chunk)](chunk) for chunk in content])


def system_text(content: Content | UnsetType, loc: Loc) -> str:
    if isinstance(content, str):
        return content
    if content is None or content is UNSET:
        refuse("missing" if content is UNSET else "string_type", loc, "Field required")
    texts: list[str] = []
    for index, chunk in enumerate(content):
        if not isinstance(chunk, TextChunk | ThinkChunk):
            refuse("union_tag_invalid", (*loc, index, "type"), "Input should be one of 'text', 'thinking'", chunk)
        texts.append(chunk.text)
    return "".join(texts)


def assistant_parts(content: Content | UnsetType) -> tuple[list[AssistantPart], Native | None]:
    """The parts, and the content as it came where they say less than it."""
    if isinstance(content, str):
        return ([Text(content)] if content else []), None
    if content is None or content is UNSET:
        return [], None
    parts: list[AssistantPart] = []
    for chunk in content:
        if isinstance(chunk, TextChunk):
            parts.append(Text(chunk.text))
        elif isinstance(chunk, ThinkChunk) and chunk.text:
            parts.append(Reasoning(chunk.text))
    plain = all(isinstance(chunk, TextChunk) for chunk in content)
    return parts, None if plain else Native(API, Raw(encode(content)))


def result_parts(content: Content) -> tuple[str, tuple[Attachment, ...]]:
    texts: list[str] = []
    attached: list[Attachment] = []
    for part in user_parts(content):
        if isinstance(part, Text):
            texts.append(part.text)
        else:
            attached.append(part)
    return "".join(texts), tuple(attached)


def _image(chunk: ImageChunk) -> Image:
    source = chunk.image_url
    return Image(source) if isinstance(source, str) else Image(source.url, source.detail)


def _audio(chunk: AudioChunk) -> UserPart:
    """Base64, a data: URL or an address; what kind of audio it is only the second says."""
    source = chunk.input_audio
    if source.startswith("data:"):
        head, _, data = source.partition(",")
        return Audio(data, head[5:].partition(";")[0].rpartition("/")[2] or "wav")
    if source.startswith(("http://", "https://")):
        return File(source)
    return Audio(source, _format_of(source))


def _format_of(data: str) -> str:
    try:
        head = base64.b64decode(data[:24], validate=True)
    except (binascii.Error, ValueError):
        return "wav"
    signs = {b"RIFF": "wav", b"ID3": "mp3", b"\xff\xfb": "mp3", b"\xff\xf3": "mp3", b"fLaC": "flac", b"OggS": "ogg"}
    return next((audio_format for sign, audio_format in signs.items() if head.startswith(sign)), "wav")


def _resource(chunk: ResourceChunk) -> UserPart:
    return _image(chunk.content) if isinstance(chunk.content, ImageChunk) else Text(chunk.content.text)


_PARTS: Final[dict[type, Callable[[Any], UserPart]]] = {
    TextChunk: lambda chunk: Text(chunk.text),
    ImageChunk: _image,
    DocumentChunk: lambda chunk: File(chunk.document_url, chunk.document_name),
    ReferenceChunk: lambda chunk: Text(f"[reference {', '.join(map(str, chunk.reference_ids))}]"),
    FileChunk: lambda chunk: File(id=chunk.file_id),
    ThinkChunk: lambda chunk: Text(chunk.text),
    AudioChunk: _audio,
    ToolReferenceChunk: lambda chunk: Text(f"[{chunk.title}{f': {chunk.url}' if chunk.url else ''}]"),
    ToolFileChunk: lambda chunk: File(id=chunk.file_id, name=chunk.file_name),
    ResourceChunk: _resource,
    ResourceLinkChunk: lambda chunk: Text(f"[{chunk.uri}]"),
}


# ---- out --------------------------------------------------------------------------------------------------------------


def thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def reference(source: Source) -> dict[str, Any]:
    chunk = {"type": "tool_reference", "tool": "web_search", "title": source.title, "url": source.url}
    return {**chunk, "description": source.excerpt} if source.excerpt else chunk


def tool_file(file: Mapping[str, Any]) -> dict[str, Any]:
    """A file that was made by code, as a part of an answer."""
    return {
        "type": "tool_file",
        "tool": "code_interpreter",
        "file_id": file["id"],
        "file_name": file["name"],
        "file_type": file["format"] or None,
    }


def write_cited(parts: Sequence[AssistantPart], sources: Sequence[Source]) -> str | list[dict[str, Any]]:
    """The same, with a reference behind each stretch that cites a source."""
    content = write_content(parts)
    if not sources or not any(cite(part.text, sources) for part in parts if isinstance(part, Text)):
        return content
    chunks: list[dict[str, Any]] = []
    for chunk in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if chunk["type"] != "text":
            chunks.append(chunk)
            continue
        for stretch in cited_stretches(chunk["text"], sources):
            chunks += [{"type": "text", "text": stretch.text}, *map(reference, stretch.sources)]
    return chunks


def write_content(parts: Sequence[AssistantPart]) -> str | list[dict[str, Any]]:
    """What an assistant said: a text, or chunks where it thought aloud before."""
    if not any(isinstance(part, Reasoning) for part in parts):
        return "".join([part.text for part in parts if not isinstance(part, ToolCall)])
    pieces: list[tuple[bool, str]] = []
    for part in parts:
        if isinstance(part, ToolCall) or not part.text:
            continue
        thought = isinstance(part, Reasoning)
        if pieces and pieces[-1][0] == thought:
            pieces[-1] = (thought, pieces[-1][1] + part.text)
        else:
            pieces.append((thought, part.text))
    return [thinking(text) if thought else {"type": "text", "text": text} for thought, text in pieces]


def relabel_native(turn: AssistantTurn, api: str) -> AssistantTurn:
    """The same turn, with what is kept of its content said to be of `api`: the upstream that gets it back."""
    native = turn.native
    if native is None or native.api != API:
        return turn
    return AssistantTurn(turn.parts, turn.stop, Native(api, native.payload))
