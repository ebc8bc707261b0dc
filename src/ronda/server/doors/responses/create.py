"""POST /v1/responses: the whole loop inside one request, plain or streamed. POST /v1/responses/compact and …/input_tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

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
from ronda.server.answering.continuation import resume_answer
from ronda.server.answering.exchange import Answering, Exchange, MakeWriter, Writer
from ronda.server.answering.opening import Job
from ronda.server.config import ServerConfig
from ronda.server.doors.responses.conversation import Local, join_conversation
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.services.hosted_tools import ServerNames, needs_met_here
from ronda.server.services.models import Models, Target
from ronda.server.services.secrets import with_secrets
from ronda.server.services.toolbox import Toolbox
from ronda.store.catalog import Catalog
from ronda.wire.openai_chat.server_answer import write_error
from ronda.wire.openai_responses.compaction import CompactAnswer, compaction_of, with_task
from ronda.wire.openai_responses.encrypted_content import Sealer
from ronda.wire.openai_responses.resource import StoredOptions, code_of, response_id
from ronda.wire.openai_responses.server_answer import SDK_LANGUAGE, ResponseAnswer, progress_type
from ronda.wire.openai_responses.server_request import ResponseRequest, read_request, request_of
from ronda.wire.openai_responses.service_tools import for_service
from ronda.wire.own.background import progress
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.failures import Failure
from ronda.wire.shared.fields import read_fields

_OPENAI: Final = "openai"  # the provider whose upstreams speak this API


class Seals:
    """The secret of what is sealed, which is kept."""

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


class ResponsesDoor:
    def __init__(
        self,
        answering: Answering,
        seals: Seals,
        models: Models,
        toolbox: Toolbox,
        server_names: Callable[[], ServerNames | None],
        settings: Callable[[], ServerConfig],
    ) -> None:
        self._answering = answering
        self._seals = seals
        self._models = models
        self._toolbox = toolbox
        self._server_names = server_names
        self._settings = settings

    async def create_response(self, incoming: Incoming) -> ASGIApp:
        owner = incoming.owner
        sealer = await self._seals.sealer(owner)
        request = await incoming.read(self._settings().max_body, lambda body: read_request(body, sealer))
        return await self.answer(incoming, request)

    async def compact_response(self, incoming: Incoming) -> ASGIApp:
        owner = incoming.owner
        sealer = await self._seals.sealer(owner)
        request = await incoming.read(self._settings().max_body, lambda body: compaction_of(body, sealer))
        target = await self._models.find(request.model, owner)
        request = await join_conversation(self._answering.runs, sealer, request, target, owner)
        conversation = request.turns[1:] if request.answer.instructed else request.turns
        request = replace(request, turns=with_task(request.turns))

        def writer(runs: Sequence[Run]) -> Writer:
            return CompactAnswer(runs[0], conversation)

        return await self._exchange(incoming, request, target, writer).answer()

    async def read_job(self, incoming: Incoming) -> tuple[ResponseRequest, Target]:
        """What would be asked of whom, of a request that is not answered."""
        owner = incoming.owner
        sealer = await self._seals.sealer(owner)
        request = await incoming.read(
            self._settings().max_body, lambda body: request_of({"input": Raw(b'""'), **read_fields(body)}, sealer)
        )
        target = await self._models.find(request.model, owner)
        request = await join_conversation(self._answering.runs, sealer, request, target, owner)
        return self._fit_to_service(request, target)

    async def count_input(self, incoming: Incoming) -> ASGIApp:
        """How long the input is. Never calls a model: one of ours counts, an upstream is asked, else it is an estimate."""
        request, target = await self.read_job(incoming)
        return Json(
            b'{"object":"response.input_tokens","input_tokens":%d}'
            % await self._answering.opening.setups.count(target, request, request.turns, incoming.owner)
        )

    async def answer(
        self,
        incoming: Incoming,
        request: ResponseRequest,
        *,
        sse: bool = True,
        local: Local | None = None,
        started: Callable[[Run], None] | None = None,
    ) -> ASGIApp:
        """Carry a request out. `sse` is how a stream is written: as server-sent events, or a line per event."""
        owner = incoming.owner
        sealer, kind = await self._seals.sealer(owner), progress_type(incoming.header(SDK_LANGUAGE))

        def resumed(runs: Sequence[Run], since: Sequence[int]) -> Writer:
            [run] = runs
            if started is not None:
                started(run)
            return ResponseAnswer(runs, sealer=sealer, sse=sse, progress_type=kind, since=since[0])

        if request.decisions:
            return await resume_answer(
                self._answering, incoming, request.decisions, request.stream, _is_response, resumed, responses_error
            )
        target = await self._models.find(request.model, owner)
        request = await join_conversation(self._answering.runs, sealer, request, target, owner, local)
        request, target = self._fit_to_service(request, target)
        if not request.generates:
            # No model is asked, so nothing is owed: neither a call nor a form.
            target = replace(target, provider=Silent(), choice=AUTO, options=NO_OPTIONS)
            request = replace(request, choice=AUTO, options=replace(request.options, response_format=None))

        def writer(runs: Sequence[Run]) -> Writer:
            return resumed(runs, [0])

        return await self._exchange(incoming, request, target, writer).answer()

    def _fit_to_service(self, request: ResponseRequest, target: Target) -> tuple[ResponseRequest, Target]:
        """What an upstream of this API runs itself is left to it, where this server does not."""
        if not request.needs or split_spec(target.spec)[0] != _OPENAI:
            return request, target
        declared = [need for need in request.needs if need.native != NULL]
        here = needs_met_here(
            self._toolbox,
            self._server_names(),
            target,
            declared,
            self._settings().rules_for(request.permission),
        )
        request = for_service(request, here)
        return request, with_secrets(target, request)

    def _exchange(self, incoming: Incoming, request: ResponseRequest, target: Target, writer: MakeWriter) -> Exchange:
        """Of a request whose conversation is whole."""
        job = Job(request, target, _about)
        outlives = request.keep == "stored"
        return Exchange(
            self._answering,
            incoming,
            job,
            writer,
            responses_error,
            outlives=outlives,
            may_be_cancelled=True,
            door=_Place(),
        )


def responses_error(failure: Failure) -> bytes:
    param = "input" if failure.param == "messages" else failure.param
    return write_error(failure.message, failure.type, param, code_of(failure))


def _is_response(run: Run) -> bool:
    return StoredOptions.key in run.start.about


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
