"""What runs ask people, over HTTP: which questions are open, and an answer to one. As mistral.rs has it, and a list.

A question is its owner's: to anybody else it does not exist. It takes one answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp

from ronda.core.events import Answered, RunFinished
from ronda.core.run import Run, rebuild
from ronda.errors import AlreadyAnswered, BadRequest, NotFound
from ronda.host.run import LiveRun
from ronda.journal import JournalConflict, RunQuery, RunState
from ronda.server.detached.recovery import answer_waiting
from ronda.server.http.incoming import Incoming, Json
from ronda.wire.approvals import approval_of, read_decision, write_approval
from ronda.wire.fields import read_fields
from ronda.wire.json import encode

if TYPE_CHECKING:
    from ronda.server.app import Server

_MOST_RUNS: Final = 1000  # that are looked at for a list
_PAGE: Final = 100
_TRIES: Final = 25  # while others take the run up, or leave it
_PAUSE: Final = 0.02  # seconds between two tries


class Conflict(BadRequest):
    """What is asked of a run does not go with how it stands."""

    status_hint = 409


async def list_approvals(server: Server, incoming: Incoming) -> ASGIApp:
    """What waits for a decision, the newest first."""
    found = [shown async for run in _asking(server, incoming.owner) for shown in _questions(run)]
    return Json(encode({"object": "list", "data": found, "has_more": False}))


async def _asking(server: Server, owner: str) -> AsyncIterator[Run]:
    """Runs of this owner's that have asked something: those that wait, and those under way."""
    states: tuple[RunState, ...] = ("running", "waiting")
    looked_at = 0
    for state in states:
        before: int | None = None
        while looked_at < _MOST_RUNS:
            page = await server.runs.journal.list_runs(RunQuery(owner, state=state, before=before, limit=_PAGE))
            looked_at += len(page.runs)
            for one in page.runs:
                run = await _run(server, one.run, owner)
                if run is not None and run.ended is None and not run.start.call:  # else its parent asks
                    yield run
            if (before := page.before) is None:
                break


async def _run(server: Server, id: str, owner: str) -> Run | None:
    if (live := server.runs.live.get(id)) is not None:
        return live.run
    events = await server.runs.read(id, owner)
    return rebuild(events) if events else None


def _questions(run: Run) -> list[dict[str, Any]]:
    now = time.time()
    shown = []
    for question in run.questions:
        if not question.expires_at or question.expires_at > now:
            spec = None if question.child else run.tools.get(question.tool)
            approval = approval_of(question, spec, run.start.session, run.round - 1)
            shown.append({**write_approval(approval), "run_id": run.id, "created_at": question.at})
    return shown


async def decide(server: Server, incoming: Incoming) -> ASGIApp:
    """Answer a question. One that is unknown, somebody else's, answered or too old is not there."""
    id = incoming.places["id"]
    run = await find_question(server, id, incoming.owner)
    if run is None:
        return _not_there(f"there is no approval '{id[:100]}' that waits")
    if server.peers is not None and run not in server.runs.live:
        elsewhere = await server.peers.answer(incoming, run, server.config.max_body)
        if elsewhere is not None:
            return elsewhere
    decision = await incoming.read(server.config.max_body, lambda body: read_decision(read_fields(body), id))
    answer = decision.answer(incoming.owner)
    if answer is None:
        raise BadRequest("'decision' is missing: approve or deny", param="decision")
    try:
        await answer_question(server, run, incoming.owner, answer)
    except (AlreadyAnswered, NotFound, Conflict) as error:
        return _not_there(str(error))
    return Json(encode({"status": "resolved"}))


def _not_there(message: str) -> Json:
    return Json(encode({"status": "not_found", "message": message}), 404)


async def find_question(server: Server, id: str, owner: str) -> str | None:
    """The run that asks, or has asked."""
    return await server.runs.journal.run_of_call(owner, id)


async def answer_question(server: Server, id: str, owner: str, answer: Answered, *, waits: bool = False) -> LiveRun:
    """Tell a run what was decided. One that nobody drives goes on here; `waits`: somebody stays with it when it asks again."""
    for _ in range(_TRIES):
        if (live := server.runs.live.get(id)) is not None and live.run.start.owner == owner:
            live.send(answer)
            return live
        events = await server.runs.read(id, owner)
        if not events:
            raise NotFound(f"the run '{id[:100]}' does not exist, or is not kept any more", param="id")
        if type(events[-1]) is RunFinished:
            raise Conflict(f"the run '{id}' is over already", code="run_is_over")
        if rebuild(events).is_waiting:
            try:
                return await answer_waiting(server, id, answer, waits=waits)
            except JournalConflict:  # somebody takes it up, or is about to leave it
                pass
        await asyncio.sleep(_PAUSE)
    raise Conflict(f"the run '{id}' is driven by another process", code="run_is_elsewhere")
