"""What people decide, and say → the runs that asked: recorded and kept before any client is told so; all of it, or nothing.

    find the runs ──► hold those that are not driven ──► check every answer ──► tell all of them ──► kept ──► 200
                                  └─ what goes wrong up to here lets them go again ─┘

A run that is driven here takes an answer at once. One that no process drives is resumed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from ronda.core.events import Answered, RunFinished, Steered
from ronda.core.run import rebuild
from ronda.errors import AlreadyAnswered, BadRequest, NotFound
from ronda.host.run import LiveRun
from ronda.journal import JournalConflict, WrittenByNewer
from ronda.journal.event_rows import check_drivable
from ronda.server.http.rights import rights_of, use_rights
from ronda.server.services.reopening import Over, Reopener
from ronda.server.services.runs import Runs

_TRIES: Final = 25  # while others take a run up, or leave it
_PAUSE: Final = 0.02  # seconds between two tries

AnswersByRun: TypeAlias = Mapping[str, Sequence[Answered | Steered]]


class Conflict(BadRequest):
    """What is asked of a run does not go with how it stands."""

    status_hint = 409


class Answers:
    """`over` is called when a run that goes on here is over."""

    def __init__(self, runs: Runs, reopener: Reopener, over: Over) -> None:
        self._runs = runs
        self._reopener = reopener
        self._over = over

    async def answer_question(self, run: str, owner: str, answer: Answered) -> LiveRun:
        """Tell a run what was decided."""
        return (await self.answer_questions(owner, {run: [answer]}))[run]

    async def steer(self, run: str, owner: str, steered: Steered) -> LiveRun:
        """Tell a run something that its model hears with its next call; one that waits for people goes on waiting."""
        return (await self.answer_questions(owner, {run: [steered]}))[run]

    async def answer_questions(self, owner: str, answers: AnswersByRun, *, waits: bool = False) -> dict[str, LiveRun]:
        """Tell runs what was decided. `waits`: a client stays with those that are resumed here when they ask again."""
        for _ in range(_TRIES):
            try:
                return await self._tell_all(owner, answers, waits)
            except WrittenByNewer as error:
                raise Conflict(str(error), code="written_by_newer") from error
            except JournalConflict:  # another process takes one up, or is about to leave it
                await asyncio.sleep(_PAUSE)
        names = ", ".join([f"'{run}'" for run in answers if run not in self._runs.live])
        raise Conflict(f"the run {names} is driven by another process", code="run_is_elsewhere")

    async def _tell_all(self, owner: str, answers: AnswersByRun, waits: bool) -> dict[str, LiveRun]:
        opened: dict[str, LiveRun] = {}
        try:
            for run in answers:
                if not self._is_driven(run, owner):
                    await self._check_waiting(run, owner)
                    opened[run] = await self._reopener.reopen_waiting(run, waits=waits)
            lives = {run: opened.get(run) or self._runs.live.get(run) for run in answers}
            for run, live in lives.items():
                _check(run, live, answers[run])
        except BaseException:
            for run, live in opened.items():
                live.leave()
                self._runs.sessions.over_soon(run)
            raise
        # Nothing waits before all of them have it, so that one commit has it.
        live_runs = {run: live for run, live in lives.items() if live is not None}
        receipts = {run: [live.submit(answer) for answer in answers[run]] for run, live in live_runs.items()}
        for live in opened.values():
            use_rights(rights_of(live.run.start))
            live.start(self._over)
        await asyncio.gather(*[live.tell(receipts[run]) for run, live in live_runs.items()])
        return live_runs

    def _is_driven(self, run: str, owner: str) -> bool:
        live = self._runs.live.get(run)
        return live is not None and live.run.start.owner == owner

    async def _check_waiting(self, run: str, owner: str) -> None:
        """Looking at a run needs no hold: one is taken only where there may be an answer for it."""
        events = await self._runs.read(run, owner)
        if not events:
            raise NotFound(f"the run '{run[:100]}' does not exist, or is not kept any more", param="id")
        if type(events[-1]) is RunFinished:
            raise Conflict(f"the run '{run}' is over already", code="run_is_over")
        check_drivable(run, events)
        if not rebuild(events).is_waiting:
            raise JournalConflict(f"run {run!r} is driven, or about to be")

    async def find_question(self, question_id: str, owner: str) -> str | None:
        """The run that asks, or has asked."""
        return (await self._runs.journal.runs_of_calls(owner, [question_id])).get(question_id)


def _check(run: str, live: LiveRun | None, answers: Sequence[Answered | Steered]) -> None:
    if live is None or live.inbox is None:
        raise JournalConflict(f"run {run!r} was left just now")
    ids = [answer.id for answer in answers if type(answer) is Answered]
    if len(set(ids)) < len(ids):
        raise AlreadyAnswered(f"a question of run '{run}' is answered twice")
    for answer in answers:
        live.inbox.check(answer)
