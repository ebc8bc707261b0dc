"""What a model is sent, exactly: told by the code that writes it. Nothing is sent and nothing is kept.

    GET /v1/runs/{id}/rounds/{n}/request    a round that was, written again from the run's journal
    POST /v1/render                         a request of any dialect, as its first model call would be
    POST /v1/transcripts/check              a conversation and a target model → what would be changed for it and why

Keys are not shown: neither in addresses nor in headers nor in bodies. The target of a check is a model of this server, or any
model of a provider Ronda knows, by its spec.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw
from starlette.types import ASGIApp

from ronda.core.events import Event, RunStarted
from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.request import ModelRequest
from ronda.core.transcript import repair
from ronda.drive import Provider, capabilities_of
from ronda.drive.offload import aside, is_heavy, load
from ronda.errors import BadRequest, NotFound, RondaError
from ronda.providers import Where, open_provider
from ronda.providers.services import SERVICES
from ronda.server.answering.opening import Job, Opening
from ronda.server.doors.messages_route import MessagesRoute
from ronda.server.doors.responses.create import ResponsesDoor
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.query import Query
from ronda.server.services.models import Models, Target
from ronda.server.services.reopening import Reopening, named_target
from ronda.server.services.runs import Runs
from ronda.server.services.toolbox import Toolbox
from ronda.wire.codec.json import encode
from ronda.wire.openai_chat.server_request import read_request
from ronda.wire.shared.capabilities import NotHere
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.upstream.projection import Change, Projection, origins, repairs, warnings_of

# Providers that are only an address: asking what they would be sent opens no file and no socket.
_BY_SPEC: Final = ("anthropic", "gemini", "mistral", "mistral-agent", "openai", "openai-chat")
_DIALECTS: Final = ("chat", "messages", "responses")
_LONGEST_NUMBER: Final = 9  # digits of a round: no run has a billion

if TYPE_CHECKING:
    from ronda.agent.sent import AskedModel
    from ronda.server.services.agents import AgentFolder


class RoundsDoor:
    """`reopen`: what a feature began a run with that it began itself. `placeholders`: what stands where words were that are not
    kept."""

    def __init__(
        self,
        runs: Runs,
        models: Models,
        reopen: Callable[[RunStarted, Sequence[Event]], Awaitable[Reopening | None]],
        agent_folder: Callable[[], AgentFolder | None],
        placeholders: Callable[[], Sequence[str]],
    ) -> None:
        self._placeholders = placeholders
        self._runs = runs
        self._models = models
        self._reopen = reopen
        self._agent_folder = agent_folder

    async def get_request(self, incoming: Incoming) -> ASGIApp:
        run_id, text = incoming.places["id"], incoming.places["round"]
        events = await self._runs.read(run_id, incoming.owner)
        if not events:
            raise NotFound(
                f"the run '{run_id[:100]}' does not exist, or is not kept any more", param="id", code="run_not_found"
            )
        if not (text.isascii() and text.isdigit()) or len(text) > _LONGEST_NUMBER:
            raise BadRequest(f"'{text[:20]}' is no number of a round; they count from 0", param="round")
        await load("ronda.agent.sent")
        from ronda.agent.sent import describe_round, models_of  # few ask for one

        start = events[0]
        assert type(start) is RunStarted
        number = int(text)
        models = {model: await self._asked_model(start, events, model) for model in models_of(events, number)}

        def describe() -> bytes:
            return encode(describe_round(events, number, models, placeholders=self._placeholders()))

        return Json(await aside(describe))

    async def _asked_model(self, start: RunStarted, events: list[Event], spec: str) -> AskedModel:
        """Who was asked, and whether that is certain: the server may have another model by now."""
        from ronda.agent.sent import AskedModel

        try:
            if spec != start.plan.model:  # it answered in the place of the run's
                if (other := await self._models.find_named(spec, start.owner)) is not None and other.spec == spec:
                    return AskedModel(other.provider)
            elif (whole := await self._reopen(start, events)) is not None:
                return AskedModel(whole.provider)
            elif start.file is not None:
                return AskedModel(await self._file_provider(start))
            elif (target := await named_target(self._models, start)).spec == spec:
                return AskedModel(target.provider)
        except RondaError:  # an agent that is gone: what its model was sent can still be told
            pass
        if _is_by_spec(spec):
            return AskedModel(open_provider(spec, Where()), is_same=False)
        return AskedModel(self._models.default.provider, is_same=False)

    async def _file_provider(self, start: RunStarted) -> Provider:
        await load("ronda.agent.reopen")
        from ronda.agent.prompty_run import agent_of
        from ronda.agent.reopen import kept_file

        assert start.file is not None
        folder, path = self._agent_folder(), Path(start.file.path)
        prompty = await aside(kept_file, start.file, None if folder is None else folder.environment(path))
        return agent_of(prompty).provider


class TranscriptsDoor:
    """`messages` and `responses` read the requests of their dialects."""

    def __init__(
        self,
        models: Models,
        toolbox: Toolbox,
        opening: Opening,
        messages: Callable[[], MessagesRoute],
        responses: Callable[[], ResponsesDoor],
        max_body: int,
    ) -> None:
        self._models = models
        self._toolbox = toolbox
        self._opening = opening
        self._messages = messages
        self._responses = responses
        self._max_body = max_body

    async def render(self, incoming: Incoming) -> ASGIApp:
        """`?dialect=` says which one the body is of; Chat Completions unless it is there."""
        job = await self._read_job(incoming, Query(incoming).word("dialect", "chat", _DIALECTS))
        if job.request.session is not None or job.request.conversation:
            raise BadRequest(
                "what is rendered belongs to no session: leave 'session' out, and send the messages", param="session"
            )
        if job.request.decisions:
            raise BadRequest(
                "an answer to a question is not sent to a model: there is nothing to render", param="messages"
            )
        await load("ronda.agent.sent")
        from ronda.agent.sent import describe_first

        start = await self._opening.start_of(incoming.owner, job)
        if is_heavy(start.turns, start.plan.tools):
            return Json(await aside(lambda: encode(describe_first(start, job.target.provider))))
        return Json(encode(describe_first(start, job.target.provider)))

    async def _read_job(self, incoming: Incoming, dialect: str) -> Job:
        if dialect == "messages":
            await load("ronda.server.doors.messages")
            messages_request, found = await self._messages().read_job(incoming)
            return Job(messages_request, found or self._models.default)
        if dialect == "responses":
            response_request, target = await self._responses().read_job(incoming)
            return Job(response_request, target)
        request = await incoming.read(self._max_body, read_request)
        return Job(request, await self._models.find(request.model, incoming.owner))

    async def check_transcript(self, incoming: Incoming) -> ASGIApp:
        request = await incoming.read(self._max_body, read_request)
        for need in self._toolbox.lacks(request.needs):
            raise NotHere(need)
        target = await self._target(request, incoming.owner)
        heavy = is_heavy(request.turns)
        return Json(await aside(_check_transcript, target, request) if heavy else _check_transcript(target, request))

    async def _target(self, request: DoorRequest, owner: str) -> Target:
        if not _is_by_spec(request.model):
            return await self._models.find(request.model, owner)
        name = request.model.partition(":")[2]
        # A spec means that model, also where the server answers to any name.
        named = await self._models.find_named(request.model, owner)
        return named or Target(name, request.model, open_provider(request.model, Where()))


def _is_by_spec(spec: str) -> bool:
    """Whether a spec is enough to know what its model would be sent."""
    provider, _, name = spec.partition(":")
    service = SERVICES.get(provider)
    return bool(name) and (provider in _BY_SPEC or (service is not None and service.fixed_address is not None))


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
        own = {id(turn): index for index, turn in enumerate(turns)}
        place = 0
        for turn in request_turns:
            if id(turn) in own:
                self._first[own[id(turn)]] = place
            place += len(turn.results) if type(turn) is ToolTurn else 1

    def of(self, turn: int | None, part: int) -> int:
        first = self._first.get(turn, -1) if turn is not None else -1
        return first if first < 0 else first + part
