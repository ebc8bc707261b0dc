"""A chain of runs: each hands over to the next, and all of them are one answer. It is driven, followed or read as one.

Each is an ordinary run, journaled and driven as any other. The next one is opened when one has ended, before its end is
kept: a crash leaves both or neither. So a follower that comes later, or reads elsewhere, finds the next by its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ronda.core.events import Event
from ronda.core.run import Run, rebuild
from ronda.host.log import Follower, OnNews
from ronda.host.run import BeforeEnd, Driven, Folding, LiveRun
from ronda.server.services.runs import Runs
from ronda.wire.mistral.handoffs import hands_over, next_leg

STOP_REASONS: Final = ("cancelled", "interrupted")
LOOKS_EVERY: Final = 0.05  # seconds
LOOKS: Final = 40  # for a run that must be there soon: it is kept with the end of the one before


class Leg(NamedTuple):
    """A run that goes on from another, who goes on from it, and who is told about it before it is driven."""

    live: LiveRun
    open_next: OpenNext | None = None
    added: Callable[[Run], Awaitable[None]] | None = None


# A run that has ended → the run that goes on from it, if one does.
OpenNext: TypeAlias = "Callable[[LiveRun], Awaitable[Leg | None]]"


@runtime_checkable
class ChainWriter(Protocol):
    """A writer that one run after another is told to."""

    def hand_over(self, sibling: int, run: Run) -> None:
        """What comes now is of this run."""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None: ...


# ---- driven -----------------------------------------------------------------------------------------------------------


class Chain(Driven):
    """`run` is the one under way, or the last."""

    def __init__(self, live: LiveRun, open_next: OpenNext, writer: ChainWriter) -> None:
        self.task = self.error = None
        self.cancel_was_asked = False
        self.legs = [Leg(live, open_next)]
        self._writer = writer
        self._sibling = live.run.start.sibling
        self._is_over = False
        self._changed = asyncio.Event()  # another run goes on, or none will

    @property
    def run(self) -> Run:
        """Of one that broke down the first, by which the choices are told apart."""
        return self.legs[0 if self.error is not None else -1].live.run

    async def keep(self) -> None:
        await self.legs[-1].live.keep()

    async def drive(self) -> None:
        self.task = asyncio.current_task()
        leg: Leg | None = self.legs[0]
        try:
            while leg is not None:
                leg = await self._drive_leg(leg)
        except Exception as error:
            self.error = error  # before it is closed: its followers ask then
            raise
        finally:
            self.task = None  # which knows us: a cycle would leave every request to the collector
            self._close()

    async def _drive_leg(self, leg: Leg) -> Leg | None:
        """Drive one run to its end; the leg that goes on from it."""
        live, following = leg.live, list[Leg | None]()
        if leg.open_next is not None:
            live.before_end = partial(_open_next, leg.open_next, following, live.before_end)
        try:
            if live.run.ended is None:
                await live.drive()
            after = following[0] if following else None
            if after is not None and after.added is not None:
                await after.added(after.live.run)
        except BaseException:
            for opened in following:
                if opened is not None:
                    opened.live.discard("the run before it broke down")
            raise
        finally:
            self.cancel_was_asked = live.cancel_was_asked
        if after is not None:
            self.legs.append(after)
            self._changed.set()
        return after

    def _close(self) -> None:
        self._is_over = True
        self._changed.set()

    @property
    def followers(self) -> int:
        return sum([leg.live.followers for leg in self.legs])

    def fold_into(self, writer: Folding) -> None:
        """What happened, for a plain answer."""
        for at, leg in enumerate(self.legs):
            if at:
                self._writer.hand_over(self._sibling, leg.live.run)
            writer.fold(self._sibling, leg.live.shown_facts())

    def follow(self) -> ChainFollower:
        first = self.legs[0].live
        return ChainFollower(first.run, first.follow(), self._leg_after, self._writer, self._sibling)

    async def _leg_after(self, run: Run) -> tuple[Run, Follower] | None:
        while True:
            for before, leg in pairwise(self.legs):
                if before.live.run is run:
                    return leg.live.run, leg.live.follow()
            if self._is_over:
                return None
            self._changed.clear()
            await self._changed.wait()


async def _open_next(
    open_next: OpenNext, following: list[Leg | None], at_last: BeforeEnd | None, live: LiveRun
) -> None:
    """`at_last` is for the run that no other goes on from."""
    after = None if live.run.ended is None or live.run.ended.reason in STOP_REASONS else await open_next(live)
    following.append(after)
    if at_last is not None and (after is None or after.live.run.ended is not None):
        await at_last(live)


# ---- read, and followed -----------------------------------------------------------------------------------------------


async def read_chain(runs: Runs, first: list[Event], owner: str) -> list[list[Event]]:
    """The events of a run, and of those that it handed over to."""
    legs = [first]
    while hands_over(run := rebuild(legs[-1])):
        following = await runs.read(next_leg(run), owner)
        if not following:
            break
        legs.append(following)
    return legs


async def kept_leg_after(runs: Runs, run: Run) -> tuple[Run, Follower] | None:
    """The next leg of a chain that another task or process drives, or drove: found in the journal."""
    name, owner = next_leg(run), run.start.owner
    for _ in range(LOOKS):
        if events := await runs.read(name, owner):
            return await runs.follow(events)
        await asyncio.sleep(LOOKS_EVERY)
    return None


# A run that has handed over → the next, and a follower of it; None if there will be none.
LegAfter: TypeAlias = Callable[[Run], Awaitable["tuple[Run, Follower] | None"]]


class ChainFollower:
    """One run after the other, as one stream. `run` is the one that is being followed."""

    def __init__(self, run: Run, follower: Follower, leg_after: LegAfter, writer: ChainWriter, sibling: int) -> None:
        self.run = run
        self._follower = follower
        self._leg_after = leg_after
        self._writer = writer
        self._sibling = sibling
        self._call: OnNews | None = None
        self._search: asyncio.Task[None] | None = None
        self._is_last = False

    @property
    def is_over(self) -> bool:
        return self._follower.is_over and (self._is_last or not hands_over(self.run))

    def pull(self) -> list[Event]:
        events = self._follower.pull()
        if not events and self._follower.is_over and self._search is None and not self.is_over:
            self._search = asyncio.get_running_loop().create_task(self._find_next())
        return events

    def on_news(self, call: OnNews) -> None:
        self._call = call
        if self._search is None:
            self._follower.on_news(call)
            if self._follower.is_over:  # nothing more comes of it, and its log tells no more
                self._tell()

    def close(self) -> None:
        self._call = None
        self._follower.close()
        if self._search is not None:
            self._search.cancel()
            self._search = None

    async def _find_next(self) -> None:
        found = await self._leg_after(self.run)
        if found is None:
            self._is_last = True
        else:
            self._follower.close()
            self.run, self._follower = found
            self._writer.hand_over(self._sibling, self.run)
        self._search = None
        self._tell()

    def _tell(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()
