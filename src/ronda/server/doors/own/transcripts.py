"""POST /v1/transcripts/check: a conversation and a target model → what would be changed for it and why, and its request.

Nothing is sent and nothing is kept. The body is a request of Chat Completions; the target is a model of this server, or any
model of a provider Ronda knows, by its spec. What is answered is told by the code that would write the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw
from starlette.types import ASGIApp

from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.request import ModelRequest
from ronda.core.transcript import repair
from ronda.drive import capabilities_of
from ronda.drive.offload import aside, is_heavy
from ronda.errors import BadRequest
from ronda.providers import Where, open_provider
from ronda.providers.services import SERVICES
from ronda.server.http.incoming import Incoming, Json
from ronda.server.services.models import Target
from ronda.wire.capabilities import NotHere
from ronda.wire.door_request import DoorRequest
from ronda.wire.openai_chat.server_request import read_request
from ronda.wire.projection import Change, Projection, origins, repairs, warnings_of

if TYPE_CHECKING:
    from ronda.server.app import Server

# Providers that are only an address: asking what they would be sent opens no file and no socket.
_BY_SPEC: Final = ("anthropic", "gemini", "mistral", "mistral-agent", "openai", "openai-chat")


async def check_transcript(server: Server, incoming: Incoming) -> ASGIApp:
    request = await incoming.read(server.config.max_body, read_request)
    for need in server.toolbox.lacks(request.needs):
        raise NotHere(need)
    target = await _target(server, request, incoming.owner)
    heavy = is_heavy(request.turns)
    return Json(await aside(_check_transcript, target, request) if heavy else _check_transcript(target, request))


async def _target(server: Server, request: DoorRequest, owner: str) -> Target:
    provider, _, name = request.model.partition(":")
    service = SERVICES.get(provider)
    by_spec = provider in _BY_SPEC or (service is not None and service.fixed_address is not None)
    if not by_spec or not name:
        return await server.models.find(request.model, owner)
    # A spec means that model, also where the server answers to any name.
    named = await server.models.find_named(request.model, owner)
    return named or Target(name, request.model, open_provider(request.model, Where()))


def _check_transcript(target: Target, door_request: DoorRequest) -> bytes:
    turns = target.begin(door_request.turns)
    repaired = repair(turns)
    options = target.options_under(door_request.options)
    tools = (*target.not_redeclared(door_request.tools), *door_request.tools)
    request = ModelRequest(repaired, tools, door_request.choice, options, door_request.stream, "", 0, 1, scratch={})
    refusal: BadRequest | None = None
    made = Projection(b"null")
    try:
        able = capabilities_of(target.provider)
        able.check(Plan(target.spec, tools, door_request.choice, options))
        if able.project is not None:
            made = able.project(request)
    except BadRequest as error:
        refusal = error
    places = _Places(turns, door_request.turns)
    stood = origins(turns, repaired)
    found = [(change, places.of(change.turn, change.part)) for change in repairs(turns, repaired)]
    for change in made.changes:
        turn = None if change.turn is None else stood[change.turn]
        found.append((change, places.of(turn, change.part)))
    found.sort(key=lambda one: one[1])
    answer: dict[str, Any] = {
        "object": "transcript.check",
        "model": target.spec,
        "accepted": refusal is None,
        "changes": [_change_fields(change, index) for change, index in found],
        "warnings": warnings_of([change for change, _ in found]),
        "request": Raw(made.body),
    }
    if refusal is not None:
        answer["refusal"] = {"message": str(refusal), "param": refusal.param}
    return msgspec.json.encode(answer)


def _change_fields(change: Change, index: int) -> dict[str, str]:
    at = "request" if index < 0 else f"messages[{index}]"
    return {"at": at, "kind": change.kind, "what": change.what, "why": change.why}


class _Places:
    """Where a turn stands among the messages as they came; -1 for what is of no message, such as an agent's own turns."""

    def __init__(self, turns: tuple[Turn, ...], request_turns: tuple[Turn, ...]) -> None:
        self._first: dict[int, int] = {}
        own = {id(turn): at for at, turn in enumerate(turns)}
        place = 0
        for turn in request_turns:
            if id(turn) in own:
                self._first[own[id(turn)]] = place
            place += len(turn.results) if type(turn) is ToolTurn else 1

    def of(self, turn: int | None, part: int) -> int:
        first = self._first.get(turn, -1) if turn is not None else -1
        return first if first < 0 else first + part
