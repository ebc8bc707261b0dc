"""The runs that are driven here, and what of each waits to be written: whatever the journal, and whenever it writes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakValueDictionary

from msgspec import Struct

from ronda.core.events import PREVIEWS, Event, RunFinished, RunStarted
from ronda.core.sizes import events_size
from ronda.errors import ProtocolError, RondaError
from ronda.journal import OpenQuestion, Watcher, driven_here
from ronda.journal.previews import PendingPreviews, PreviewBatch, outlives
from ronda.journal.tally import Figures, Tally, figures_of

if TYPE_CHECKING:
    from ronda.core.run import Run

FIGURES_EVERY: Final = 1.0  # seconds between two writes of the figures of a run that is under way
LARGE: Final = 256 << 10  # as `core.sizes` counts: more than this is not for the event loop

_log = logging.getLogger(__name__)


class RunBuffer:
    """A run that is driven here, and what of it waits to be written."""

    __slots__ = (
        "__weakref__", "are_counted", "can_wait", "dirty", "error", "expected", "figures_due", "finished", "is_awaited",
        "is_reported", "key", "marked", "name", "next", "owner", "pending", "previews", "questions", "released", "run", "size",
        "tally", "uncounted", "waiting", "waits_within", "was_waiting",
    )  # fmt: skip

    def __init__(self, name: str, key: int, next_position: int) -> None:
        self.name = name
        self.key = key  # 0: not in the database yet
        self.next = next_position  # the number of the first pending event
        self.pending: list[Event] = []
        self.size = 0  # of the pending events, as `core.sizes` counts
        self.previews: PendingPreviews | None = None  # of one that outlives its process
        self.expected: list[tuple[str, str]] = []
        self.questions: tuple[OpenQuestion, ...] | None = None  # None: as they were
        self.waits_within = False  # with these open nothing happens, although a tool of it may run
        self.run: Run | None = None  # once it is driven: it counts itself. Until then its facts are counted:
        self.tally: Tally | None = None
        self.uncounted: list[Event] = []  # those that the tally does not have
        self.are_counted = True  # the figures that were written last are those of now
        self.figures_due = 0.0  # when they are to be written next, by the monotonic clock, if there are new ones
        self.owner = ""
        self.dirty = False
        self.is_awaited = False  # a barrier waits for it
        # Until a barrier does: it has nothing to do with other runs, and does not outlive its process.
        self.can_wait = False
        self.marked = 0  # in which of `Commits`' periods it got dirty
        self.finished = False
        self.released = False
        self.was_waiting = False  # when it was resumed, or since then
        self.waiting = False  # there is nothing to do until an answer comes
        self.error: RondaError | None = None  # events are missing: nothing more can be kept
        self.is_reported = False  # the driver knows

    def take_figures(self) -> Figures:
        """They are written now."""
        self.figures_due = time.monotonic() + FIGURES_EVERY
        self.are_counted = True
        if self.run is not None:
            return figures_of(self.run)
        if self.tally is None:
            self.tally = Tally()
        self.tally.add(self.uncounted)
        self.uncounted = []
        return self.tally.figures

    def raise_error(self) -> None:
        if self.error is not None:
            self.is_reported = True
            raise self.error.with_traceback(None)

    def fail(self, error: RondaError) -> None:
        """Nothing more of it can be kept."""
        self.error = error
        self.pending = []
        self.size = 0
        self.expected = []
        self.questions = None
        self.previews = None
        self.dirty = False
        self.finished = False
        if self.released:
            report_lost(self)


class Portion(Struct):
    """What of a run goes into one transaction. More may be said of the run while a thread writes it."""

    buffer: RunBuffer
    key: int
    events: list[Event]
    expected: list[tuple[str, str]]
    size: int
    is_let_go: bool
    is_waiting: bool
    questions: tuple[OpenQuestion, ...] | None
    waits_within: bool
    figures: Figures | None  # for the row of the run; None: it has them, or will
    previews: list[PreviewBatch] = []
    are_over: bool = False  # the previews before these are of rounds that are over
    error: RondaError | None = None  # it cannot be written

    @classmethod
    def of(cls, buffer: RunBuffer) -> Portion:
        is_let_go = buffer.released and not buffer.finished
        are_due = not buffer.key or buffer.finished  # they go with the row's beginning, or with its end
        if not (are_due or buffer.are_counted):
            are_due = is_let_go or buffer.waiting or time.monotonic() >= buffer.figures_due
        figures = buffer.take_figures() if are_due else None
        portion = cls(
            buffer,
            buffer.key,
            buffer.pending,
            buffer.expected,
            buffer.size,
            is_let_go,
            buffer.waiting,
            buffer.questions,
            buffer.waits_within,
            figures,
        )
        buffer.pending = []
        buffer.size = 0
        buffer.is_awaited = False
        if buffer.expected:
            buffer.expected = []
        buffer.questions = None
        if buffer.previews is not None:
            portion._take_previews(buffer.previews)
        return portion

    def _take_previews(self, waiting: PendingPreviews) -> None:
        self.previews, waiting.pending = waiting.pending, []
        if self.events:  # which say what those said that are dropped
            self.are_over, waiting.are_over = waiting.are_over, False

    def only_counts(self) -> bool:
        """Whether the figures, where there are some, are written by themselves: else they go with the run's start, or its end."""
        return self.key != 0 and not (self.events and type(self.events[-1]) is RunFinished)

    def leaves_more(self) -> bool:
        """Whether something of the run is still to be written: more was said meanwhile, or it waits, or was let go of."""
        buffer = self.buffer
        more = buffer.pending or buffer.expected or (buffer.previews is not None and buffer.previews.pending)
        is_paused = buffer.waiting and not self.is_waiting
        is_released = buffer.released and buffer.key and not (buffer.finished or self.is_let_go)
        return bool(more or buffer.questions is not None or is_paused or is_released)

    def put_back(self) -> None:
        buffer = self.buffer
        buffer.pending = self.events + buffer.pending
        buffer.size += self.size
        buffer.expected = self.expected + buffer.expected
        if buffer.questions is None:
            buffer.questions = self.questions
        if self.figures is not None:
            buffer.are_counted = False
        if buffer.previews is not None:
            buffer.previews.put_back(self.previews, are_over=self.are_over)


