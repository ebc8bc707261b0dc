"""The log of a run that is driven elsewhere, or not yet: what the journal has of it, and what is added to it.

    journal ──► read when it has grown ──► Log ──► its followers

As soon as the run is driven in this process, its own log is read instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ronda.core.events import PREVIEWS, Event, Preview, RunStarted
from ronda.core.run import Run, rebuild
from ronda.host.log import Follower, Log, Position
from ronda.host.run import LiveRun
from ronda.journal import Journal

ASKS_EVERY: Final = 1.0  # seconds after which it is asked whether a process still drives it


class Tail:
    """`run` is as far as the log, or a fact ahead. `read` gives all events of the run, with an end where it is not driven any
    more."""

    def __init__(
        self,
        events: Sequence[Event],
        previews: Mapping[int, Sequence[Preview]],
        journal: Journal,
        live: Mapping[str, LiveRun],
        read: Callable[[], Awaitable[list[Event]]],
    ) -> None:
        start = events[0]
        assert type(start) is RunStarted
        self.run: Run = rebuild([start])
        self._log = Log(start)
        self._journal = journal
        self._live = live
        self._read = read
        self.fill(events, previews)

    @property
    def is_over(self) -> bool:
        return self._log.is_over

    def follow(self, after: Position | None) -> Follower:
        return self._log.follow(after)

    async def pump(self) -> None:
        """Until the run is over, or has no followers."""
        log, run_id, journal, seen = self._log, self.run.id, self._journal, (-1, -1)
        loop = asyncio.get_running_loop()
        asked, news = loop.time(), loop.create_task(journal.wait_for_change(run_id))
        try:
            while self.run.ended is None and log.followers:
                if (live := self._live.get(run_id)) is not None:
                    await self._pump_live(live)
                    continue
                if news.done():  # a new one before the journal is looked at: what comes after that is not missed
                    news = loop.create_task(journal.wait_for_change(run_id))
                now = await journal.extent(run_id)
                events: Sequence[Event] = log.facts
                if loop.time() - asked >= ASKS_EVERY:
                    asked, events = loop.time(), await self._read()
                elif now[0] != seen[0]:
                    events = await journal.read(run_id)
                if not events:  # forgotten
                    break
                if now != seen or events is not log.facts:
                    self.fill(events, await journal.previews(run_id, len(log.facts) - 1))
                if now == seen:
                    await asyncio.wait([news])
                seen = now
        finally:
            news.cancel()
            log.close()

    async def _pump_live(self, live: LiveRun) -> None:
        follower = live.follow(self._log.last)
        try:
            while not follower.is_over and self._log.followers:
                if events := follower.pull():
                    self._add(events)
                else:
                    await follower.wait()
        finally:
            follower.close()
        await asyncio.sleep(0)

    @property
    def last(self) -> Position:
        return self._log.last

    def fill(self, events: Sequence[Event], previews: Mapping[int, Sequence[Preview]]) -> None:
        """What is not in the log yet."""
        fact, seen = self._log.last
        while fact < len(events):
            self._add(previews.get(fact, ())[seen:])
            fact, seen = fact + 1, 0
            self._add(events[fact : fact + 1])

    def _add(self, events: Sequence[Event]) -> None:
        """Facts and previews, as they come. Each follower is told at once, and reads the run when it has ended: so the run is
        first."""
        for event in events:
            if type(event) not in PREVIEWS:
                self.run.apply(event)
            self._log.append([event])
