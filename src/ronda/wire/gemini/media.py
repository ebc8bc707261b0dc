"""Images, sounds, films and files → inlineData or fileData."""

from __future__ import annotations

import base64
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from ronda.core.parts import Attachment, Audio, File, Image, Video
from ronda.wire.upstream.fitting import is_elsewhere
from ronda.wire.upstream.input_files import file_note, is_listed
from ronda.wire.upstream.projection import UNREPORTED, Changes

# What a functionResponse may hold; anything else next to the result goes into a content of its own.
IN_RESULTS: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})

_KINDS: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
}


def write_media(item: Attachment, changes: Changes = UNREPORTED) -> dict[str, Any]:
    """One part; a note where there is nothing the API could look at."""
    match item:
        case Image(url=url):
            return _at(url, "image/jpeg") if _leads_somewhere(url) else _note("an image", changes)
        case Video(url=url):
            return _at(url, "video/mp4") if _leads_somewhere(url) else _note("a video", changes)
        case Audio(data=data, format=format):
            return {"inlineData": {"mimeType": _KINDS.get(format, f"audio/{format}"), "data": data}}
        case File() if is_listed(item):
            return {"text": file_note(item)}
        case File(data=data, name=name, id=id):
            if not data and not id:
                return _note("an empty file", changes)
            if not data and is_elsewhere(id or "", "gemini"):
                return _note("a file of another provider", changes)
            kind = _kind_of(name or "") or "application/pdf"
            return _at(data, kind) if data is not None else {"fileData": {"fileUri": id or "", "mimeType": kind}}


def kind_of(part: dict[str, Any]) -> str:
    source: dict[str, Any] = part.get("inlineData") or part.get("fileData") or {"mimeType": ""}
    return str(source["mimeType"])


def _leads_somewhere(url: str) -> bool:
    return url.startswith(("data:", "http://", "https://", "gs://")) or "files/" in url


def _note(what: str, changes: Changes) -> dict[str, Any]:
    changes.tell("media_noted", f"{what} is only mentioned to the model", "there is nothing to look at")
    return {"text": f"[{what} was attached here, which you cannot be shown]"}


def _at(url: str, otherwise: str) -> dict[str, Any]:
    if not url.startswith("data:"):
        return {"fileData": {"fileUri": url, "mimeType": _kind_of(urlsplit(url).path) or otherwise}}
    head, _, data = url[5:].partition(",")
    kind, *parameters = head.split(";")
    if "base64" not in parameters:
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    return {"inlineData": {"mimeType": kind or "text/plain", "data": data}}


def _kind_of(name: str) -> str | None:
    return _KINDS.get(name.rpartition(".")[2].lower())
