"""`-a FILE`: files → parts of a question. Text goes along as text, which every model reads; images and the rest as they are."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ronda.agent import Inputs
from ronda.errors import BadConfig

MAX_BYTES: Final = 64_000_000  # of all files together, as of the inputs of a prompty file
MAX_FILES: Final = 100
_AUDIO: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def question_with(text: str, paths: Sequence[str]) -> Inputs:
    """What is asked: the text alone, or one message of the text and the files."""
    if not paths:
        return text
    if len(paths) > MAX_FILES:
        raise BadConfig(f"{len(paths)} files are attached; at most {MAX_FILES} can go along")
    left = MAX_BYTES
    parts: list[dict[str, Any]] = []
    for path in paths:
        data = _read(path, left)
        left -= len(data)
        parts.append(_part(Path(path), data))
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def _read(path: str, left: int) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(left + 1)
    except IsADirectoryError as error:
        raise BadConfig(f"cannot attach {path}: it is a folder; name the files in it") from error
    except OSError as error:
        raise BadConfig(f"cannot attach {path}: {error.strerror}") from error
    if len(data) > left:
        raise BadConfig(f"cannot attach {path}: the files together are larger than {MAX_BYTES // 1_000_000} MB")
    if not data:
        raise BadConfig(f"cannot attach {path}: it is empty")
    return data


def _part(path: Path, data: bytes) -> dict[str, Any]:
    media_type = mimetypes.guess_type(path.name)[0] or ""
    if media_type.startswith("image/") and media_type != "image/svg+xml":
        return {"type": "image_url", "image_url": {"url": _data_url(media_type, data)}}
    if media_type in _AUDIO:
        audio = {"data": base64.b64encode(data).decode(), "format": _AUDIO[media_type]}
        return {"type": "input_audio", "input_audio": audio}
    if (text := _text_of(data)) is not None:
        return {"type": "text", "text": f"The file {path.name}:\n\n{text}\n"}
    url = _data_url(media_type or "application/octet-stream", data)
    return {"type": "file", "file": {"filename": path.name, "file_data": url}}


def _text_of(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