def report_lost(buffer: RunBuffer) -> None:
    """What a driver did not hear because it did not wait is not lost silently."""
    if not buffer.is_reported:
        buffer.is_reported = True
        _log.error("the last events of run %s are lost: %s", buffer.name, buffer.error)


class _Commits(Protocol):
    def mark(self, buffer: RunBuffer) -> None:
        """Something of this run is to be written."""


class BufferedJournal:
    """That half of a journal which takes what is said, and never waits. `_buffers` are of the runs that are driven here."""

    def __init__(self, writing: _Commits) -> None:
        self._writing = writing
        self.watchers: tuple[Watcher, ...] = ()
        self._buffers: dict[str, RunBuffer] = {}
        # Runs that were released, for as long as something of them is being written: those that wait for that hear how it went.
        self._released: WeakValueDictionary[str, RunBuffer] = WeakValueDictionary()

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        if not events:
            return
        buffer = self._buffers.get(run)
        first = events[0]
        if type(first) is RunStarted:
            if buffer is not None:
                raise driven_here(run)
            buffer = self._buffers[run] = RunBuffer(run, 0, 0)
            buffer.owner = first.owner
            if first.outlives:
                buffer.previews = PendingPreviews(0)
            else:
                buffer.can_wait = first.parent is None and not first.call
        elif type(first) in PREVIEWS:
            if buffer is not None and buffer.previews is not None and (added := buffer.previews.add(events)):
                buffer.size += added
                if not buffer.dirty:
                    self._writing.mark(buffer)
            return
        elif buffer is None:
            raise _not_driven(run)
        elif buffer.error is not None:
            return
        buffer.pending += events
        buffer.are_counted = False
        if buffer.run is None:
            buffer.uncounted += events
        for watcher in self.watchers:
            watcher(run, events)
        buffer.size += events_size(events, LARGE) if size is None else size
        buffer.waiting = False
        if buffer.previews is not None:
            buffer.previews.add_facts(events)
        if type(events[-1]) is RunFinished:
            buffer.finished = True
        if not buffer.dirty:
            self._writing.mark(buffer)

    def _resume(self, run: str, key: int, events: Sequence[Event], *, is_waiting: bool) -> None:
        """From now on the run is driven here, behind these events."""
        buffer = self._buffers[run] = RunBuffer(run, key, len(events))
        buffer.finished = type(events[-1]) is RunFinished
        buffer.was_waiting = is_waiting
        if type(start := events[0]) is RunStarted:
            buffer.owner = start.owner
        buffer.uncounted += events
        buffer.are_counted = False
        if outlives(events):
            buffer.previews = PendingPreviews(len(events))

    def count(self, run: Run) -> None:
        buffer = self._buffers.get(run.id)
        if buffer is not None:
            buffer.run, buffer.tally, buffer.uncounted = run, None, []

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        buffer = self._buffers.get(run)
        if buffer is None:
            raise _not_driven(run)
        buffer.expected += [(owner, call_id) for call_id in call_ids]
        if not buffer.dirty and buffer.error is None:
            self._writing.mark(buffer)

    def note_questions(self, run: str, questions: tuple[OpenQuestion, ...], *, waits: bool = False) -> None:
        buffer = self._buffers.get(run)
        if buffer is None:
            raise _not_driven(run)
        if buffer.error is None:
            buffer.questions, buffer.waits_within = questions, waits
            if not buffer.dirty:
                self._writing.mark(buffer)

    def pause(self, run: str) -> None:
        buffer = self._buffers.get(run)
        if buffer is not None:
            buffer.waiting = buffer.was_waiting = True
            for watcher in self.watchers:
                watcher(run, ())
            if not buffer.dirty and buffer.error is None:
                self._writing.mark(buffer)

    def release(self, run: str, *, waiting: bool = False) -> None:
        buffer = self._buffers.pop(run, None)
        if buffer is None:
            return
        buffer.released = True
        buffer.can_wait = False
        buffer.waiting = buffer.waiting or waiting
        if buffer.error is not None:
            report_lost(buffer)
        if buffer.key and not buffer.finished and not buffer.dirty:
            self._writing.mark(buffer)  # to say that it is not driven any more
        if buffer.dirty:
            self._released[run] = buffer


def _not_driven(run: str) -> ProtocolError:
    return ProtocolError(f"no writer holds run {run!r} here: start it with its RunStarted, or resume it")
