"""What happens to an owner's runs and sessions, as a feed that any number of clients follow.

    a fact is journaled, here or elsewhere ──► the owner's channel ── reads the rows of these runs ──► what changed ──► clients

A channel is there while a client follows it, and a while longer, so that a client that comes back misses nothing. It says what
the rows say (`journal.run_lists`): whatever a client is told is kept. Without a client nothing is done at all.

A client keeps no place here but a number: the channel has its last events, once for all clients. A client that has fallen behind
those, or that comes back to another process, is told to read the lists again (`reset`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ronda.core.events import Event, RunStarted
from ronda.errors import RondaError
from ronda.host.log import OnNews
from ronda.journal import RunQuery, RunSummary
from ronda.server.services.run_rows import write_row
from ronda.server.services.run_states import queued_runs
from ronda.store.owners import owner_mark
from ronda.wire.codec.json import encode
from ronda.wire.own.events import wire_event

if TYPE_CHECKING:
    from ronda.host.supervisor import Supervisor
    from ronda.server.services.other_processes import OtherProcesses
    from ronda.server.services.runs import Runs
    from ronda.store.queue import Queue
    from ronda.store.sessions import Sessions

KEPT_EVENTS: Final = 500  # of a channel: what a busy owner's runs do in some minutes
KNOWN_RUNS: Final = 500  # whose rows a channel compares
SESSIONS: Final = 50  # that were used last: those whose changes are told
GATHERED: Final = 0.03  # seconds in which what happens is told as one
LINGERS: Final = 60.0  # seconds that a channel is there without a client: a browser that comes back takes less
LOOKS_EVERY: Final = 1.0  # seconds between two looks where processes share a file, and cannot tell each other
MOST_FOLLOWERS: Final = 32  # of one owner: tabs of a browser, and scripts


class TooManyFollowers(RondaError):
    status_hint = 429


class FeedEvent(Struct, frozen=True):
    number: int
    kind: str
    data: bytes


class Channel:
    """What happens to one owner's runs and sessions."""

    def __init__(self, owner: str, feed: Feed) -> None:
        self.owner = owner
        self.mark = owner_mark(owner)
        self.followers: list[FeedFollower] = []
        self.events: deque[FeedEvent] = deque(maxlen=KEPT_EVENTS)
        self.last = 0  # the number of the newest event
        self._feed = feed
        self._opened = feed.clock()
        self._changed: set[str] = set()  # runs of which something was journaled
        self._news = asyncio.Event()
        self._rows: dict[str, RunSummary] = {}
        self._sessions: dict[str, float] | None = None  # when each was used last; None: not read yet

    def hear(self, run: str | None) -> None:
        """Something happened to this run, or to a session."""
        if run is not None:
            self._changed.add(run)
        self._news.set()

    async def keep_up(self) -> None:
        """Until no client has followed for a while."""
        empty_since: float | None = None
        await self._look_at_sessions()
        while True:
            if self.followers:
                empty_since = None
            elif empty_since is None:
                empty_since = time.monotonic()
            elif time.monotonic() - empty_since > LINGERS:
                return
            try:
                async with asyncio.timeout(LOOKS_EVERY):
                    await self._news.wait()
            except TimeoutError:
                if not self._feed.is_shared:
                    continue
                await self._look_at_newest()
                continue
            await asyncio.sleep(GATHERED)
            self._news.clear()
            changed, self._changed = self._changed, set()
            names = sorted(changed)
            for index in range(0, len(names), 100):
                await self._look_at_runs(RunQuery(self.owner, names=tuple(names[index : index + 100]), limit=100))
            await self._look_at_sessions()

    async def _look_at_newest(self) -> None:
        """What other processes did with the same file, and sent no notice of."""
        await self._look_at_runs(RunQuery(self.owner, limit=50))
        await self._look_at_runs(RunQuery(self.owner, states=("queued", "running", "waiting"), limit=100))
        await self._look_at_sessions()

    async def _look_at_runs(self, query: RunQuery) -> None:
        page = await self._feed.list_runs(query)
        for row in reversed(page):
            before = self._rows.pop(row.run, None)
            self._rows[row.run] = row
            self._compare(before, row)
        while len(self._rows) > KNOWN_RUNS:
            del self._rows[next(iter(self._rows))]

    def _compare(self, before: RunSummary | None, row: RunSummary) -> None:
        if before is None and row.started >= self._opened:
            self._tell("run_started", run=write_row(row))
        elif before is None or before.state != row.state:
            self._tell("run_changed", run=write_row(row))
        known = {one.question.id: one for one in before.questions} if before is not None else {}
        now = {one.question.id: one for one in row.questions}
        for name, one in now.items():
            if name not in known:
                self._tell("asked", run=write_row(row), question=wire_event(one.question))
        for name in known:
            if name not in now:
                self._tell("answered", run=write_row(row), question={"id": name})

    async def _look_at_sessions(self) -> None:
        found = {row.name: row.updated for row in await self._feed.list_sessions(self.owner)}
        before, self._sessions = self._sessions, found
        if before is None:
            return
        oldest = min(found.values(), default=0.0)
        for name, updated in found.items():
            if before.get(name) != updated:
                self._tell("session_changed", session={"id": name, "updated_at": updated, "deleted": False})
        for name, updated in before.items():
            if name not in found and (updated > oldest or len(found) < SESSIONS):
                self._tell("session_changed", session={"id": name, "updated_at": updated, "deleted": True})

    def _tell(self, kind: str, **members: Any) -> None:
        self.last += 1
        data = encode({"type": kind, "at": self._feed.clock(), **members})
        self.events.append(FeedEvent(self.last, kind, data))
        for follower in self.followers:
            follower.ring()


