"""The parts of a message, as OpenAI's two APIs have them → text, pictures, sound and files; or a 400 that names the part.

The APIs differ in the kinds of part that they take, and in the members of some: each has a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ronda.core.parts import Attachment, Audio, Refusal, Text, UserPart, Video
from ronda.wire.shared.fields import bad


class Url(Struct, frozen=True):
    url: str
    detail: str | None = None


class Sound(Struct, frozen=True):
    data: str
    format: str


class FileData(Struct, frozen=True):
    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None
    file_url: str | None = None


class Part(Struct, frozen=True):
    """As Chat Completions has them."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: Url | str | None = None
    video_url: Url | str | None = None
    input_audio: Sound | None = None
    file: FileData | None = None


P = TypeVar("P", bound=Part)


class PartReader(Generic[P]):
    """`kinds` are those of a user's parts, the first of which needs no `type`; `texts` those that are words."""

    def __init__(self, kinds: Mapping[str, Callable[[P, str], UserPart]], texts: frozenset[str]) -> None:
        self._kinds = kinds
        self._usual = next(iter(kinds))
        self._texts = texts

    def user_parts(self, content: str | Sequence[P] | None, path: str) -> tuple[UserPart, ...]:
        if content is None:
            raise bad(path, "is missing")
        if isinstance(content, str):
            return (Text(content),)
        if not content:
            raise bad(path, "is an empty list")
        return tuple([self._user_part(part, f"{path}[{index}]") for index, part in enumerate(content)])

    def plain_text(self, content: str | Sequence[P] | None, path: str) -> str:
        """What can only be words: instructions."""
        if content is None:
            raise bad(path, "is missing")
        if isinstance(content, str):
            return content
        return "".join([self._text(part, f"{path}[{index}]") for index, part in enumerate(content)])

    def assistant_parts(self, content: str | Sequence[P], path: str) -> list[Text | Refusal]:
        if isinstance(content, str):
            return [Text(content)] if content else []
        parts = [self.assistant_part(part, f"{path}[{index}]") for index, part in enumerate(content)]
        return [part for part in parts if part is not None]

    def assistant_part(self, part: P, path: str) -> Text | Refusal | None:
        if part.type == "refusal" and part.refusal is not None:
            return Refusal(part.refusal)
        text = self._text(part, path)
        return Text(text) if text else None

    def tool_output(self, output: str | Sequence[P] | None, path: str) -> tuple[str, tuple[Attachment, ...]]:
        """What a tool returned: its words, and what else it gave."""
        if output is None:
            raise bad(path, "is missing")
        if isinstance(output, str):
            return output, ()
        texts: list[str] = []
        attachments: list[Attachment] = []
        for index, part in enumerate(output):
            made = self._user_part(part, f"{path}[{index}]")
            if isinstance(made, Text):
                texts.append(made.text)
            else:
                attachments.append(made)
        return "".join(texts), tuple(attachments)

    def _text(self, part: P, path: str) -> str:
        if part.text is None or (part.type is not None and part.type not in self._texts):
            raise bad(path, f"is of type {(part.type or 'none')[:40]!r}; only text can stand here")
        return part.text

    def _user_part(self, part: P, path: str) -> UserPart:
        kind = part.type or self._usual
        read = self._kinds.get(kind)
        if read is None:
            raise bad(f"{path}.type", f"is {kind[:40]!r}; it can be {', '.join(self._kinds)}")
        return read(part, path)


def read_text(part: Part, path: str) -> UserPart:
    if part.text is None:
        raise bad(f"{path}.text", "is missing")
    return Text(part.text)


def read_sound(part: Part, path: str) -> UserPart:
    if part.input_audio is None:
        raise bad(f"{path}.input_audio", "is missing")
    return Audio(part.input_audio.data, part.input_audio.format)


def read_video(part: Part, path: str) -> UserPart:
    video = part.video_url
    if video is None:
        raise bad(f"{path}.video_url", "is missing")
    return Video(video if isinstance(video, str) else video.url)
