"""What runs ask people, over HTTP: which questions are open, and an answer to one. As mistral.rs has it, and a list.

A question is its owner's: to other owners it does not exist. It takes one answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from starlette.types import ASGIApp

from ronda.core.run import rebuild
from ronda.errors import AlreadyAnswered, BadRequest, NotFound
from ronda.journal import OpenQuestion, RunQuestions
from ronda.server.http.incoming import Incoming, Json
from ronda.server.services.acting import note_act, owner_for
from ronda.server.services.answers import Answers, Conflict
from ronda.server.services.other_processes import OtherProcesses
from ronda.server.services.runs import Runs, open_questions
from ronda.store.audit import Audit
from ronda.wire.codec.json import encode
from ronda.wire.shared.approvals import approval_of, read_decision, write_approval
from ronda.wire.shared.fields import read_fields

_MOST_RUNS: Final = 1000  # that are looked at for a list


class ApprovalsDoor:
    def __init__(self, runs: Runs, answers: Answers, others: OtherProcesses, audit: Audit, max_body: int) -> None:
        self._runs = runs
        self._answers = answers
        self._others = others
        self._audit = audit
        self._max_body = max_body

    async def list_approvals(self, incoming: Incoming) -> ASGIApp:
        """What waits for a decision, the newest first: as runs here stand now, and as the journal has noted it of all others."""
        found: list[dict[str, Any]] = []
        owner = owner_for(incoming, "decide")
        for asking in await self._runs.journal.open_questions(owner, _MOST_RUNS):
            if (live := self._runs.live.get(asking.run)) is not None:
                questions = open_questions(live.run)
            elif asking.questions is not None:
                questions = asking.questions
            else:
                events = await self._runs.read(asking.run, owner)
                questions = open_questions(rebuild(events)) if events else ()
            found += _shown(asking, questions)
        return Json(encode({"object": "list", "data": found, "has_more": False}))

    async def decide(self, incoming: Incoming) -> ASGIApp:
        """Answer a question. One that is unknown, another owner's, answered or too old is not there."""
        approval_id = incoming.places["id"]
        owner = owner_for(incoming, "decide")
        run = await self._answers.find_question(approval_id, owner)
        if run is None:
            return _not_there(f"there is no approval '{approval_id[:100]}' that waits")
        if self._others.peers is not None and run not in self._runs.live:
            elsewhere = await self._others.peers.answer(incoming, run, self._max_body)
            if elsewhere is not None:
                return elsewhere
        decision = await incoming.read(self._max_body, lambda body: read_decision(read_fields(body), approval_id))
        answer = decision.answer(incoming.owner)
        if answer is None:
            raise BadRequest("'decision' is missing: approve or deny", param="decision")
        try:
            if owner != incoming.owner:
                await note_act(
                    self._audit, incoming, "approval.decide", approval_id, f"owner {owner}; {answer.decision}"
                )
            await self._answers.answer_question(run, owner, answer)
        except (AlreadyAnswered, NotFound, Conflict) as error:
            return _not_there(str(error))
        return Json(encode({"status": "resolved"}))


def _shown(asking: RunQuestions, questions: Sequence[OpenQuestion]) -> list[dict[str, Any]]:
    now = time.time()
    shown = []
    for one in questions:
        question = one.question
        if not question.expires_at or question.expires_at > now:
            approval = approval_of(question, one.tool, asking.session, one.round)
            shown.append({**write_approval(approval), "run_id": asking.run, "created_at": question.at})
    return shown


def _not_there(message: str) -> Json:
    return Json(encode({"status": "not_found", "message": message}), 404)
