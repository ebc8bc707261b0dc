"""Images and files → blocks. What the API cannot look at becomes a note that says so, for the model to read."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from ronda.core.parts import Audio, File, Image, Text, UserPart, Video
from ronda.wire.upstream.fitting import is_elsewhere
from ronda.wire.upstream.input_files import file_note, is_listed
from ronda.wire.upstream.projection import UNREPORTED, Changes

_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TEXTS: Final = frozenset({"application/json", "application/xml"})
_IMAGE_NAMES: Final = (".jpg", ".jpeg", ".png", ".gif", ".webp")


def write_part(part: UserPart, changes: Changes = UNREPORTED) -> dict[str, Any] | None:
    """One block; none for text that says nothing, which the API refuses."""
    match part:
        case Text(text=text):
            if text.strip():
                return text_block(text)
            changes.tell("text_dropped", "a text that says nothing is left out", "text must not be blank here")
            return None
        case Image(url=url):
            return _image(url, changes)
        case File():
            return _file(part, changes)
        case Audio(format=format):
            return note(f"audio ({format})", changes)
        case Video():
            return note("a video", changes)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def note(what: str, changes: Changes = UNREPORTED) -> dict[str, Any]:
    changes.tell("media_noted", f"{what} is only mentioned to the model", "this API has no way to show it")
    return text_block(f"[{what} was attached here, which you cannot be shown]")


def _image(url: str, changes: Changes) -> dict[str, Any]:
    if url.startswith(("http://", "https://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    content = _read(url)
    media_type = "image/jpeg" if content.media_type == "image/jpg" else content.media_type
    if media_type not in _IMAGES or not content.data:
        return note(f"an image of type {media_type or 'unknown'}", changes)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": content.base64}}


def _file(file: File, changes: Changes) -> dict[str, Any]:
    name = file.name
    if is_listed(file):
        return text_block(file_note(file))
    if file.data is None:
        if file.id is None or is_elsewhere(file.id, "anthropic"):
            return note(f"a file{f' named {name!r}' if name else ''}", changes)
        kind = "image" if name and name.lower().endswith(_IMAGE_NAMES) else "document"
        return {"type": kind, "source": {"type": "file", "file_id": file.id}}
    if file.data.startswith(("http://", "https://")):
        return _document({"type": "url", "url": file.data}, name)
    content = _read(file.data)
    media_type = content.media_type
    if media_type in _IMAGES:
        return _image(file.data, changes)
    if media_type == "application/pdf" and content.data:
        return _document({"type": "base64", "media_type": media_type, "data": content.base64}, name)
    if (media_type.startswith("text/") or media_type in _TEXTS) and (text := content.text).strip():
        return _document({"type": "text", "media_type": "text/plain", "data": text}, name)
    return note(f"a file{f' named {name!r}' if name else ''} of type {media_type or 'unknown'}", changes)


def takes_file(media_type: str) -> bool:
    """Whether the API looks at such a file."""
    is_text = media_type.startswith("text/") or media_type in _TEXTS
    return is_text or media_type == "application/pdf" or media_type in _IMAGES


def _document(source: dict[str, Any], name: str | None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "document", "source": source}
    return {**block, "title": name[:500]} if name and name.strip() else block


class _DataUrl(Struct, frozen=True):
    media_type: str  # in small letters; "" where this is no data: URL
    data: str = ""
    is_base64: bool = True

    @property
    def base64(self) -> str:
        return self.data if self.is_base64 else b64encode(unquote_to_bytes(self.data)).decode()

    @property
    def text(self) -> str:
        """Empty where it is not text after all."""
        try:
            return (b64decode(self.data) if self.is_base64 else unquote_to_bytes(self.data)).decode()
        except ValueError:  # not base64, or not UTF-8
            return ""


def _read(url: str) -> _DataUrl:
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        return _DataUrl("")
    media_type, *options = head[5:].split(";")
    return _DataUrl(media_type.strip().lower() or "text/plain", data, "base64" in options)
