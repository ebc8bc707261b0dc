"""POST /v1/responses: the whole loop inside one request, plain or streamed. POST /v1/responses/compact and …/input_tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Raw
from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import ModelFinished
from ronda.core.parts import NULL, AssistantTurn, Turn
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Show
from ronda.providers import split_spec
from ronda.server.answering.answer import Exchange, MakeWriter, Writer
from ronda.server.answering.continuation import resume_answer
from ronda.server.answering.opening import Job, count
from ronda.server.doors.responses.conversation import Local, join_conversation
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.services.hosted_tools import ServerNames, needs_met_here
from ronda.server.services.models import Target
from ronda.server.services.secrets import with_secrets
from ronda.store.catalog import Catalog
from ronda.wire.background import progress
from ronda.wire.door_request import AnswerOptions
from ronda.wire.failures import Failure
from ronda.wire.fields import read_fields
from ronda.wire.openai_chat.server_answer import write_error
from ronda.wire.openai_responses.compaction import CompactAnswer, compaction_of, with_task
from ronda.wire.openai_responses.encrypted_content import Sealer
from ronda.wire.openai_responses.resource import StoredOptions, code_of, response_id
from ronda.wire.openai_responses.server_answer import SDK_LANGUAGE, ResponseAnswer, progress_type
from ronda.wire.openai_responses.server_request import ResponseRequest, read_request, request_of
from ronda.wire.openai_responses.service_tools import for_service

if TYPE_CHECKING:
    from ronda.server.app import Server


_OPENAI: Final = "openai"  # the provider whose upstreams speak this API


class Responses:
    """What a server has for this API: the secret of what is sealed, which is kept."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._secret: bytes | None = None

    async def sealer(self, owner: str) -> Sealer:
        if self._secret is None:
            self._secret = await self._catalog.secret("seal")
        return Sealer(self._secret, owner)


class Silent:
    """Answers for a model that is not to say anything yet: clients prepare a connection like this (Codex)."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return ModelFinished(AssistantTurn(()))


async def create_response(server: Server, incoming: Incoming) -> ASGIApp:
    owner = incoming.owner
    sealer = await server.responses.sealer(owner)
    request = await incoming.read(server.config.max_body, lambda body: read_request(body, sealer))
    return await answer(server, incoming, request)


async def compact_response(server: Server, incoming: Incoming) -> ASGIApp:
    owner = incoming.owner
    sealer = await server.responses.sealer(owner)
    request = await incoming.read(server.config.max_body, lambda body: compaction_of(body, sealer))
    target = await server.models.find(request.model, owner)
    request = await join_conversation(server, request, target, owner)
    conversation = request.turns[1:] if request.answer.instructed else request.turns
    request = replace(request, turns=with_task(request.turns))

    def writer(runs: Sequence[Run]) -> Writer:
        return CompactAnswer(runs[0], conversation)

    return await _exchange(server, incoming, request, target, writer).answer()


async def read_job(server: Server, incoming: Incoming) -> tuple[ResponseRequest, Target]:
    """What would be asked of whom, of a request that nobody answers."""
    owner = incoming.owner
    sealer = await server.responses.sealer(owner)
    request = await incoming.read(
        server.config.max_body, lambda body: request_of({"input": Raw(b'""'), **read_fields(body)}, sealer)
    )
    target = await server.models.find(request.model, owner)
    request = await join_conversation(server, request, target, owner)
    return _fit_to_service(server, request, target)


async def count_input(server: Server, incoming: Incoming) -> ASGIApp:
    """How long the input is. Never calls a model: one of ours counts, an upstream is asked, else it is an estimate."""
    request, target = await read_job(server, incoming)
    return Json(
        b'{"object":"response.input_tokens","input_tokens":%d}'
        % await count(server, target, request, request.turns, incoming.owner)
    )


def responses_error(failure: Failure) -> bytes:
    param = "input" if failure.param == "messages" else failure.param
    return write_error(failure.message, failure.type, param, code_of(failure))


async def answer(
    server: Server,
    incoming: Incoming,
    request: ResponseRequest,
    *,
    sse: bool = True,
    local: Local | None = None,
    started: Callable[[Run], None] | None = None,
) -> ASGIApp:
    """Carry a request out. `sse` is how a stream is written: as server-sent events, or a line per event."""
    owner = incoming.owner
    sealer, kind = await server.responses.sealer(owner), progress_type(incoming.header(SDK_LANGUAGE))

    def resumed(runs: Sequence[Run], since: Sequence[int]) -> Writer:
        [run] = runs
        if started is not None:
            started(run)
        return ResponseAnswer(runs, sealer=sealer, sse=sse, progress_type=kind, since=since[0])

    if request.decisions:
        return await resume_answer(
            server, incoming, request.decisions, request.stream, _is_response, resumed, responses_error
        )
    target = await server.models.find(request.model, owner)
    request = await join_conversation(server, request, target, owner, local)
    request, target = _fit_to_service(server, request, target)
    if not request.generates:
        # Nobody is asked, so nothing is owed: neither a call nor a form.
        target = replace(target, provider=Silent(), choice=AUTO, options=NO_OPTIONS)
        request = replace(request, choice=AUTO, options=replace(request.options, response_format=None))

    def writer(runs: Sequence[Run]) -> Writer:
        return resumed(runs, [0])

    return await _exchange(server, incoming, request, target, writer).answer()


def _fit_to_service(server: Server, request: ResponseRequest, target: Target) -> tuple[ResponseRequest, Target]:
    """What an upstream of this API runs itself is left to it, where this server does not."""
    if not request.needs or split_spec(target.spec)[0] != _OPENAI:
        return request, target
    declared = [need for need in request.needs if need.native != NULL]
    here = needs_met_here(
        server.toolbox,
        server.features.provided(ServerNames),
        target,
        declared,
        server.config.rules_for(request.permission),
    )
    request = for_service(request, here)
    return request, with_secrets(target, request)


def _is_response(run: Run) -> bool:
    return StoredOptions.key in run.start.about


def _exchange(
    server: Server, incoming: Incoming, request: ResponseRequest, target: Target, writer: MakeWriter
) -> Exchange:
    """Of a request whose conversation is whole."""
    job = Job(request, target, _about)
    outlives = request.keep == "stored"
    return Exchange(
        server, incoming, job, writer, responses_error, outlives=outlives, may_be_cancelled=True, door=_Place()
    )


class _Place:
    """Where a response is found."""

    def location(self, run: str) -> Header:
        return b"location", f"/v1/responses/{response_id(run)}".encode()

    def later(self, writer: ResponseAnswer, runs: Sequence[Run], position: int | None) -> bytes:
        return writer.body(progress(runs, position))


def _about(turns: tuple[Turn, ...], opened: tuple[Turn, ...], answer: AnswerOptions) -> dict[str, Raw]:
    """Where in all the turns the conversation is: what stands around it is not carried over to the next response."""
    assert isinstance(answer, StoredOptions)
    at = next((at for at, turn in enumerate(opened) if turns and turn is turns[0]), None)
    if at is None or at + len(turns) > len(opened):  # an agent that puts it in other words
        return replace(answer, instructed=False).about
    lead = at + 1 if answer.instructed else at
    return replace(answer, lead=lead, tail=len(opened) - at - len(turns)).about
