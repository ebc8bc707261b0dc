"""The parts of an input message, or of a tool's output: in this API's form, or in that of Chat Completions, which clients
send here too."""

from __future__ import annotations

from typing import Final

from ronda.core.parts import File, Image, UserPart
from ronda.wire.shared import message_parts
from ronda.wire.shared.fields import bad
from ronda.wire.shared.message_parts import PartReader, read_sound, read_text, read_video


class Part(message_parts.Part, frozen=True):
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


def _read_image(part: Part, path: str) -> UserPart:
    image = part.image_url
    if image is None:
        if part.file_id is not None:
            return File(id=part.file_id)
        raise bad(f"{path}.image_url", "is missing")
    return Image(image, part.detail) if isinstance(image, str) else Image(image.url, image.detail or part.detail)


def _read_file(part: Part, path: str) -> UserPart:
    file = part.file or part
    if file.file_data is not None:
        return File(file.file_data, file.filename)
    if file.file_url is not None:
        if not file.file_url.startswith(("http://", "https://")):
            raise bad(f"{path}.file_url", "must begin with http:// or https://")
        return File(file.file_url, file.filename)  # the model's server fetches it, or ours does
    if file.file_id is not None:
        return File(None, file.filename, file.file_id)  # of a file the model's server already has
    raise bad(path, "has neither 'file_data' nor 'file_url' nor 'file_id'")


PARTS: Final[PartReader[Part]] = PartReader(
    {
        "input_text": read_text,
        "input_image": _read_image,
        "input_file": _read_file,
        "input_audio": read_sound,
        "input_video": read_video,
        "output_text": read_text,
        "text": read_text,
        "image_url": _read_image,
        "video_url": read_video,
        "file": _read_file,
    },
    texts=frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"}),
)
