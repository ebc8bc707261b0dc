"""An answer that waited for people → its result, as an answer of its own: to the request that brings their decisions.

    approvals (Chat, Messages, Mistral's completions) · mcp_approval_response (Responses) · tool_confirmations (conversations)

The run is the same. What it did before was told in the answer before; a writer leaves that out (`skip`). A request that decides
nothing, and only names what it waits for, gets what others have decided.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp

from ronda.core.events import Answered, Event, RunFinished, RunStarted
from ronda.core.run import Run, rebuild
from ronda.drive import check_answer
from ronda.errors import BadRequest, NotFound
from ronda.host.log import until_over
from ronda.host.run import LiveRun
from ronda.journal.siblings import siblings_of
from ronda.server.answering.answer import Writer
from ronda.server.answering.exchange import Answering, is_paused
from ronda.server.answering.kept_runs import KeptRuns
from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.http.failure import ErrorWriter, run_error_answer
from ronda.server.http.incoming import Header, Incoming, Json, Watch
from ronda.server.services.answers import Answers, Conflict
from ronda.server.services.runs import Runs
from ronda.wire.shared.approvals import Decision
from ronda.wire.shared.failures import failure_of_run

_LOOKS_EVERY: Final = 0.5  # seconds, for what others decide …
_LONGEST_LOOK: Final = 20.0  # … and for so long, before a plain answer says that it still waits

# Runs, and how many facts of each were told before → a writer that can go on from there.
MakeWriterAgain: TypeAlias = Callable[[Sequence[Run], Sequence[int]], Writer]


class Choice(Struct):
    """A run of the answer: all that is journaled of it, and how many of these facts were told before."""

    events: list[Event]
    since: int
    live: LiveRun | None = None  # who continues it, once it was told what was decided

    @property
    def start(self) -> RunStarted:
        start = self.events[0]
        assert type(start) is RunStarted
        return start


async def continue_answer(
    answering: Answering,
    incoming: Incoming,
    decisions: Sequence[Decision],
    stream: bool,
    door: AnswerDoor,
    error: ErrorWriter,
) -> ASGIApp:
    """At a door whose answers are found by their runs."""

    def check(run: Run) -> bool:
        return door.has(run.start)

    def make_writer(runs: Sequence[Run], since: Sequence[int]) -> Writer:
        return door.make_writer(runs)

    return await resume_answer(answering, incoming, decisions, stream, check, make_writer, error)


async def resume_answer(
    answering: Answering,
    incoming: Incoming,
    decisions: Sequence[Decision],
    stream: bool,
    is_of_door: Callable[[Run], bool],
    make_writer: MakeWriterAgain,
    write_error: ErrorWriter,
) -> ASGIApp:
    owner, runs, answers = incoming.owner, answering.runs, answering.answers
    choices = await _choices(runs, answers, owner, decisions, is_of_door)
    await _tell(runs, answers, owner, decisions, choices, stream)
    run_id = choices[0].start.run.encode()
    ids = b", ".join([choice.start.run.encode() for choice in choices])
    headers: list[Header] = [(b"x-request-id", run_id), (b"request-id", run_id), (b"x-ronda-run", ids)]
    if not any(one.verdict for one in decisions):
        seconds = answering.settings().approval_timeout
        seconds = seconds if stream else min(seconds, _LONGEST_LOOK)
        await _until_decided(runs, incoming, choices, seconds)
    if stream:
        return await _stream(runs, choices, make_writer, headers)
    await _until_settled(runs, incoming, choices)
    return _plain(choices, make_writer, write_error, headers)


# ---- which runs, and what they are told --------------------------------------------------------------------------------


async def _choices(
    all_runs: Runs, answers: Answers, owner: str, decisions: Sequence[Decision], is_of_door: Callable[[Run], bool]
) -> list[Choice]:
    names: list[str] = []
    for at, one in enumerate(decisions):
        name = await answers.find_question(one.id, owner)
        if name is None:
            raise NotFound(
                f"there is no approval '{one.id[:100]}': it is unknown, or its run is not kept any more",
                param=f"approvals[{at}].id",
                code="approval_not_found",
            )
        names.append(name)
    first = await all_runs.read(names[0], owner)
    run = rebuild(first)
    if not is_of_door(run):
        raise BadRequest(
            f"the approval '{decisions[0].id}' belongs to an answer of another API: decide it at POST "
            f"/v1/agent/approvals/{decisions[0].id}",
            param="approvals",
            code="approval_of_another_api",
        )
    together = siblings_of(run.start)
    if not set(names) <= set(together):
        raise BadRequest("'approvals' are of several answers; send one request for each", param="approvals")
    ids = {one.id for one in decisions}
    choices: list[Choice] = []
    for name in together:
        events = await all_runs.read(name, owner)
        answered = [at for at, event in enumerate(events) if type(event) is Answered and event.id in ids]
        since = min(answered, default=len(events)) if name in names else 1  # the other choices are told as they were
        choices.append(Choice(events, since))
    return choices


async def _tell(
    runs: Runs,
    known: Answers,
    owner: str,
    decisions: Sequence[Decision],
    choices: Sequence[Choice],
    stream: bool,
) -> None:
    """All of the decisions, or none."""
    answers: list[tuple[Choice, Answered]] = []
    for one in decisions:
        if (answer := one.answer(owner)) is not None:
            choice = await _asked_by(known, choices, one, owner)
            live = runs.live.get(choice.start.run)
            check_answer(rebuild(choice.events) if live is None else live.run, answer)
            answers.append((choice, answer))
    by_run: dict[str, list[Answered]] = {}
    for choice, answer in answers:
        by_run.setdefault(choice.start.run, []).append(answer)
    lives = await known.answer_questions(owner, by_run, waits=stream)
    for choice, _ in answers:
        choice.live = lives[choice.start.run]


async def _asked_by(known: Answers, choices: Sequence[Choice], decision: Decision, owner: str) -> Choice:
    name = await known.find_question(decision.id, owner)
    choice = next(choice for choice in choices if choice.start.run == name)
    if type(choice.events[-1]) is RunFinished:
        raise Conflict(f"the approval '{decision.id}' is decided already: its run is over", code="run_is_over")
    return choice


# ---- the result ---------------------------------------------------------------------------------------------------


async def _until_decided(runs: Runs, incoming: Incoming, choices: Sequence[Choice], seconds: float) -> None:
    """Until a decision came by another way, or none for a while."""
    end, gone = time.monotonic() + seconds, asyncio.get_running_loop().create_future()
    watch = Watch(incoming.receive, lambda: gone.set_result(None))
    try:
        while any(_is_left_waiting(runs, choice) for choice in choices):
            if gone.done() or (left := end - time.monotonic()) <= 0:
                return
            await asyncio.wait([gone], timeout=min(left, _LOOKS_EVERY))
            for choice in choices:
                choice.events = await runs.read(choice.start.run, incoming.owner)
    finally:
        watch.stop()


def _is_left_waiting(runs: Runs, choice: Choice) -> bool:
    name = choice.start.run
    return name not in runs.live and rebuild(choice.events).is_waiting


async def _until_settled(runs: Runs, incoming: Incoming, choices: Sequence[Choice]) -> None:
    """Until the runs are over, or wait for people again. A client that leaves does not end them."""
    gone = asyncio.get_running_loop().create_future()
    watch = Watch(incoming.receive, lambda: gone.set_result(None))
    try:
        for choice in choices:
            live = choice.live or runs.live.get(choice.start.run)
            if live is not None:
                over = asyncio.ensure_future(until_over(live.follow()))
                await asyncio.wait([over, gone], return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
            choice.events = await runs.read(choice.start.run, incoming.owner)
    finally:
        watch.stop()


async def _stream(
    all_runs: Runs, choices: Sequence[Choice], make_writer: MakeWriterAgain, headers: Sequence[Header]
) -> ASGIApp:
    since = [choice.since for choice in choices]
    lives = [choice.live or all_runs.live.get(choice.start.run) for choice in choices]
    kept = await KeptRuns.of(all_runs, [choice.events for choice in choices], since, lives)
    return kept.answer(make_writer(kept.runs, since), headers)


def _plain(
    choices: Sequence[Choice], make_writer: MakeWriterAgain, write_error: ErrorWriter, headers: Sequence[Header]
) -> ASGIApp:
    runs = [rebuild(choice.events) for choice in choices]
    writer = make_writer(runs, [choice.since for choice in choices])
    _skip(writer, choices)
    for sibling, (choice, run) in enumerate(zip(choices, runs, strict=True)):
        if not is_paused(run, writer) and (failure := failure_of_run(run)) is not None:
            return run_error_answer(failure, write_error, tuple(headers))
        writer.fold(sibling, choice.events[choice.since :])
    return Json(writer.body(), 200, headers)


def _skip(writer: Writer, choices: Sequence[Choice]) -> None:
    for sibling, choice in enumerate(choices):
        if choice.since > 1:
            writer.skip(sibling, choice.events[1 : choice.since])  # type: ignore[attr-defined]  # those of these doors can
