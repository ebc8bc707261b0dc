"""POST /v1/agents/completions: the whole loop inside one request, plain or streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs
from starlette.types import ASGIApp

from ronda.core.plan import AUTO
from ronda.core.run import Run
from ronda.errors import NotFound
from ronda.server.door import owner_of
from ronda.server.exchange import Incoming
from ronda.server.mistral.agents import ServedAgent
from ronda.server.mistral.endpoint import invalid, mistral_error
from ronda.server.mistral.nines import Remembering, with_own_ids
from ronda.server.mistral.upstream import fitted
from ronda.server.models import Served
from ronda.wire.mistral.completion import CompletionAnswer
from ronda.wire.mistral.details import Invalid
from ronda.wire.mistral.server import guarded, read_completion

if TYPE_CHECKING:
    from ronda.server.app import Server


async def agent_completions(server: Server, request: Incoming) -> ASGIApp:
    try:
        asked = read_completion(await request.json_body(server.config.max_body))
        served = find_agent(server, asked.model, owner_of(request))
        if asked.chose:
            served = structs.replace(served, choice=AUTO)
        if asked.guarded == "no" and isinstance(served, ServedAgent):
            asked = structs.replace(asked, guarded=guarded(served.agent.guardrails))
        asked = structs.replace(asked, turns=await with_own_ids(server.runs, asked.turns, owner_of(request)))
        asked, told = fitted(asked, served)
    except Invalid as error:
        return invalid(error)

    def writer(runs: Sequence[Run], model: str, warnings: Sequence[str]) -> CompletionAnswer:
        return CompletionAnswer(runs, model, [*told, *warnings])

    return await Remembering(server, request, asked, writer, mistral_error, served).answer()


def find_agent(server: Server, id: str, owner: str) -> Served:
    """An agent of this owner's, of everybody's, or a model: an agent that brings nothing along."""
    try:
        return server.models.find(id, owner)
    except NotFound as error:
        if error.code != "model_not_found":
            raise
        there_is = ", ".join(f"'{name}'" for name in server.models.listed)
        raise NotFound(
            f"the agent '{id[:200]}' does not exist; make one with POST /v1/agents, or name one of {there_is}",
            param="agent_id",
            code="agent_not_found",
        ) from error
