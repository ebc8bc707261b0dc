"""What a server answers to a call → what the model reads and sees.

text                text, one piece per line
images, audio       attachments
resources           their text, or a file; a link is named, not followed
structured content  next to it for programs; for the model where there is nothing else
isError             a failed result
"""

from __future__ import annotations

from typing import Any, Final, assert_never
from urllib.parse import urlsplit

import mcp_types as types
import msgspec

from ronda.core.parts import Attachment, Audio, File, Image
from ronda.drive import ToolOutput

MAX_TEXT: Final = 4 * 1024 * 1024  # characters of one result
MAX_ATTACHMENTS: Final = 32

_AUDIO_FORMATS: Final = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}


def read_result(result: types.CallToolResult, server: str, tool: str) -> ToolOutput:
    texts: list[str] = []
    attachments: list[Attachment] = []
    for block in result.content:
        text, attachment = _read_block(block)
        if text:
            texts.append(text)
        if attachment is not None and len(attachments) < MAX_ATTACHMENTS:
            attachments.append(attachment)
    details: dict[str, Any] = {"mcp": {"server": server, "tool": tool}}
    if result.structured_content is not None:
        details["mcp"]["structured_content"] = result.structured_content
        if not texts and not attachments:
            texts = [msgspec.json.encode(result.structured_content).decode()]
    return ToolOutput(_join_texts(texts), tuple(attachments), failed=bool(result.is_error), details=details)


def read_contents(result: types.ReadResourceResult, server: str) -> ToolOutput:
    """A resource that was read."""
    texts: list[str] = []
    attachments: list[Attachment] = []
    for one in result.contents:
        if isinstance(one, types.TextResourceContents):
            texts.append(one.text)
        elif len(attachments) < MAX_ATTACHMENTS:
            texts.append(f"[file: {one.uri}]")
            attachments.append(_blob(one))
    return ToolOutput(_join_texts(texts), tuple(attachments), details={"mcp": {"server": server}})


def read_prompt(result: types.GetPromptResult, server: str) -> ToolOutput:
    """The messages of a prompt, each with who says it."""
    texts: list[str] = []
    attachments: list[Attachment] = []
    for message in result.messages:
        text, attachment = _read_block(message.content)
        texts.append(f"{message.role}: {text}")
        if attachment is not None and len(attachments) < MAX_ATTACHMENTS:
            attachments.append(attachment)
    return ToolOutput(_join_texts(texts), tuple(attachments), details={"mcp": {"server": server}})


def _join_texts(texts: list[str]) -> str:
    content = "\n".join(texts)
    if len(content) > MAX_TEXT:
        return f"{content[:MAX_TEXT]}\n… (the result had {len(content)} characters; the rest was cut off)"
    return content


def _read_block(block: types.ContentBlock) -> tuple[str, Attachment | None]:
    match block:
        case types.TextContent():
            return block.text, None
        case types.ImageContent():
            return f"[image: {block.mime_type}]", Image(_data_url(block.mime_type, block.data))
        case types.AudioContent():
            kind = block.mime_type
            return f"[audio: {kind}]", Audio(block.data, _AUDIO_FORMATS.get(kind, kind.partition("/")[2] or "wav"))
        case types.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.name}: {block.uri}{about}]", None
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text, None
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return f"[file: {resource.uri}]", _blob(resource)
        case types.EmbeddedResource():
            return "", None
        case _:
            assert_never(block)


def _blob(resource: types.BlobResourceContents) -> Attachment:
    kind = resource.mime_type or "application/octet-stream"
    url = _data_url(kind, resource.blob)
    if kind.startswith("image/"):
        return Image(url)
    return File(url, urlsplit(str(resource.uri)).path.rpartition("/")[2] or None)


def _data_url(kind: str, data: str) -> str:
    return f"data:{kind};base64,{data}"
