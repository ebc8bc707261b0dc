"""What an address answered to a call → what the tool gave.

"text"  ·  {"content": …}  ·  any other text, as it is
{"content": [{"type": "text", "text": …}, {"type": "image", "data": BASE64, "mimeType": "image/png"}]}
{"content": …, "files": [{"name": "a.csv", "text": …}, {"name": "b.pdf", "data": BASE64}], "failed": true}
a body of another media type than text: an image, or a file that the tool made
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any, Final

import msgspec

from ronda.core.parts import Attachment, Audio, File, Image
from ronda.drive import ToolOutput
from ronda.errors import ToolFailed

MAX_FILES: Final = 64  # of one result
_FILE_TYPES: Final = re.compile(r"(audio|video|font)/.*|application/(octet-stream|pdf|zip|gzip|vnd\..*)")
_ANY_BYTES: Final = "application/octet-stream"


def read_answer(data: bytes, headers: Mapping[str, str]) -> ToolOutput:
    head = Message()
    for name in ("Content-Type", "Content-Disposition"):
        if (value := headers.get(name)) is not None:
            head[name] = value
    media_type = head.get_content_type()
    if media_type.startswith("image/"):
        return ToolOutput("[image]", (Image(_data_url(media_type, base64.b64encode(data).decode())),))
    if _FILE_TYPES.fullmatch(media_type):
        name = (head.get_filename() or "result")[:255]
        return _with_files("", (File(_data_url(media_type, base64.b64encode(data).decode()), name),))
    return _read_text(data.decode("utf-8", "replace"))


def _read_text(text: str) -> ToolOutput:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ToolOutput(text)
    match value:
        case str():
            return ToolOutput(value)
        case {"content": content}:
            words, attachments = _read_content(content)
            output = _with_files(words, _read_files(value.get("files")))
            return msgspec.structs.replace(output, attachments=attachments, failed=value.get("failed") is True)
        case _:
            return ToolOutput(text)


def _read_content(content: Any) -> tuple[str, tuple[Attachment, ...]]:
    if isinstance(content, str):
        return content, ()
    is_parts = isinstance(content, list) and all(isinstance(one, dict) and "type" in one for one in content)
    if not is_parts or not content:
        return msgspec.json.encode(content).decode(), ()
    words: list[str] = []
    attachments: list[Attachment] = []
    for index, part in enumerate(content):
        match part:
            case {"type": "text", "text": str(text)}:
                words.append(text)
            case {"type": "image", "data": str(data)}:
                attachments.append(Image(_data_url(_media_type(part, "image/png"), _base64(data, f"content[{index}]"))))
            case {"type": "image_url", "image_url": str(url) | {"url": str(url)}}:
                attachments.append(Image(url))
            case {"type": "audio", "data": str(data)}:
                audio_format = _media_type(part, "audio/wav").partition("/")[2]
                attachments.append(Audio(_base64(data, f"content[{index}]"), audio_format))
            case _:
                raise ToolFailed(
                    f"content[{index}] of the answer is of the type {part['type']!r:.60}; it can be text (with `text`), "
                    "image or audio (with `data`, in base64), or image_url"
                )
    return "\n".join(words), tuple(attachments)


def _read_files(files: Any) -> tuple[File, ...]:
    if files is None:
        return ()
    if not isinstance(files, list) or len(files) > MAX_FILES:
        raise ToolFailed(f"'files' of the answer is no list of {MAX_FILES} files at the most")
    return tuple([_read_file(one, f"files[{index}]") for index, one in enumerate(files)])


def _read_file(one: Any, where: str) -> File:
    match one:
        case {"name": str(name), "text": str(text)}:
            data, usual = base64.b64encode(text.encode("utf-8", "replace")).decode(), "text/plain"
        case {"name": str(name), "data": str(data)}:
            data, usual = _base64(data, where), _ANY_BYTES
        case _:
            raise ToolFailed(f"{where} of the answer needs a `name`, and `text` or `data` (in base64)")
    name = name.rpartition("/")[2][:255] or "result"
    guess = mimetypes.guess_type(name)[0] or usual
    return File(_data_url(_media_type(one, guess), data), name)


def _with_files(words: str, files: Sequence[File]) -> ToolOutput:
    """The model reads which files there are."""
    names = [f"[file {file.name}]" for file in files]
    return ToolOutput("\n".join([*([words] if words or not names else []), *names]), files=tuple(files))


def _media_type(part: Mapping[str, Any], otherwise: str) -> str:
    found = part.get("mimeType", part.get("mime_type"))
    return found if isinstance(found, str) and re.fullmatch(r"[\w.+-]+/[\w.+-]+", found) else otherwise


def _base64(data: str, where: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolFailed(f"`data` in {where} of the answer is not base64: {error}") from error
    return data


def _data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"
