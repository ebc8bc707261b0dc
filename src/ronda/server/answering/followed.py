"""Runs of one answer, each from a fact on, and a writer → the stream of that answer.

The same for an answer that goes on after people decided, one that is fetched or watched later, and one that runs in the
background: whoever drives its runs, this process, another, or nobody any more. What is read and written is the door's.
"""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.events import Event
from ronda.core.run import Run
from ronda.host.log import ALL_PREVIEWS, Follower, Position
from ronda.host.run import LiveRun
from ronda.server.answering.follow import EventStream, Following, PausingWriter, StreamWriter, Writer
from ronda.server.answering.handoff_runs import HandoffFollower
from ronda.server.answering.relay import RelayWriter
from ronda.server.http.incoming import Header
from ronda.server.services.runs import Runs
from ronda.wire.failures import Failure, why_unended


class FollowedAnswer:
    """`found` are the facts of each run; of those, the first `since` were told in an answer before."""

    def __init__(
        self,
        all_runs: Runs,
        found: Sequence[list[Event]],
        since: Sequence[int],
        followed: Sequence[tuple[Run, Follower]],
        lives: Sequence[LiveRun | None],
    ) -> None:
        self._all_runs = all_runs
        self._found = found
        self._since = since
        self._lives = lives
        self.runs = [run for run, _ in followed]
        self._followers = [follower for _, follower in followed]

    @classmethod
    async def of(
        cls,
        all_runs: Runs,
        found: Sequence[list[Event]],
        since: Sequence[int] = (),
        lives: Sequence[LiveRun | None] = (),
    ) -> FollowedAnswer:
        """`lives`: who is known to drive each, also if it has just ended."""
        since = since or [0] * len(found)
        known = [*lives] or [None] * len(found)
        followed: list[tuple[Run, Follower]] = []
        for sibling, (events, told) in enumerate(zip(found, since, strict=True)):
            behind: Position | None = (told - 1, ALL_PREVIEWS) if told else None
            live = known[sibling]
            followed.append(await all_runs.follow(events, behind) if live is None else (live.run, live.follow(behind)))
            known[sibling] = live or all_runs.live.get(followed[-1][0].id)
        return cls(all_runs, found, since, followed, known)

    @property
    def is_whole(self) -> bool:
        """Whether every piece of what is not told yet is kept as it was shown; else some come together."""
        return all(follower.is_whole for follower in self._followers)

    def stream(
        self,
        writer: Writer,
        headers: Sequence[Header] = (),
        *,
        frames: StreamWriter | None = None,
        with_handoffs: bool = False,
    ) -> EventStream:
        """`frames`: what numbers the writer's pieces. `with_handoffs`: runs that one hands over to are part of the answer."""
        for sibling, (events, told) in enumerate(zip(self._found, self._since, strict=True)):
            if told > 1:
                assert isinstance(writer, PausingWriter)  # those of doors whose answers go on are
                writer.skip(sibling, events[1:told])
        legs: list[HandoffFollower | None] = [None] * len(self.runs)
        if with_handoffs and isinstance(writer, RelayWriter):
            both = zip(self.runs, self._followers, strict=True)
            legs = [HandoffFollower(self._all_runs, *one, writer, sibling) for sibling, one in enumerate(both)]

        def why(sibling: int) -> Failure | None:
            leg, live = legs[sibling], self._lives[sibling]
            run = self.runs[sibling] if leg is None else leg.run
            if live is None or live.run.id != run.id:
                live = self._all_runs.live.get(run.id)
            return why_unended(run if live is None else live.run, None if live is None else live.error)

        followers: list[Following] = [
            follower if leg is None else leg for leg, follower in zip(legs, self._followers, strict=True)
        ]
        return EventStream(followers, frames or writer, headers, is_open=True, why_unended=why)
