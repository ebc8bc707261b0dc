"""Runs one after another that handed over, found again by their names: read, or followed as one stream.

Whoever drives them has a `Relay`; this is for everybody else.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ronda.core.events import Event
from ronda.core.run import Run, rebuild
from ronda.host.log import Follower, OnNews
from ronda.server.answering.relay import RelayWriter
from ronda.server.services.runs import Runs
from ronda.wire.mistral.handoffs import goes_on, next_leg

LOOKS_EVERY: Final = 0.05  # seconds
LOOKS: Final = 40  # for a run that must be there soon: it is kept with the end of the one before


async def read_handoff_runs(runs: Runs, first: list[Event], owner: str) -> list[list[Event]]:
    """The events of a run, and of those that it handed over to."""
    legs = [first]
    while goes_on(run := rebuild(legs[-1])):
        following = await runs.read(next_leg(run), owner)
        if not following:
            break
        legs.append(following)
    return legs


class HandoffFollower:
    """`run` is the one that is being followed."""

    def __init__(self, runs: Runs, run: Run, follower: Follower, writer: RelayWriter, sibling: int) -> None:
        self._runs = runs
        self.run = run
        self._follower = follower
        self._writer = writer
        self._sibling = sibling
        self._call: OnNews | None = None
        self._search: asyncio.Task[None] | None = None
        self._is_last = False

    @property
    def is_over(self) -> bool:
        return self._follower.is_over and (self._is_last or not goes_on(self.run))

    def pull(self) -> list[Event]:
        events = self._follower.pull()
        if not events and self._follower.is_over and self._search is None and not self.is_over:
            self._search = asyncio.get_running_loop().create_task(self._find_next())
        return events

    def on_news(self, call: OnNews) -> None:
        self._call = call
        if self._search is None:
            self._follower.on_news(call)
            if self._follower.is_over:  # nothing more comes of it, and nobody would tell
                self._tell()

    def close(self) -> None:
        self._call = None
        self._follower.close()
        if self._search is not None:
            self._search.cancel()
            self._search = None

    async def _find_next(self) -> None:
        name, owner = next_leg(self.run), self.run.start.owner
        for _ in range(LOOKS):
            if events := await self._runs.read(name, owner):
                self._follower.close()
                self.run, self._follower = await self._runs.follow(events)
                self._writer.go_on(self._sibling, self.run)
                break
            await asyncio.sleep(LOOKS_EVERY)
        else:
            self._is_last = True
        self._search = None
        self._tell()

    def _tell(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()
