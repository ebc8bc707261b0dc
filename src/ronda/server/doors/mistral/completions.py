"""POST /v1/agents/completions: the whole loop inside one request, plain or streamed, over all agents that hand over in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, structs
from starlette.types import ASGIApp

from ronda.core.events import RunStarted
from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import AUTO
from ronda.errors import NotFound, quote_names
from ronda.server.answering.answer import Exchange
from ronda.server.answering.continuation import continue_answer
from ronda.server.answering.opening import Job, answer_alone
from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.doors.mistral.endpoint import mistral_error
from ronda.server.doors.mistral.handoffs import next_of, offer_handoffs
from ronda.server.doors.mistral.history import place_of
from ronda.server.doors.mistral.upstream import fit_to_upstream, without_prompt
from ronda.server.http.incoming import Incoming
from ronda.server.services.models import Target
from ronda.server.services.runs import Runs
from ronda.server.services.served_agent import ServedAgent
from ronda.wire.call_ids import INSTEAD, stored_ids
from ronda.wire.door_request import AnswerOptions
from ronda.wire.mistral.declarations import raws
from ronda.wire.mistral.handoffs import about_ways
from ronda.wire.mistral.server_answer import CompletionAnswer
from ronda.wire.mistral.server_request import CompletionRequest, guardrail_level, read_completion

if TYPE_CHECKING:
    from ronda.server.app import Server


COMPLETION_ANSWERS: Final = AnswerDoor(
    "/v1/agents/completions", "", "chat.completion", AnswerOptions.key, CompletionAnswer, without="conversation"
)


async def agent_completions(server: Server, incoming: Incoming) -> ASGIApp:
    owner = incoming.owner
    request = await incoming.read(server.config.max_body, read_completion)
    if request.decisions:
        return await continue_answer(
            server, incoming, request.decisions, request.stream, COMPLETION_ANSWERS, mistral_error
        )
    target = await find_agent(server, request.model, owner)
    if isinstance(target, ServedAgent) and target.agent.handoffs:
        by = await _caller_of(server.runs, request.turns, owner)
        if by is not None and (there := await _still_there(server, by, owner)) is not None:
            request, target = _instead(request), there
    job = await _job(server, owner, request, target, 0)
    return await Exchange(server, incoming, job, CompletionAnswer, mistral_error, door=COMPLETION_ANSWERS).answer()


async def _job(server: Server, owner: str, request: CompletionRequest, target: Target, handed: int) -> Job:
    """What one agent is asked. A choice among the tools was made for the first; the rest of the request is for all of them."""
    given = await offer_handoffs(server, target, owner, request, "server")
    target, mine = given.target, request
    if request.chose and not handed:
        target = structs.replace(target, choice=AUTO)
    if request.guardrail_level == "no" and isinstance(target, ServedAgent):
        mine = structs.replace(mine, guardrail_level=guardrail_level(target.agent.guardrails))
    id = target.id if isinstance(target, ServedAgent) else None
    mine = structs.replace(mine, about={**request.about, **raws({"agent_id": id}), **about_ways(given.ways, handed)})

    async def ask_next(agent: ServedAgent, turns: tuple[Turn, ...], parent: tuple[str, int], handed: int) -> Job:
        following = structs.replace(
            _instead(request), model=agent.name, turns=without_prompt(turns), parent=parent, choice=AUTO, n=1
        )
        return await _job(server, owner, following, agent, handed)

    return Job(
        fit_to_upstream(mine, target),
        target,
        place_of if given.ways is not None else answer_alone,
        next_of(server, owner, given, ask_next),
    )


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


async def _still_there(server: Server, id: str, owner: str) -> Target | None:
    try:
        return await server.models.find(id, owner)
    except NotFound:
        return None


async def find_agent(server: Server, id: str, owner: str) -> Target:
    """An agent of this owner's, of everybody's, or a model: an agent that brings nothing along."""
    try:
        return await server.models.find(id, owner)
    except NotFound as error:
        if error.code != "model_not_found":
            raise
        there_is = quote_names(server.models.names)
        raise NotFound(
            f"the agent '{id[:200]}' does not exist; make one with POST /v1/agents, or name one of {there_is}",
            param="agent_id",
            code="agent_not_found",
        ) from error
