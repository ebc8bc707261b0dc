"""A journal that forgets with its process, and before that the oldest runs: for the library, for tests, for `keep: memory`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from ronda.core.events import PREVIEWS, Event, Preview, RunFinished, RunStarted
from ronda.core.sizes import EVENT_BYTES, events_size
from ronda.errors import ProtocolError
from ronda.journal import JournalConflict, RunPage, RunQuery, RunState, RunSummary, Unfinished, state_at
from ronda.journal.previews import KEPT_BYTES, PreviewsAfter, outlives

LOOKS_EVERY = 0.05  # seconds


class _StoredRun:
    __slots__ = ("calls", "events", "held", "outlives", "place", "previews", "room", "waiting")

    def __init__(self, place: int) -> None:
        self.place = place  # among all runs there were
        self.events: list[Event] = []
        self.previews: PreviewsAfter = {}
        self.room = KEPT_BYTES  # for more of them
        self.outlives = False
        self.held = True
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
        self._runs: dict[str, _StoredRun] = {}
        self._calls: dict[tuple[str, str], str] = {}
        self._count = 0

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        if not events:
            return
        kept = self._runs.get(run)
        if type(events[0]) in PREVIEWS:
            if kept is not None and kept.held and kept.outlives and kept.room > 0:
                kept.room -= events_size(events, KEPT_BYTES) + EVENT_BYTES * len(events)
                kept.previews.setdefault(len(kept.events) - 1, []).extend(cast("Sequence[Preview]", events))
            return
        if type(events[0]) is RunStarted:
            if kept is not None:
                raise JournalConflict(f"run {run!r} is in the journal already")
            self._count += 1
            kept = self._runs[run] = _StoredRun(self._count)
            kept.outlives = events[0].outlives
            while len(self._runs) > self._max_runs and self._forget_oldest():
                pass
        elif kept is None or not kept.held:
            raise ProtocolError(f"nobody holds run {run!r} here; resume it before appending to it")
        kept.events += events
        if kept.previews and type(events[-1]) is RunFinished:  # its log has them
            kept.previews = {}
        kept.waiting = False

    async def barrier(self, run: str) -> None:
        pass

    async def read(self, run: str) -> list[Event]:
        kept = self._runs.get(run)
        return [] if kept is None else kept.events.copy()

    async def previews(self, run: str, after: int = 0) -> PreviewsAfter:
        kept = self._runs.get(run)
        return {} if kept is None else {fact: previews.copy() for fact, previews in kept.previews.items()}

    async def changed(self, run: str) -> None:
        await asyncio.sleep(LOOKS_EVERY)

    async def extent(self, run: str) -> tuple[int, int]:
        kept = self._runs.get(run)
        return (0, 0) if kept is None else (len(kept.events), sum(map(len, kept.previews.values())))

    async def resume(self, run: str) -> list[Event]:
        kept = self._runs.get(run)
        if kept is None:
            return []
        if kept.held:
            raise JournalConflict(f"run {run!r} is being driven here already")
        kept.held = True
        kept.outlives = outlives(kept.events)
        return kept.events.copy()

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        kept = self._runs.get(run)
        if kept is None or not kept.held:
            raise ProtocolError(f"nobody holds run {run!r} here; say what it expects before releasing it")
        for call_id in call_ids:
            self._calls[owner, call_id] = run
            kept.calls.append((owner, call_id))

    async def waiting(self, owner: str, call_id: str) -> str | None:
        return self._calls.get((owner, call_id))

    async def unfinished(self) -> list[Unfinished]:
        found = []
        for name, kept in self._runs.items():
            if not kept.held and not kept.finished and type(start := kept.events[0]) is RunStarted:
                found.append(Unfinished(name, len(kept.events), start, kept.waiting))
        return found

    async def list_runs(self, query: RunQuery) -> RunPage:
        state, session, agent = query.state, query.session, query.agent
        found: list[RunSummary] = []
        last: int | None = None
        for kept in reversed(self._runs.values()):
            start = kept.events[0]
            if type(start) is not RunStarted or start.owner != query.owner:
                continue
            if query.before is not None and kept.place >= query.before:
                continue
            one = kept.summary
            is_named = query.among is None or one.run in query.among
            if not is_named or one.run in query.without:
                continue
            if state in (None, one.state) and session in (None, one.session) and agent in (None, one.agent):
                if len(found) == query.limit:
                    return RunPage(found, last)
                found.append(one)
                last = kept.place
        return RunPage(found)

    def pause(self, run: str) -> None:
        if (kept := self._runs.get(run)) is not None and kept.held:
            kept.waiting = True

    def release(self, run: str, *, waiting: bool = False) -> None:
        if (kept := self._runs.get(run)) is not None:
            kept.held = False
            kept.waiting = kept.waiting or waiting

    async def forget(self, run: str) -> bool:
        kept = self._runs.get(run)
        if kept is None:
            return False
        if kept.held:
            raise JournalConflict(f"run {run!r} is being driven here; it cannot be forgotten")
        self._drop(run)
        return True

    async def close(self) -> None:
        pass

    def _forget_oldest(self) -> bool:
        """The oldest finished run, or else the oldest that nobody holds."""
        oldest = None
        for name, kept in self._runs.items():
            if kept.finished:
                oldest = name
                break
            if oldest is None and not kept.held:
                oldest = name
        if oldest is None:
            return False
        self._drop(oldest)
        return True

    def _drop(self, run: str) -> None:
        for call in self._runs.pop(run).calls:
            if self._calls.get(call) == run:
                del self._calls[call]
