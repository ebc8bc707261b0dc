"""Streams that a client may lose and come back to: each frame has an id, and a stream goes on behind the last that was seen.

A stream is written again from its run's log, from the beginning, and what was seen is left out. So it is the same, byte for
byte, as long as the log has everything that was shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ronda.core.events import Event
from ronda.core.run import Run
from ronda.errors import BadRequest
from ronda.server.answering.sinks import KEEP_ALIVE
from ronda.server.http.incoming import Header, Incoming
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.server.answering.answer import StreamWriter

LAST_EVENT_ID: Final = b"last-event-id"
STARTING_AFTER: Final = "starting_after"
# Said of a stream whose text is in other pieces than those that were shown first.
LARGER_PIECES: Final[Header] = (b"x-ronda-stream", b"larger-pieces")
_LARGER_PIECES: Final = b": what was shown piece by piece is not kept any more; this is all of it, in larger pieces\n\n"


class NumberedFrames:
    """What a writer writes, frame by frame. `seen` is how many of each choice's frames are left out.

    The id of a frame is its number, from 0 on; of an answer with several choices, how many frames of each were sent.
    """

    def __init__(self, writer: StreamWriter, seen: Sequence[int], *, with_ids: bool, is_whole: bool = True) -> None:
        self._writer = writer
        self._seen = list(seen)
        self._sent = [0] * len(seen)
        self._with_ids = with_ids
        self._says = b"" if is_whole else _LARGER_PIECES
        self.keep_alive: bytes = getattr(writer, "keep_alive", KEEP_ALIVE)

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        data = self._writer.feed(sibling, batch)
        if not data:
            return data
        says, self._says = self._says, b""
        if isinstance(
            batch[0], Failure
        ):  # it ends the stream, not the run: who comes back goes on from what was before
            return says + data
        return says + b"".join([self._number(sibling, frame) for frame in data.split(b"\n\n")[:-1]])

    def _number(self, sibling: int, frame: bytes) -> bytes:
        self._sent[sibling] += 1
        if self._sent[sibling] <= self._seen[sibling]:
            return b""
        return b"id: %b\n%b\n\n" % (self._id, frame) if self._with_ids else frame + b"\n\n"

    @property
    def _id(self) -> bytes:
        sent = [max(pair) for pair in zip(self._sent, self._seen, strict=True)]
        return b"%d" % (sent[0] - 1) if len(sent) == 1 else b"-".join([b"%d" % count for count in sent])


def number_frames(writer: StreamWriter, runs: Sequence[Run]) -> StreamWriter:
    """The first stream of runs that outlive it."""
    if getattr(writer, "numbers_frames", False):
        return writer
    return NumberedFrames(writer, [0] * len(runs), with_ids=True)


def frames_seen(incoming: Incoming, choices: int) -> list[int] | None:
    """How many frames of each choice a client has; None if it has not said. A browser that comes back asks for the same
    address, and says in a header what it has seen since."""
    name, text = "Last-Event-ID", incoming.header(LAST_EVENT_ID)
    if text is None:
        name, values = STARTING_AFTER, incoming.query.get(STARTING_AFTER)
        if not values:
            return None
        text = values[-1]
    numbers = text.split("-") if choices > 1 else [text]
    if len(numbers) != choices or not all(one.isascii() and one.isdecimal() and len(one) < 19 for one in numbers):
        form = (
            "the id of a frame, such as 12" if choices == 1 else f"the id of a frame: {choices} numbers with - between"
        )
        raise BadRequest(f"'{name}' is {text[:60]!r}; it must be {form}", param=name)
    return [int(numbers[0]) + 1] if choices == 1 else [int(one) for one in numbers]
