"""A journal that forgets with its process, and before that the oldest runs: for the library, for tests, for `keep: memory`."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ronda.core.events import PREVIEWS, Event, Preview, RunFinished, RunStarted
from ronda.core.sizes import EVENT_BYTES, LARGE, events_size
from ronda.errors import ProtocolError
from ronda.journal import (
    JournalConflict,
    ListedState,
    OpenQuestion,
    RunCounts,
    RunPage,
    RunQuery,
    RunQuestions,
    RunSummary,
    RunSurvey,
    UnfinishedRun,
    Watcher,
    driven_here,
    state_at,
)
from ronda.journal.previews import KEPT_BYTES, PreviewsAfter, outlives
from ronda.journal.run_lists import chosen_by, count_listed, survey_listed
from ronda.journal.tally import Beginning, Figures, Tally

if TYPE_CHECKING:
    from ronda.core.run import Run

LOOKS_EVERY = 0.05  # seconds
MAX_BYTES = (
    256 << 20
)  # of runs that are over, as `core.sizes` counts: with 1,000 runs alone, ten answers of 30 MB stay for days


class _RunRecord:
    __slots__ = (
        "calls",
        "counted",
        "events",
        "is_driven",
        "kept",
        "outlives",
        "place",
        "previews",
        "questions",
        "room",
        "size",
        "tally",
        "waiting",
        "waits_within",
    )

    def __init__(self, place: int) -> None:
        self.place = place  # among all runs there were
        self.events: list[Event] = []
        self.previews: PreviewsAfter = {}
        self.room = KEPT_BYTES  # for more of them
        self.size = 0  # bytes of its events
        self.outlives = False
        self.is_driven = True
        self.kept = False
        self.waiting = False
        self.calls: list[tuple[str, str]] = []
        self.questions: tuple[OpenQuestion, ...] | None = None
        self.waits_within = False
        self.tally: Tally | None = None
        self.counted = 0  # how many of the events it has: they are counted when a list asks

    @property
    def finished(self) -> bool:
        return bool(self.events) and type(self.events[-1]) is RunFinished

    def summary(self, queued: Container[str]) -> RunSummary:
        start, end = self.events[0], self.events[-1]
        assert type(start) is RunStarted
        state: ListedState = "queued" if start.run in queued else "running"
        if type(end) is RunFinished:
            state = state_at(end)
        elif self.waiting or self.waits_within:
            state = "waiting"
        return RunSummary(
            start.run,
            start.session,
            start.agent,
            state,
            start.at,
            end.at if type(end) is RunFinished else None,
            Beginning.of(start),
            self._figures(),
            () if type(end) is RunFinished else self.questions or (),
            start.owner,
            self.kept,
        )

    def _figures(self) -> Figures:
        tally = self.tally = self.tally or Tally()
        tally.add(self.events[self.counted :])
        self.counted = len(self.events)
        return tally.figures


class MemoryJournal:
    """Keeps the last `max_runs` runs, and of those that are over no more than `max_bytes`: finished ones are forgotten
    first, those under way never."""

    def __init__(self, max_runs: int = 1000, max_bytes: int = MAX_BYTES) -> None:
        self.watchers: tuple[Watcher, ...] = ()
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._bytes = 0  # of runs that are over
        self._runs: dict[str, _RunRecord] = {}
        self._calls: dict[tuple[str, str], str] = {}
        self._count = 0

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        if not events:
            return
        record = self._runs.get(run)
        if type(events[0]) in PREVIEWS:
            if record is not None and record.is_driven and record.outlives and record.room > 0:
                record.room -= events_size(events, KEPT_BYTES) + EVENT_BYTES * len(events)
                record.previews.setdefault(len(record.events) - 1, []).extend(cast("Sequence[Preview]", events))
            return
        if type(events[0]) is RunStarted:
            if record is not None:
                raise JournalConflict(f"run {run!r} is in the journal already")
            self._count += 1
            record = self._runs[run] = _RunRecord(self._count)
            record.outlives = events[0].outlives
            while len(self._runs) > self._max_runs and self._forget_oldest():
                pass
        elif record is None or not record.is_driven:
            raise ProtocolError(f"no writer holds run {run!r} here; resume it before appending to it")
        record.events += events
        for watcher in self.watchers:
            watcher(run, events)
        record.size += events_size(events, LARGE) if size is None else size
        record.waiting = False
        if type(events[-1]) is RunFinished:
            record.previews = {}  # its log has them
            self._bytes += record.size
            if self._bytes > self._max_bytes:
                self._forget_large()

    async def barrier(self, run: str) -> None:
        pass

    async def read(self, run: str) -> list[Event]:
        record = self._runs.get(run)
        return [] if record is None else record.events.copy()

    async def previews(self, run: str, after: int = 0) -> PreviewsAfter:
        record = self._runs.get(run)
        return {} if record is None else {fact: previews.copy() for fact, previews in record.previews.items()}

    async def wait_for_change(self, run: str) -> None:
        await asyncio.sleep(LOOKS_EVERY)

    async def extent(self, run: str) -> tuple[int, int]:
        record = self._runs.get(run)
        return (0, 0) if record is None else (len(record.events), sum(map(len, record.previews.values())))

    async def resume(self, run: str) -> list[Event]:
        record = self._runs.get(run)
        if record is None:
            return []
        if record.is_driven:
            raise driven_here(run)
        record.is_driven = True
        record.outlives = outlives(record.events)
        return record.events.copy()

    def count(self, run: Run) -> None:
        """It keeps all facts, and counts them when a list asks."""

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        record = self._runs.get(run)
        if record is None or not record.is_driven:
            raise ProtocolError(f"no writer holds run {run!r} here; say what it expects before releasing it")
        for call_id in call_ids:
            self._calls[owner, call_id] = run
            record.calls.append((owner, call_id))

    def note_questions(self, run: str, questions: tuple[OpenQuestion, ...], *, waits: bool = False) -> None:
        record = self._runs.get(run)
        if record is None or not record.is_driven:
            raise ProtocolError(f"no writer holds run {run!r} here; say what it asks before releasing it")
        record.questions, record.waits_within = questions, waits

    async def open_questions(self, owner: str, limit: int) -> list[RunQuestions]:
        asking: list[tuple[bool, RunQuestions]] = []
        for name, record in reversed(self._runs.items()):
            start = record.events[0]
            if type(start) is not RunStarted or start.owner != owner or record.finished:
                continue
            if record.questions is not None or record.waiting or record.calls:
                asking.append((record.waiting, RunQuestions(name, start.session, record.questions)))
        return [one for _, one in sorted(asking, key=lambda one: one[0])][:limit]

    async def runs_of_calls(self, owner: str, call_ids: Sequence[str]) -> dict[str, str]:
        calls = self._calls
        return {call_id: calls[owner, call_id] for call_id in call_ids if (owner, call_id) in calls}

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        found = []
        for name, record in self._runs.items():
            if not record.is_driven and not record.finished and type(start := record.events[0]) is RunStarted:
                found.append(UnfinishedRun(name, len(record.events), start, record.waiting))
        return found

    async def list_runs(self, query: RunQuery) -> RunPage:
        found: list[RunSummary] = []
        last: int | None = None
        for place, one in self._listed(query):
            if query.before is None or place < query.before:
                if len(found) == query.limit:
                    return RunPage(found, last)
                found.append(one)
                last = place
        return RunPage(found)

    async def mark_kept(self, run: str, owner: str, *, kept: bool) -> bool:
        record = self._runs.get(run)
        if record is None or type(start := record.events[0]) is not RunStarted or start.owner != owner:
            return False
        record.kept = kept
        return True

    async def count_runs(self, query: RunQuery, since: float, until: float, pieces: int) -> RunCounts:
        return count_listed([one for _, one in self._listed(query)], since, until, pieces)

    async def survey_runs(self, since: float, until: float, pieces: int) -> RunSurvey:
        return survey_listed([one for _, one in self._listed(RunQuery(None))], since, until, pieces)

    async def size(self) -> int:
        return sum([record.size for record in self._runs.values()])

    def _listed(self, query: RunQuery) -> Iterator[tuple[int, RunSummary]]:
        """The runs that are asked for, the newest first, and the place of each."""
        line = frozenset() if query.root is None else self._line(query.root)
        for record in reversed(self._runs.values()):
            start = record.events[0]
            if type(start) is RunStarted and query.owner in (None, start.owner):
                one = record.summary(query.queued)
                if chosen_by(query, one, start.owner, line):
                    yield record.place, one

    def _line(self, root: str) -> frozenset[str]:
        """A run, and all that go on from it: each began after its parent."""
        line = {root}
        for name, record in self._runs.items():
            start = record.events[0]
            if type(start) is RunStarted and start.parent is not None and start.parent[0] in line:
                line.add(name)
        return frozenset(line)

    def pause(self, run: str) -> None:
        if (record := self._runs.get(run)) is not None and record.is_driven:
            record.waiting = True
            for watcher in self.watchers:
                watcher(run, ())

    def release(self, run: str, *, waiting: bool = False) -> None:
        if (record := self._runs.get(run)) is not None:
            record.is_driven = False
            record.waiting = record.waiting or waiting

    async def forget(self, run: str) -> bool:
        record = self._runs.get(run)
        if record is None:
            return False
        if record.is_driven:
            raise JournalConflict(f"run {run!r} is being driven here; it cannot be forgotten")
        self._drop(run)
        return True

    async def close(self) -> None:
        pass

    def _forget_oldest(self) -> bool:
        """The oldest finished run, or else the oldest that is not held."""
        oldest = None
        for name, record in self._runs.items():
            if record.finished:
                oldest = name
                break
            if oldest is None and not record.is_driven:
                oldest = name
        if oldest is None:
            return False
        self._drop(oldest)
        return True

    def _forget_large(self) -> None:
        """The oldest that are over, until the others are within the bound. One that has just ended is still held, and stays."""
        for name in [name for name, record in self._runs.items() if record.finished and not record.is_driven]:
            if self._bytes <= self._max_bytes:
                return
            self._drop(name)

    def _drop(self, run: str) -> None:
        record = self._runs.pop(run)
        if record.finished:
            self._bytes -= record.size
        for call in record.calls:
            if self._calls.get(call) == run:
                del self._calls[call]
