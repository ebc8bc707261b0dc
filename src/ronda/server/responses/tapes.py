"""Streams that can be watched again, from any event on: while the run is under way, and for a while after it.

A tape holds a run's events as they were shown, previews too, in memory. Whoever watches writes them anew, with a writer of
their own; so the numbers are those of the stream that was sent first. When a tape is gone, the journal is left, which has no
previews: the text then comes in fewer pieces.

All tapes together have a bound in bytes. Finished ones go first, the oldest before others; then the largest of those under way
stops: who watches it goes on, and who comes later is told to come back when the run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from ronda.core.events import PREVIEWS, Event, RunFinished, TextDelta
from ronda.core.run import Run
from ronda.core.sizes import event_size
from ronda.wire.openai_responses.answer import ResponseAnswer

KEPT = 200  # finished streams
KEPT_BYTES = 64 * 1024 * 1024  # of all tapes together
_EVENT_BYTES = 96  # an event without its text: a Struct, a str's head, and its place in the list


def _size(batch: Sequence[Event]) -> int:
    size = _EVENT_BYTES * len(batch)
    for event in batch:
        size += (
            len(event.text) if type(event) is TextDelta else event_size(event, KEPT_BYTES)
        )  # the first is nearly all there is
    return size


class Tape:
    """`run` is there while it is under way: what a conversation weighs is not kept for the sake of its end."""

    __slots__ = ("events", "is_full", "owner", "run", "size", "watchers")

    def __init__(self, run: Run) -> None:
        self.owner = run.start.owner
        self.size = 0  # bytes
        self.is_full = False  # nothing is kept of it any more
        self.run: Run | None = run
        self.events: list[Event] = []
        self.watchers: list[
            Callable[[Sequence[Event]], None]
        ] = []  # told of each batch, and of nothing when it breaks off

    def stop(self) -> None:
        self.is_full = True
        self.events, self.size = [], 0

    def tell(self, batch: Sequence[Event]) -> None:
        if not self.is_full:
            self.events += batch
        if self.watchers:
            for watch in self.watchers.copy():
                watch(batch)


class Recorded:
    """A writer whose events are put on a tape as well."""

    def __init__(self, tapes: Tapes, tape: Tape, run: Run, writer: ResponseAnswer) -> None:
        self._tapes = tapes
        self._tape = tape
        self._run = run.id
        self._writer = writer
        self.body = writer.body

    def feed(self, sibling: int, batch: Sequence[Event]) -> bytes:
        self._take(batch)
        return self._writer.feed(sibling, batch)

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        self._take(batch)
        self._writer.fold(sibling, batch)

    def broke_down(self, sibling: int) -> bytes:
        self._tapes.drop(self._run)
        return self._writer.broke_down(sibling)

    def _take(self, batch: Sequence[Event]) -> None:
        self._tape.tell(batch)
        self._tapes.grown(self._tape, batch)
        if type(batch[-1]) is RunFinished:
            self._tapes.finished(self._run)


class Tapes:
    def __init__(self) -> None:
        self._live: dict[str, Tape] = {}
        self._over: dict[str, Tape] = {}  # the oldest first
        self._size = 0

    def record(self, run: Run, writer: ResponseAnswer) -> Recorded:
        tape = self._live[run.id] = Tape(run)
        return Recorded(self, tape, run, writer)

    def find(self, run: str, owner: str) -> Tape | None:
        tape = self._live.get(run) or self._over.get(run)
        return tape if tape is not None and tape.owner == owner else None

    def drop(self, run: str) -> None:
        """Keep nothing of it; who watches it hears that there will be no more."""
        tape = self._live.pop(run, None)
        if tape is not None:
            tape.tell(())
        else:
            tape = self._over.pop(run, None)
        if tape is not None:
            self._size -= tape.size
            tape.stop()

    def grown(self, tape: Tape, batch: Sequence[Event]) -> None:
        if tape.is_full:
            return
        size = _size(batch)
        tape.size += size
        self._size += size
        while self._size > KEPT_BYTES:
            if self._over:
                self.drop(next(iter(self._over)))
                continue
            largest = max(self._live.values(), key=attrgetter("size"))
            self._size -= largest.size
            largest.stop()

    def finished(self, run: str) -> None:
        tape = self._live.pop(run)
        tape.run = None
        tape.watchers = []
        if not any(type(event) in PREVIEWS for event in tape.events):
            self._size -= tape.size
            return  # the journal has the same
        self._over[run] = tape
        if len(self._over) > KEPT:
            self.drop(next(iter(self._over)))
