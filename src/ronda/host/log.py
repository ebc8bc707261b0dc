"""A run's log: its events with their positions, for its followers, from any position, as fast as each of them can.

    append ──► Log ──► Follower.pull ──► a writer, a stream, a reader in a terminal
                 │          at most 64 kB at a time
                 └── False while all followers are far behind: the model's server is then not read

A position is (fact, preview since it), written "12" or "12.345". Facts have the journal's numbers, whether a follower watches
or not.

Previews are kept in memory, within a bound for all logs together (`Logs`). They are dropped by whole rounds that are over,
whose `ModelFinished` says all they said; never in the round under way, where a reader that comes later needs the first of them.
A follower that was in the middle of what is dropped cannot go on (`FellBehind`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias, cast

from ronda.core.events import (
    PREVIEWS,
    CallDelta,
    Event,
    Fact,
    ModelFinished,
    ModelStarted,
    Preview,
    RunFinished,
    RunStarted,
    TextDelta,
)
from ronda.core.sizes import EVENT_BYTES, SMALL, event_size
from ronda.errors import BadRequest, RondaError

Position: TypeAlias = tuple[int, int]
OnNews: TypeAlias = Callable[[], object]
START: Final[Position] = (0, 0)  # after RunStarted
ALL_PREVIEWS: Final = 2**62  # more than any fact has behind it

PULL_BYTES: Final = 64 * 1024  # what a follower is given at a time
ROOM_BYTES: Final = 1024 * 1024  # how far behind the fastest follower may be before a model is held back
KEPT_BYTES: Final = 64 * 1024 * 1024  # of the previews of all logs together
KEPT_SECONDS: Final = 3600.0  # after a run's end
KEPT_RUNS: Final = 32  # that are over and did not outlive their connections: a client may have lost the last words


_text_of: Final = attrgetter("text")


class FellBehind(RondaError):
    """What this follower needs next is no longer kept."""


class CursorAhead(BadRequest):
    """A position that the run has not come to. Whatever came from there on would have other numbers than the run's own."""

    def __init__(self, after: Position, last: Position, param: str) -> None:
        here = write_position(last)
        super().__init__(
            f"'{param}' is {write_position(after)}, and the run has come to {here}; follow it from {here}, or from before",
            param=param,
            code="cursor_ahead",
        )
        self.details = {"last_position": here}


def ring(waiter: asyncio.Future[None]) -> None:
    """Wake the task that awaits it. It may be awake, or gone."""
    if not waiter.done():
        waiter.set_result(None)


def write_position(position: Position) -> str:
    fact, preview = position
    return f"{fact}.{preview}" if preview else str(fact)


def read_position(text: str, param: str) -> Position:
    fact, dot, preview = text.partition(".")
    if len(text) > 40 or not fact.isdecimal() or (dot and not preview.isdecimal()) or not text.isascii():
        raise BadRequest(f"'{param}' is {text[:60]!r}; a position is written as 12 or 12.345", param=param)
    return int(fact), int(preview or 0)


def size_of(batch: Sequence[Event]) -> int:
    size = EVENT_BYTES * len(batch)
    if batch and type(batch[0]) is TextDelta:
        try:
            return size + sum(map(len, map(_text_of, batch)))  # pieces of text: nearly all there is
        except AttributeError:  # and something else
            pass
    for event in batch:
        if type(event) is CallDelta:
            size += len(event.arguments)
        elif type(event) not in SMALL:
            size += event_size(event, KEPT_BYTES)
    return size


class _Cursor:
    """What a log knows of a follower: how much it has taken, and whom to call when there is more."""

    __slots__ = ("call", "passes_starts", "taken")

    def __init__(self, taken: int) -> None:
        self.taken = taken
        self.call: OnNews | None = None
        self.passes_starts = False  # that a model is called is no news to it


