"""Runs that are kept, each from a fact on → what an answer follows.

The same for an answer that resumes after people decided, one that is fetched or watched later, and one that runs in the
background: its runs may be driven by this process, by another, or be over. What is read and written is the door's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ronda.core.events import Event
from ronda.core.run import Run
from ronda.host.log import ALL_PREVIEWS, Follower, Position
from ronda.host.run import LiveRun
from ronda.server.answering.answer import Answer, Following, PausingWriter, Source, StreamWriter, Writer
from ronda.server.answering.chain import ChainFollower, ChainWriter, kept_leg_after
from ronda.server.http.incoming import Header
from ronda.server.services.runs import Runs
from ronda.wire.shared.failures import Failure, why_unended


class KeptRuns(Source):
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
        self._chains: Sequence[ChainFollower] = ()  # of runs that hand over, where the answer has those after them, too

    @classmethod
    async def of(
        cls,
        all_runs: Runs,
        found: Sequence[list[Event]],
        since: Sequence[int] = (),
        lives: Sequence[LiveRun | None] = (),
    ) -> KeptRuns:
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

    def answer(
        self,
        writer: Writer,
        headers: Sequence[Header] = (),
        *,
        frames: StreamWriter | None = None,
        with_handoffs: bool = False,
    ) -> Answer:
        """`frames`: what numbers the writer's pieces. `with_handoffs`: runs that one hands over to are part of the answer."""
        for sibling, (events, since) in enumerate(zip(self._found, self._since, strict=True)):
            if since > 1:
                assert isinstance(writer, PausingWriter)  # the writers of doors whose answers resume are
                writer.skip(sibling, events[1:since])
        followers: list[Following] = [*self._followers]
        if with_handoffs and isinstance(writer, ChainWriter):
            find = partial(kept_leg_after, self._all_runs)
            both = zip(self.runs, self._followers, strict=True)
            self._chains = [ChainFollower(*one, find, writer, sibling) for sibling, one in enumerate(both)]
            followers = [*self._chains]
        return Answer(followers, frames or writer, self, headers=headers, is_open=True)

    def why_unended(self, sibling: int) -> Failure | None:
        run, live = self.runs[sibling], self._lives[sibling]
        if self._chains:
            run = self._chains[sibling].run
        if live is None or live.run.id != run.id:
            live = self._all_runs.live.get(run.id)
        return why_unended(run if live is None else live.run, None if live is None else live.error)
