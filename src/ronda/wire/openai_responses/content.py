"""The parts of an input message, or of a tool's output → text, pictures, sound and files; or a 400 that names the part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ronda.core.parts import Attachment, Audio, File, Image, Refusal, Text, UserPart, Video
from ronda.wire.fields import bad


class _Url(Struct, frozen=True):
    url: str
    detail: str | None = None


class _Sound(Struct, frozen=True):
    data: str
    format: str


class _FileData(Struct, frozen=True):
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class Part(Struct, frozen=True):
    """A part in this API's form, or in that of Chat Completions, which clients send here too."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: str | _Url | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: _Sound | None = None
    video_url: str | _Url | None = None
    file: _FileData | None = None


TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


def user_parts(content: str | Sequence[Part] | None, path: str) -> tuple[UserPart, ...]:
    if content is None:
        raise bad(path, "is missing")
    if isinstance(content, str):
        return (Text(content),)
    if not content:
        raise bad(path, "is an empty list")
    return tuple([_user_part(part, f"{path}[{at}]") for at, part in enumerate(content)])


def plain_text(content: str | Sequence[Part] | None, path: str) -> str:
    """What can only be words: instructions."""
    if content is None:
        raise bad(path, "is missing")
    if isinstance(content, str):
        return content
    return "".join([_text(part, f"{path}[{at}]") for at, part in enumerate(content)])


def assistant_parts(content: str | Sequence[Part] | None, path: str) -> list[Text | Refusal]:
    if content is None:
        raise bad(path, "is missing")
    if isinstance(content, str):
        return [Text(content)] if content else []
    said: list[Text | Refusal] = []
    for at, part in enumerate(content):
        if part.type == "refusal" and part.refusal is not None:
            said.append(Refusal(part.refusal))
        elif text := _text(part, f"{path}[{at}]"):
            said.append(Text(text))
    return said


def tool_output(output: str | Sequence[Part] | None, path: str) -> tuple[str, tuple[Attachment, ...]]:
    """What a tool returned: its words, and what else it gave."""
    if output is None:
        raise bad(path, "is missing")
    if isinstance(output, str):
        return output, ()
    texts: list[str] = []
    attachments: list[Attachment] = []
    for at, part in enumerate(output):
        made = _user_part(part, f"{path}[{at}]")
        if isinstance(made, Text):
            texts.append(made.text)
        else:
            attachments.append(made)
    return "".join(texts), tuple(attachments)


def _text(part: Part, path: str) -> str:
    if part.text is None or (part.type is not None and part.type not in TEXTS):
        raise bad(path, f"is of type {(part.type or 'none')[:40]!r}; only text can stand here")
    return part.text


def _user_part(part: Part, path: str) -> UserPart:
    kind = part.type or "input_text"
    read = _KINDS.get(kind)
    if read is None:
        raise bad(f"{path}.type", f"is {kind[:40]!r}; it can be {', '.join(_KINDS)}")
    return read(part, path)


def _read_text(part: Part, path: str) -> UserPart:
    if part.text is None:
        raise bad(f"{path}.text", "is missing")
    return Text(part.text)


def _read_image(part: Part, path: str) -> UserPart:
    said = part.image_url
    if said is None:
        if part.file_id is not None:
            raise bad(
                f"{path}.file_id", "is not supported here for pictures: send 'image_url', which may be a data: URL"
            )
        raise bad(f"{path}.image_url", "is missing")
    return Image(said, part.detail) if isinstance(said, str) else Image(said.url, said.detail or part.detail)


def _read_sound(part: Part, path: str) -> UserPart:
    if part.input_audio is None:
        raise bad(f"{path}.input_audio", "is missing")
    return Audio(part.input_audio.data, part.input_audio.format)


def _read_video(part: Part, path: str) -> UserPart:
    said = part.video_url
    if said is None:
        raise bad(f"{path}.video_url", "is missing")
    return Video(said if isinstance(said, str) else said.url)


def _read_file(part: Part, path: str) -> UserPart:
    said = part.file or part
    if said.file_data is not None:
        return File(said.file_data, said.filename)
    if said.file_url is not None:
        if not said.file_url.startswith(("http://", "https://")):
            raise bad(f"{path}.file_url", "must begin with http:// or https://")
        return File(said.file_url, said.filename)  # fetched by the model's server, if it does such a thing
    if said.file_id is not None:
        return File(None, said.filename, said.file_id)  # of a file the model's server already has
    raise bad(path, "has neither 'file_data' nor 'file_url' nor 'file_id'")


_KINDS: dict[str, Callable[[Part, str], UserPart]] = {
    "input_text": _read_text,
    "input_image": _read_image,
    "input_file": _read_file,
    "input_audio": _read_sound,
    "input_video": _read_video,
    "output_text": _read_text,
    "text": _read_text,
    "image_url": _read_image,
    "video_url": _read_video,
    "file": _read_file,
}
