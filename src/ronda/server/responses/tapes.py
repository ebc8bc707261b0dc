"""Streams that can be watched again, from any event on: while the run is under way, and for a while after it.

A tape holds a run's events as they were shown, previews too, in memory. Whoever watches writes them anew, with a writer of
their own; so the numbers are those of the stream that was sent first. When a tape is gone, the journal is left, which has no
previews: the text then comes in fewer pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ronda.core.events import PREVIEWS, Event, RunFinished
from ronda.core.run import Run
from ronda.wire.openai_responses.answer import ResponseAnswer

KEPT = 200  # finished streams
KEPT_EVENTS = 50_000  # of all finished streams together


class Tape:
    """`run` is there while it is under way: what a conversation weighs is not kept for the sake of its end."""

    __slots__ = ("events", "owner", "run", "watchers")

    def __init__(self, run: Run) -> None:
        self.owner = run.start.owner
        self.run: Run | None = run
        self.events: list[Event] = []
        self.watchers: list[
            Callable[[Sequence[Event]], None]
        ] = []  # told of each batch, and of nothing when it breaks off

    def tell(self, batch: Sequence[Event]) -> None:
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
        if (tape := self._over.pop(run, None)) is not None:
            self._size -= len(tape.events)

    def finished(self, run: str) -> None:
        tape = self._live.pop(run)
        tape.run = None
        tape.watchers = []
        if not any(type(event) in PREVIEWS for event in tape.events):
            return  # the journal has the same
        self._over[run] = tape
        self._size += len(tape.events)
        while len(self._over) > KEPT or (self._size > KEPT_EVENTS and len(self._over) > 1):
            self.drop(next(iter(self._over)))
