"""An upstream's stream, in any dialect: socket reads → previews, as they come, and a failure, which waits for the end.

What a frame means is the dialect's to know. What holds for all is that an error takes nothing back: whatever came before it
in the same read was said, however the bytes were cut, so it is shown; nothing after it counts; and `finish` raises it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Protocol, Self

from ronda.core.events import ModelFinished, Preview
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.codec.json import UNREADABLE
from ronda.wire.codec.sse import FrameTooLarge, SseReader
from ronda.wire.codec.surrogates import SurrogateMender

_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


def is_event_stream(body: bytes) -> bool:
    """Whatever it was called, and whether or not it was asked for: some servers stream every answer."""
    return body[:64].lstrip(b"\xef\xbb\xbf\r\n\t ").startswith(_FIELDS)


class Frames(Protocol):
    """Bytes → the data of the frames that they complete."""

    def feed_data(self, data: bytes) -> list[bytes]: ...
    def close_data(self) -> list[bytes]: ...


class JsonStream(ABC):
    """One socket read at a time: previews out of `feed`, the whole turn out of `finish`."""

    __slots__ = ("_failure", "_frames", "_halves")

    def __init__(self, frames: Frames | None = None) -> None:
        self._frames: Frames = SseReader() if frames is None else frames
        self._halves = SurrogateMender()
        self._failure: UpstreamError | None = None

    @property
    def broken(self) -> bool:
        """Something in the stream was an error: nothing after it counts, and `finish` raises it."""
        return self._failure is not None

    def feed(self, data: bytes) -> list[Preview]:
        out: list[Preview] = []
        if self._failure is None:
            try:
                self._read_into(out, self._frames.feed_data(data))
            except (UpstreamError, FrameTooLarge, *UNREADABLE) as error:
                self._fail(error)
        return out

    def close(self) -> list[Preview]:
        """The stream is over: read a last frame that lacks its blank line."""
        out: list[Preview] = []
        if self._failure is None:
            try:
                self._read_into(out, self._frames.close_data())
            except (UpstreamError, *UNREADABLE) as error:
                self._fail(error)
        return out

    def whole(self, body: bytes) -> Self:
        """A stream that came in one piece, for a caller that watches nothing."""
        self.feed(body)
        self.close()
        return self

    def _fail(self, error: Exception) -> None:
        if isinstance(error, UpstreamError):
            self._failure = error
        else:
            again = not isinstance(error, FrameTooLarge)
            self._failure = UpstreamBroken(f"the model's stream cannot be read: {error}", retryable=again)
            self._failure.__cause__ = error

    def _must_be_sound(self) -> None:
        if (failure := self._failure) is not None:
            # What is raised knows this frame, and through it us: it must not be known by either, or only the collector
            # would find the whole answer.
            self._failure = cut_short()
            try:
                raise failure
            finally:
                del failure

    @abstractmethod
    def _read_into(self, out: list[Preview], frames: list[bytes]) -> None:
        """Take frames, some of which may be empty, in; what there is to show of them goes to `out`."""

    @abstractmethod
    def finish(self) -> ModelFinished: ...


class ChoicesStream(JsonStream):
    """Several answers in one stream: `feed` shows the first, and after every feed `take_aside` the others."""

    __slots__ = ("_aside",)

    def __init__(self, choices: int, frames: Frames | None = None) -> None:
        super().__init__(frames)
        self._aside: list[list[Preview]] = [[] for _ in range(choices - 1)]

    def take_aside(self) -> list[list[Preview]]:
        taken, self._aside = self._aside, [[] for _ in self._aside]
        return taken

    def finish(self) -> ModelFinished:
        return self.finish_all()[0]

    @abstractmethod
    def finish_all(self) -> list[ModelFinished]:
        """As many as there are, up to what was asked for; the usage, which is of all of them, is on the first."""


def cut_short() -> UpstreamBroken:
    return UpstreamBroken("the model's stream ended before it was complete", retryable=True, connection=True)