class _PreviewStore:
    """Previews by the fact they came after. What is dropped is only counted."""

    __slots__ = ("after", "bytes", "dropped", "ended", "upto")

    def __init__(self, after: dict[int, list[Preview]] | None = None) -> None:
        self.after: dict[int, list[Preview]] = {} if after is None else after
        self.dropped: dict[int, int] = {}
        self.bytes = 0  # of rounds that are over: of what came before the fact `upto`
        self.upto = 0
        self.ended = 0.0  # when its run was over

    def drop(self) -> int:
        """Forget those of rounds that are over; how many bytes they were."""
        for fact in [fact for fact in self.after if fact < self.upto]:
            self.dropped[fact] = len(self.after.pop(fact))
        size, self.bytes = self.bytes, 0
        return size


class Log:
    """`is_over` when nothing more will come; `is_broken` when it is over without an end, because something of ours broke."""

    __slots__ = (
        "_cursors",
        "_kept",
        "_logs",
        "_open_bytes",
        "_room",
        "_since",
        "_size",
        "facts",
        "is_broken",
        "is_over",
    )

    def __init__(self, start: RunStarted, logs: Logs | None = None) -> None:
        self.facts: list[Fact] = [start]
        self.is_over = False
        self.is_broken = False
        self._since: list[Preview] = []  # after the last fact
        self._kept = _PreviewStore()  # after the facts before it
        self._open_bytes = 0  # of the round under way
        self._logs = logs
        self._cursors: list[_Cursor] = []
        self._size = 0  # bytes of everything that came while it had followers
        self._room: asyncio.Future[None] | None = None

    @classmethod
    def of(cls, facts: Sequence[Event], previews: dict[int, list[Preview]]) -> Log:
        """Of a run that is over: its journal, and what is kept of its previews."""
        start = facts[0]
        assert type(start) is RunStarted
        log = cls(start)
        log.facts = cast("list[Fact]", list(facts))
        log._kept = _PreviewStore(previews)
        log.is_over = True
        return log

    def follow(self, after: Position | None = None) -> Follower:
        """Everything after this position; from RunStarted on, if there is none."""
        return Follower(self, (-1, 0) if after is None else after)

    @property
    def is_whole(self) -> bool:
        """Whether previews are kept of all that a model said piece by piece."""
        start, kept = self.facts[0], self._kept.after
        assert type(start) is RunStarted
        if not start.plan.stream:
            return True
        since = 0  # the last fact before this round's answer
        for number, fact in enumerate(self.facts):
            if type(fact) is ModelStarted:
                since = number
            elif type(fact) is ModelFinished and fact.turn.parts and not any(at in kept for at in range(since, number)):
                return False
        return True

    # ---- what happens ------------------------------------------------------------------------------------------------

    def show(self, batch: Sequence[Preview]) -> bool:
        """Take a run's next previews. False if every follower is far behind."""
        self._since += batch
        size = size_of(batch)
        self._open_bytes += size
        if (logs := self._logs) is not None:
            logs.size += size
            if logs.size > logs.keep_bytes:
                logs.drop()
        if not self._cursors:
            return True
        self._size += size
        self._tell()
        return self._open_bytes < ROOM_BYTES or self.has_room  # no follower is far behind in a round that is short

    def append(self, batch: Sequence[Event], size: int | None = None) -> bool:
        """Take a run's next events: all previews, or all facts, and how large these are where that is known."""
        if type(batch[0]) in PREVIEWS:
            return self.show(cast("Sequence[Preview]", batch))
        if self._since:
            self._kept.after[len(self.facts) - 1] = self._since
            self._since = []
        self.facts += cast("Sequence[Fact]", batch)
        if self._open_bytes:
            for fact in batch:
                if type(fact) is ModelStarted or type(fact) is RunFinished:
                    self._kept.bytes += self._open_bytes
                    self._kept.upto = len(self.facts) - 1
                    self._open_bytes = 0
                    break
        if self._cursors:
            self._size += size_of(batch) if size is None else EVENT_BYTES * len(batch) + size
            self._tell(is_start=type(batch[-1]) is ModelStarted)
        return True

    def close(self, *, is_broken: bool = False) -> None:
        """Nothing more will come."""
        if not self.is_over:
            self.is_over, self.is_broken = True, is_broken
            if self._logs is not None:
                self._logs.close_log(self, self._kept, self._open_bytes)
                self._logs = None
        self._tell()
        self._make_room()

    def _tell(self, *, is_start: bool = False) -> None:
        for cursor in self._cursors:
            if (call := cursor.call) is not None and not (is_start and cursor.passes_starts):
                cursor.call = None
                call()

    # ---- who is behind -----------------------------------------------------------------------------------------------

    @property
    def followers(self) -> int:
        return len(self._cursors)

    @property
    def last(self) -> Position:
        """Where it has come to."""
        return len(self.facts) - 1, len(self._since)

    @property
    def has_room(self) -> bool:
        """Whether more should be read for the followers: the fastest sets the pace; without followers nothing is held back."""
        least = self._size - ROOM_BYTES
        for cursor in self._cursors:
            if cursor.taken >= least:
                return True
        return not self._cursors

    async def room(self) -> None:
        """Until a follower has caught up, or none is left."""
        while not (self.is_over or self.has_room):
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done() and (self.is_over or self.has_room):
            self._room.set_result(None)