class FeedFollower:
    """A place in a channel. Its client comes when it likes, and takes what has come since."""

    def __init__(self, channel: Channel, after: int | None, epoch: str) -> None:
        self._channel = channel
        self._epoch = epoch
        self._after = channel.last if after is None else after
        self._is_new = True
        self._call: OnNews | None = None
        self.is_over = False

    def pull(self) -> list[FeedEvent]:
        channel, after = self._channel, self._after
        first = channel.events[0].number if channel.events else channel.last + 1
        if after > channel.last or after < first - 1:
            self._after = channel.last
            return [self._notice("reset")]
        found = [event for event in channel.events if event.number > after]
        self._after = channel.last
        if self._is_new:
            self._is_new = False
            begin = FeedEvent(after, "ready", encode({"type": "ready", "position": f"{self._epoch}.{after}"}))
            return [begin, *found]
        return found

    def _notice(self, kind: str) -> FeedEvent:
        self._is_new = False
        reason = "what happened since is not known here any more: read the lists again"
        return FeedEvent(self._after, kind, encode({"type": kind, "reason": reason}))

    def on_news(self, call: OnNews) -> None:
        self._call = call
        if self._after != self._channel.last:
            self.ring()

    def ring(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    def close(self) -> None:
        if self in self._channel.followers:
            self._channel.followers.remove(self)
        self.is_over = True


class Feed:
    """`epoch` is this process in positions: a number of another process means nothing here."""

    def __init__(
        self,
        runs: Runs,
        queue: Queue,
        sessions: Sessions,
        supervisor: Supervisor,
        others: OtherProcesses,
    ) -> None:
        self.epoch = secrets.token_hex(4)
        self._others = others
        self._hears_others = False
        self._runs = runs
        self._queue = queue
        self._sessions = sessions
        self._supervisor = supervisor
        self._channels: dict[str, Channel] = {}

    def follow(self, owner: str, position: str | None) -> FeedFollower:
        """`position` is the last that the client has seen: what it misses comes first, or it is told that this cannot be."""
        channel = self._channels.get(owner)
        if channel is None:
            channel = self._open(owner)
        if len(channel.followers) >= MOST_FOLLOWERS:
            raise TooManyFollowers(f"{MOST_FOLLOWERS} streams of /v1/events are open; close one")
        after = None
        if position is not None:
            epoch, _, number = position.partition(".")
            after = int(number) if epoch == self.epoch and number.isdecimal() and len(number) < 16 else -1
        follower = FeedFollower(channel, after, self.epoch)
        channel.followers.append(follower)
        return follower

    @property
    def is_shared(self) -> bool:
        """Other processes write to the same file, and do not say so."""
        return self._others.peers is not None and self._others.replicas is None

    def session_changed(self, owner: str) -> None:
        """By a request about the session itself. What runs add to it is reported with their ends."""
        if (channel := self._channels.get(owner)) is not None:
            channel.hear(None)
        if (replicas := self._others.replicas) is not None:
            self._supervisor.do("the notice of a changed session", replicas.session_changed(owner))

    def hear_notice(self, notice: Mapping[str, Any]) -> None:
        """What another process has said to all. An empty one: something was said that was lost."""
        for channel in self._channels.values():
            for run, facts, previews, *mark in notice.get("runs", ()):
                if mark == [channel.mark] and (facts is not None or previews is None):
                    channel.hear(run)
            if channel.mark in notice.get("sessions", ()):
                channel.hear(None)

    def close(self) -> None:
        """The server ends: so do the streams, and clients come back to the next one."""
        for channel in self._channels.values():
            for follower in tuple(channel.followers):
                follower.close()
                follower.ring()

    def clock(self) -> float:
        return self._runs.clock()

    async def list_runs(self, query: RunQuery) -> list[RunSummary]:
        queued = await queued_runs(self._queue, self._runs, query.owner)
        query = RunQuery(query.owner, query.states, names=query.names, limit=query.limit, queued=tuple(queued))
        return (await self._runs.journal.list_runs(query)).runs

    async def list_sessions(self, owner: str) -> list[Any]:
        return (await self._sessions.page(owner, SESSIONS)).sessions

    def _open(self, owner: str) -> Channel:
        journal = self._runs.journal
        if not self._hears_others and (replicas := self._others.replicas) is not None:
            self._hears_others = True
            replicas.hear(self.hear_notice)
        if not self._channels:
            journal.watchers = (*journal.watchers, self._hear)
        channel = self._channels[owner] = Channel(owner, self)
        self._supervisor.do("the feed of an owner's runs", self._keep(channel))
        return channel

    async def _keep(self, channel: Channel) -> None:
        try:
            while True:
                try:
                    await channel.keep_up()
                    return
                except RondaError:  # the database is away for a while
                    await asyncio.sleep(LOOKS_EVERY)
        finally:
            del self._channels[channel.owner]
            if not self._channels:
                journal = self._runs.journal
                journal.watchers = tuple([one for one in journal.watchers if one != self._hear])

    def _hear(self, run: str, events: Sequence[Event]) -> None:
        """Called by the journal with what is appended; nothing of it is kept yet, so the rows are looked at later."""
        owner = events[0].owner if events and type(events[0]) is RunStarted else None
        if owner is None and (live := self._runs.live.get(run)) is not None:
            owner = live.run.start.owner
        for channel in self._channels.values():
            if owner is None or channel.owner == owner:
                channel.hear(run)
