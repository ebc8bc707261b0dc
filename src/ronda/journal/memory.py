"""A journal that forgets with its process, and before that the oldest runs: for the library, for tests, for `keep: memory`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from ronda.core.events import PREVIEWS, Event, Preview, RunFinished, RunStarted
from ronda.core.sizes import EVENT_BYTES, events_size
from ronda.errors import ProtocolError
from ronda.journal import JournalConflict, RunPage, RunQuery, RunState, RunSummary, UnfinishedRun, driven_here, state_at
from ronda.journal.previews import KEPT_BYTES, PreviewsAfter, outlives

LOOKS_EVERY = 0.05  # seconds


class _RunRecord:
    __slots__ = ("calls", "events", "is_driven", "outlives", "place", "previews", "room", "waiting")

    def __init__(self, place: int) -> None:
        self.place = place  # among all runs there were
        self.events: list[Event] = []
        self.previews: PreviewsAfter = {}
        self.room = KEPT_BYTES  # for more of them
        self.outlives = False
        self.is_driven = True
        self.waiting = False
        self.calls: list[tuple[str, str]] = []

    @property
    def finished(self) -> bool:
        return bool(self.events) and type(self.events[-1]) is RunFinished

    @property
    def summary(self) -> RunSummary:
        start, end = self.events[0], self.events[-1]
        assert type(start) is RunStarted
        is_over = type(end) is RunFinished
        state: RunState = state_at(end) if type(end) is RunFinished else "waiting" if self.waiting else "running"
        ended = getattr(end, "at", 0.0) if is_over else None
        return RunSummary(start.run, start.session, start.agent, state, start.at, ended)


class MemoryJournal:
    """Keeps the last `max_runs` runs: finished ones are forgotten first, those under way never."""

    def __init__(self, max_runs: int = 1000) -> None:
        self._max_runs = max_runs
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
            raise ProtocolError(f"nobody holds run {run!r} here; resume it before appending to it")
        record.events += events
        if record.previews and type(events[-1]) is RunFinished:  # its log has them
            record.previews = {}
        record.waiting = False

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

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        record = self._runs.get(run)
        if record is None or not record.is_driven:
            raise ProtocolError(f"nobody holds run {run!r} here; say what it expects before releasing it")
        for call_id in call_ids:
            self._calls[owner, call_id] = run
            record.calls.append((owner, call_id))

    async def run_of_call(self, owner: str, call_id: str) -> str | None:
        return self._calls.get((owner, call_id))

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        found = []
        for name, record in self._runs.items():
            if not record.is_driven and not record.finished and type(start := record.events[0]) is RunStarted:
                found.append(UnfinishedRun(name, len(record.events), start, record.waiting))
        return found

    async def list_runs(self, query: RunQuery) -> RunPage:
        state, session, agent = query.state, query.session, query.agent
        found: list[RunSummary] = []
        last: int | None = None
        for record in reversed(self._runs.values()):
            start = record.events[0]
            if type(start) is not RunStarted or start.owner != query.owner:
                continue
            if query.before is not None and record.place >= query.before:
                continue
            one = record.summary
            is_named = query.among is None or one.run in query.among
            if not is_named or one.run in query.without:
                continue
            if state in (None, one.state) and session in (None, one.session) and agent in (None, one.agent):
                if len(found) == query.limit:
                    return RunPage(found, last)
                found.append(one)
                last = record.place
        return RunPage(found)

    def pause(self, run: str) -> None:
        if (record := self._runs.get(run)) is not None and record.is_driven:
            record.waiting = True

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
        """The oldest finished run, or else the oldest that nobody holds."""
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

    def _drop(self, run: str) -> None:
        for call in self._runs.pop(run).calls:
            if self._calls.get(call) == run:
                del self._calls[call]