class Follower:
    """A place in a log, and what comes after it. Its owner closes it."""

    __slots__ = ("_cursor", "_fact", "_log", "_preview")

    def __init__(self, log: Log, after: Position) -> None:
        self._log = log
        self._fact, self._preview = after
        is_new = after == START and len(log.facts) == 1 and not log._since  # nearly always: nothing has happened yet
        self._cursor = _Cursor(log._size - (0 if is_new else size_of(self._next(None))))
        log._cursors.append(self._cursor)

    @property
    def position(self) -> Position:
        return self._fact, self._preview

    @property
    def is_over(self) -> bool:
        """Everything was pulled, and nothing more will come: the log is closed, or the run has said its end."""
        log = self._log
        if not log.is_over and type(log.facts[-1]) is not RunFinished:
            return False
        return self._fact >= len(log.facts) - 1 and self._preview >= len(log._since)

    def pull(self) -> list[Event]:
        """What comes next, about 64 kB of it at the most; empty if there is nothing yet. Raises FellBehind."""
        log, cursor = self._log, self._cursor
        behind = log._size - cursor.taken
        if not behind:
            return []
        if self._fact >= len(log.facts):  # it saw in the journal, or elsewhere, what is about to be shown here
            cursor.taken = log._size
            return []
        is_all = behind <= PULL_BYTES
        if (
            is_all and self._fact == len(log.facts) - 1
        ):  # nearly always: some more of the round under way, which is kept
            latest: list[Event] = log._since[self._preview :]  # type: ignore[assignment]  # read, never written to
            self._preview += len(latest)
            cursor.taken = log._size
            if log._room is not None:
                log._make_room()
            return latest
        if self._preview and self._preview < log._kept.dropped.get(self._fact, 0):
            raise FellBehind("this reader fell so far behind that what it needs next is no longer kept")
        if is_all:
            events = self._next(None)
            cursor.taken = log._size
            self._fact, self._preview = len(log.facts) - 1, len(log._since)
        else:
            events = self._next(PULL_BYTES)
            cursor.taken += size_of(events)
            self._move(events)
        if log._room is not None:
            log._make_room()
        return events

    def _next(self, most: int | None) -> list[Event]:
        """What comes next, without moving: all of it, or as much as fits and at least one event."""
        log, fact, skip = self._log, self._fact, self._preview
        facts, previews = log.facts, log._kept.after
        last = len(facts) - 1
        events: list[Event] = []
        if fact > last:
            return events
        while fact < last:
            if (kept := previews.get(fact)) is not None:
                events += kept[skip:]
            if most is not None and len(events) * EVENT_BYTES > most:
                return _within(events, most)
            fact += 1
            skip = 0
            events.append(facts[fact])
        events += log._since[skip:]
        return events if most is None else _within(events, most)

    def _move(self, events: list[Event]) -> None:
        for event in events:
            if type(event) in PREVIEWS:
                self._preview += 1
            else:
                self._fact += 1
                self._preview = 0

    @property
    def has_more(self) -> bool:
        return self._log._size != self._cursor.taken

    def on_news(self, call: OnNews, *, passes_starts: bool = False) -> None:
        """Have this called, once, when there is more, or nothing will come any more. `passes_starts`: not as long as that is
        only that a model is called."""
        cursor = self._cursor
        cursor.call = call
        cursor.passes_starts = passes_starts

    async def wait(self) -> None:
        """Until there is more, or nothing will come any more. To be called when `pull` gave nothing."""
        if not self._log.is_over:
            waiter = asyncio.get_running_loop().create_future()
            self.on_news(partial(ring, waiter))
            await waiter

    @property
    def is_whole(self) -> bool:
        """As `Log` has it."""
        return self._log.is_whole

    def at(self, position: Position) -> Follower:
        """Another place in the same log."""
        return self._log.follow(position)

    def close(self) -> None:
        log = self._log
        self._cursor.call = None
        if self._cursor in log._cursors:
            log._cursors.remove(self._cursor)
            log._make_room()


