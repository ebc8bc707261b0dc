"""POST /v1/agents/completions: the whole loop inside one request, plain or streamed, over all agents that hand over in it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, structs
from starlette.types import ASGIApp

from ronda.core.events import RunStarted
from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import AUTO
from ronda.errors import NotFound, quote_names
from ronda.server.answering.continuation import continue_answer
from ronda.server.answering.exchange import Answering
from ronda.server.answering.opening import Job, answer_alone
from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.doors.mistral.endpoint import mistral_error
from ronda.server.doors.mistral.handoffs import Handoffs
from ronda.server.doors.mistral.history import place_of
from ronda.server.doors.mistral.upstream import fit_to_upstream, without_prompt
from ronda.server.http.incoming import Incoming
from ronda.server.services.agents import ServedAgent
from ronda.server.services.models import Models, Target
from ronda.server.services.runs import Runs
from ronda.wire.mistral.declarations import raws
from ronda.wire.mistral.handoffs import about_ways
from ronda.wire.mistral.server_answer import CompletionAnswer
from ronda.wire.mistral.server_request import CompletionRequest, guardrail_level, read_completion
from ronda.wire.shared.call_ids import INSTEAD, stored_ids
from ronda.wire.shared.door_request import AnswerOptions

COMPLETION_ANSWERS: Final = AnswerDoor(
    "/v1/agents/completions", "", "chat.completion", AnswerOptions.key, CompletionAnswer, without="conversation"
)


class CompletionsDoor:
    def __init__(self, answering: Answering, models: Models, handoffs: Handoffs, max_body: int) -> None:
        self._answering = answering
        self._models = models
        self._handoffs = handoffs
        self._max_body = max_body

    async def agent_completions(self, incoming: Incoming) -> ASGIApp:
        owner = incoming.owner
        request = await incoming.read(self._max_body, read_completion)
        if request.decisions:
            return await continue_answer(
                self._answering, incoming, request.decisions, request.stream, COMPLETION_ANSWERS, mistral_error
            )
        target = await find_agent(self._models, request.model, owner)
        if isinstance(target, ServedAgent) and target.agent.handoffs:
            by = await _caller_of(self._answering.runs, request.turns, owner)
            if by is not None and (there := await self._still_there(by, owner)) is not None:
                request, target = _instead(request), there
        job = await self._job(owner, request, target, 0)
        return await self._answering.answer(incoming, job, CompletionAnswer, mistral_error, door=COMPLETION_ANSWERS)

    async def _job(self, owner: str, request: CompletionRequest, target: Target, handed: int) -> Job:
        """What one agent is asked. A choice among the tools was made for the first; the rest of the request is for all."""
        given = await self._handoffs.offer_handoffs(target, owner, request, "server")
        target, mine = given.target, request
        if request.chose and not handed:
            target = structs.replace(target, choice=AUTO)
        if request.guardrail_level == "no" and isinstance(target, ServedAgent):
            mine = structs.replace(mine, guardrail_level=guardrail_level(target.agent.guardrails))
        agent_id = target.id if isinstance(target, ServedAgent) else None
        mine = structs.replace(
            mine, about={**request.about, **raws({"agent_id": agent_id}), **about_ways(given.ways, handed)}
        )

        async def ask_next(agent: ServedAgent, turns: tuple[Turn, ...], parent: tuple[str, int], handed: int) -> Job:
            following = structs.replace(
                _instead(request), model=agent.name, turns=without_prompt(turns), parent=parent, choice=AUTO, n=1
            )
            return await self._job(owner, following, agent, handed)

        return Job(
            fit_to_upstream(mine, target),
            target,
            place_of if given.ways is not None else answer_alone,
            self._handoffs.next_of(owner, given, ask_next),
        )

    async def _still_there(self, agent_id: str, owner: str) -> Target | None:
        try:
            return await self._models.find(agent_id, owner)
        except NotFound:
            return None


def _instead(request: CompletionRequest) -> CompletionRequest:
    """The request as it is put to another agent than it names. The beginning of an answer was given to that one."""
    about = {name: value for name, value in request.about.items() if name != "prefix"}
    return structs.replace(request, about={**about, INSTEAD: Raw(b"true")})


async def _caller_of(runs: Runs, turns: tuple[Turn, ...], owner: str) -> str | None:
    """The agent whose calls the end of a conversation answers, where it is one that another agent handed over to."""
    last = turns[-1] if turns else None
    ids = [result.call_id for result in last.results] if isinstance(last, ToolTurn) else []
    for name in dict.fromkeys((await runs.journal.runs_of_calls(owner, stored_ids(ids))).values() if ids else ()):
        events = await runs.read(name, owner)
        start = events[0] if events else None
        if isinstance(start, RunStarted) and INSTEAD in start.about:
            return msgspec.json.decode(start.about["agent_id"], type=str)
    return None


async def find_agent(models: Models, agent_id: str, owner: str) -> Target:
    """An agent of this owner's, one for all owners, or a model: an agent that brings nothing along."""
    try:
        return await models.find(agent_id, owner)
    except NotFound as error:
        if error.code != "model_not_found":
            raise
        there_is = quote_names(models.names)
        raise NotFound(
            f"the agent '{agent_id[:200]}' does not exist; make one with POST /v1/agents, or name one of {there_is}",
            param="agent_id",
            code="agent_not_found",
        ) from error
