"""Runs one after another, each the child of the one before, seen as one: whoever follows the first follows them all.

Each is an ordinary run, journaled and driven as any other. The next one is opened when one has ended, before its end is
kept: a crash leaves both or neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ronda.core.events import Event
from ronda.core.run import Run
from ronda.host.log import OnNews
from ronda.host.run import Driven, Folding, LiveRun
from ronda.server.answering.follow import Following


class Leg(NamedTuple):
    """A run that goes on from another, who goes on from it, and who is told of it before it is driven."""

    live: LiveRun
    next: Next | None = None
    added: Callable[[Run], Awaitable[None]] | None = None


BeforeEnd: TypeAlias = Callable[[LiveRun], Awaitable[None]]
STOP_REASONS: Final = ("cancelled", "interrupted")

# A run that has ended → the run that goes on from it, if one does.
Next: TypeAlias = "Callable[[LiveRun], Awaitable[Leg | None]]"


@runtime_checkable
class RelayWriter(Protocol):
    """A writer that one run after another is told to."""

    def go_on(self, sibling: int, run: Run) -> None:
        """What comes now is of this run."""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None: ...


class Relay(Driven):
    """`run` is the one under way, or the last."""

    def __init__(self, live: LiveRun, next: Next, writer: RelayWriter) -> None:
        self.task = self.error = None
        self.cancel_was_asked = False
        self.legs = [Leg(live, next)]
        self.is_over = False
        self._writer = writer
        self._sibling = live.run.start.sibling
        self._call: OnNews | None = None

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
            self.error = error  # before it is closed: whoever follows it asks then
            raise
        finally:
            self.task = None  # which knows us: a cycle would leave every request to the collector
            self._close()

    async def _drive_leg(self, leg: Leg) -> Leg | None:
        """Drive one run to its end; the leg that goes on from it."""
        live, following = leg.live, list[Leg | None]()
        if leg.next is not None:
            live.before_end = partial(_open_next, leg.next, following, live.before_end)
        try:
            if live.run.ended is None:
                await live.drive()
        except BaseException:
            for opened in following:
                if opened is not None:
                    opened.live.discard("the run before it broke down")
            raise
        finally:
            self.cancel_was_asked = live.cancel_was_asked
        if not following or (after := following[0]) is None:
            return None
        if after.added is not None:
            await after.added(after.live.run)
        self.legs.append(after)
        self._tell()
        return after

    def _close(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._tell()

    # ---- who follows -------------------------------------------------------------------------------------------------

    def follow(self) -> Following:
        return RelayFollower(self)

    @property
    def followers(self) -> int:
        return sum([leg.live.followers for leg in self.legs])

    def fold_into(self, writer: Folding) -> None:
        """What happened, for a plain answer."""
        for at, leg in enumerate(self.legs):
            if at:
                self.begin(leg)
            writer.fold(self._sibling, leg.live.shown_facts())

    def begin(self, leg: Leg) -> None:
        self._writer.go_on(self._sibling, leg.live.run)

    def on_news(self, call: OnNews | None) -> None:
        """Have this called when another run goes on, or none will."""
        self._call = call

    def _tell(self) -> None:
        if self._call is not None:
            self._call()


async def _open_next(next: Next, following: list[Leg | None], at_last: BeforeEnd | None, live: LiveRun) -> None:
    """`at_last` is for the run that nobody goes on from."""
    after = None if live.run.ended is None or live.run.ended.reason in STOP_REASONS else await next(live)
    following.append(after)
    if at_last is not None and (after is None or after.live.run.ended is not None):
        await at_last(live)


class RelayFollower:
    """One run after the other, as one stream."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._at = 0
        self._follower = relay.legs[0].live.follow()

    def pull(self) -> list[Event]:
        events = self._follower.pull()
        if not events and self._follower.is_over and self._at + 1 < len(self._relay.legs):
            self._follower.close()
            self._at += 1
            leg = self._relay.legs[self._at]
            self._relay.begin(leg)
            self._follower = leg.live.follow()
            events = self._follower.pull()
        return events

    @property
    def is_over(self) -> bool:
        relay = self._relay
        return relay.is_over and self._follower.is_over and self._at + 1 == len(relay.legs)

    def on_news(self, call: OnNews) -> None:
        self._follower.on_news(call)
        self._relay.on_news(call)

    def close(self) -> None:
        self._follower.close()
        self._relay.on_news(None)