async def until_over(follower: Follower) -> None:
    """Read to the end, and close it."""
    try:
        while not follower.is_over:
            if not follower.pull():
                await follower.wait()
    finally:
        follower.close()


def _within(events: list[Event], most: int) -> list[Event]:
    size = 0
    for at, event in enumerate(events):
        size += size_of((event,))
        if size > most:
            return events[: max(at, 1)]
    return events


class Logs:
    """The bound of all logs together, and what is kept of those that are over: their previews only, since the journal has
    the rest. Finished runs go first, the oldest before others, and those that outlived their connections last; then rounds that
    are over of the run that has the most."""

    def __init__(
        self,
        keep_seconds: float = KEPT_SECONDS,
        keep_bytes: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = 0
        self.keep_bytes = KEPT_BYTES if keep_bytes is None else keep_bytes
        self._keep_seconds = keep_seconds
        self._now = now
        self._live: dict[str, _PreviewStore] = {}
        self._over: dict[str, _PreviewStore] = {}  # the oldest first
        self._lasting: dict[str, _PreviewStore] = {}  # those that outlived their connections, likewise

    def open(self, start: RunStarted) -> Log:
        log = Log(start, self)
        self._live[start.run] = log._kept
        return log

    def previews(self, run: str) -> dict[int, list[Preview]]:
        """What is kept of a run that is over."""
        self._drop_old()
        found = self._over.get(run) or self._lasting.get(run)
        return {} if found is None else found.after

    def drop(self) -> None:
        """Keep to the bound."""
        while self.size > self.keep_bytes and self._drop_some():
            pass

    def _drop_old(self) -> None:
        since = self._now() - self._keep_seconds
        for over in (self._over, self._lasting):
            while over and over[oldest := next(iter(over))].ended < since:
                self.forget(oldest)

    def _drop_some(self) -> bool:
        if over := self._over or self._lasting:
            self.forget(next(iter(over)))
            return True
        largest = max(self._live.values(), key=attrgetter("bytes"), default=None)
        if largest is None or not largest.bytes:
            return False  # all of it is of rounds under way
        self.size -= largest.drop()
        return True

    def close_log(self, log: Log, kept: _PreviewStore, left: int) -> None:
        """This log is over; of so many bytes of it nothing is kept."""
        start = log.facts[0]
        assert type(start) is RunStarted
        self._live.pop(start.run, None)
        self.size -= left
        if log.is_broken or not kept.after:
            self.size -= kept.bytes
            return
        kept.ended = self._now()
        if start.outlives:
            self._lasting[start.run] = kept
            self._drop_old()
            return
        self._over[start.run] = kept
        if len(self._over) > KEPT_RUNS:
            self.forget(next(iter(self._over)))

    def forget(self, run: str) -> None:
        """Keep nothing of a run that is over."""
        if (found := self._over.pop(run, None) or self._lasting.pop(run, None)) is not None:
            self.size -= found.drop()
