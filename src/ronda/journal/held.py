"""The runs that are driven here, and what of each waits to be written: whatever the journal, and whenever it writes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol, cast

from msgspec import Struct

from ronda.core.events import PREVIEWS, Event, RunFinished, RunStarted
from ronda.core.sizes import events_size
from ronda.errors import ProtocolError, RondaError
from ronda.journal import JournalConflict
from ronda.journal.previews import PendingPreviews, Some

LARGE: Final = 256 << 10  # as `core.sizes` counts: more than this is not for the event loop

_log = logging.getLogger(__name__)


class Held:
    """A run that is driven here, and what of it waits to be written."""

    __slots__ = (
        "can_wait",
        "dirty",
        "error",
        "expected",
        "finished",
        "is_awaited",
        "is_reported",
        "key",
        "marked",
        "name",
        "next",
        "pending",
        "previews",
        "released",
        "size",
        "waiting",
        "was_waiting",
    )

    def __init__(self, name: str, key: int, next: int) -> None:
        self.name = name
        self.key = key  # 0: not in the database yet
        self.next = next  # the number of the first pending event
        self.pending: list[Event] = []
        self.size = 0  # of the pending events, as `core.sizes` counts
        self.previews: PendingPreviews | None = None  # of one that outlives its process
        self.expected: list[tuple[str, str]] = []
        self.dirty = False
        self.is_awaited = False  # a barrier waits for it
        self.can_wait = (
            False  # until a barrier does: it has nothing to do with other runs, and does not outlive its process
        )
        self.marked = 0  # in which of `Commits`' periods it got dirty
        self.finished = False
        self.released = False
        self.was_waiting = False  # when it was resumed, or since then
        self.waiting = False  # there is nothing to do until an answer comes
        self.error: RondaError | None = None  # events are missing: nothing more can be kept
        self.is_reported = False  # the driver knows

    def fail(self, error: RondaError) -> None:
        """Nothing more of it can be kept."""
        self.error = error
        self.pending = []
        self.size = 0
        self.expected = []
        self.previews = None
        self.dirty = False
        self.finished = False
        if self.released:
            report_lost(self)


class Portion(Struct):
    """What of a run goes into one transaction. More may be said of the run while a thread writes it."""

    held: Held
    key: int
    events: list[Event]
    expected: list[tuple[str, str]]
    size: int
    is_let_go: bool
    is_waiting: bool
    previews: list[Some] = []
    are_over: bool = False  # the previews before these are of rounds that are over
    error: RondaError | None = None  # it cannot be written

    @classmethod
    def of(cls, held: Held) -> Portion:
        is_let_go = held.released and not held.finished
        portion = cls(held, held.key, held.pending, held.expected, held.size, is_let_go, held.waiting)
        held.pending = []
        held.size = 0
        held.is_awaited = False
        if held.expected:
            held.expected = []
        if held.previews is not None:
            portion._take_previews(held.previews)
        return portion

    def _take_previews(self, waiting: PendingPreviews) -> None:
        self.previews, waiting.pending = waiting.pending, []
        if self.events:  # which say what those said that are dropped
            self.are_over, waiting.are_over = waiting.are_over, False

    def put_back(self) -> None:
        held = self.held
        held.pending = self.events + held.pending
        held.size += self.size
        held.expected = self.expected + held.expected
        if held.previews is not None:
            held.previews.put_back(self.previews, are_over=self.are_over)


def report_lost(held: Held) -> None:
    """What a driver did not hear because it did not wait is not lost silently."""
    if not held.is_reported:
        held.is_reported = True
        _log.error("the last events of run %s are lost: %s", held.name, held.error)


class _Writing(Protocol):
    def mark(self, held: Held) -> None:
        """Something of this run is to be written."""


class HeldRuns:
    """That half of a journal which takes what is said, and never waits."""

    def __init__(self, writing: _Writing) -> None:
        self._writing = writing
        self._held: dict[str, Held] = {}

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        if not events:
            return
        held = self._held.get(run)
        if (first := type(events[0])) in PREVIEWS:
            if held is not None and held.previews is not None and (added := held.previews.add(events)):
                held.size += added
                if not held.dirty:
                    self._writing.mark(held)
            return
        if first is RunStarted:
            if held is not None:
                raise JournalConflict(f"run {run!r} is being driven here already")
            held = self._held[run] = Held(run, 0, 0)
            start = cast("RunStarted", events[0])
            if start.outlives:
                held.previews = PendingPreviews(0)
            else:
                held.can_wait = start.parent is None and not start.call
        elif held is None:
            raise _not_held(run)
        if held.error is not None:
            return
        held.pending += events
        held.waiting = False
        held.size += events_size(events, LARGE) if size is None else size
        if held.previews is not None:
            held.previews.add_facts(events)
        if type(events[-1]) is RunFinished:
            held.finished = True
        if not held.dirty:
            self._writing.mark(held)

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        held = self._held.get(run)
        if held is None:
            raise _not_held(run)
        held.expected += [(owner, id) for id in call_ids]
        if not held.dirty and held.error is None:
            self._writing.mark(held)

    def pause(self, run: str) -> None:
        held = self._held.get(run)
        if held is not None:
            held.waiting = held.was_waiting = True
            if not held.dirty and held.error is None:
                self._writing.mark(held)

    def release(self, run: str, *, waiting: bool = False) -> None:
        held = self._held.pop(run, None)
        if held is None:
            return
        held.released = True
        held.can_wait = False
        held.waiting = held.waiting or waiting
        if held.error is not None:
            report_lost(held)
        if held.key and not held.finished and not held.dirty:
            self._writing.mark(held)  # to say that nobody drives it any more


def _not_held(run: str) -> ProtocolError:
    return ProtocolError(f"nobody holds run {run!r} here: start it with its RunStarted, or resume it")
