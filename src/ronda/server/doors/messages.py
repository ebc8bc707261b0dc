"""POST /v1/messages: the whole loop inside one request, plain or streamed. POST /v1/messages/count_tokens: how long it is.

A model that speaks Anthropic's dialect itself is sent the request's own fields and tools; for any other they are translated.
Counting never calls a model; where no model can be asked it is an estimate (`wire.anthropic.counting` says how).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.plan import Options, Plan
from ronda.core.run import Run
from ronda.drive import capabilities_of
from ronda.errors import BadRequest, RondaError
from ronda.server.answering.continuation import continue_answer
from ronda.server.answering.exchange import Answering
from ronda.server.answering.opening import Job
from ronda.server.config import ServerConfig
from ronda.server.doors.messages_route import MESSAGE_ANSWERS, messages_error
from ronda.server.http.failure import error_answer, failure_of
from ronda.server.http.incoming import Incoming, Json
from ronda.server.services.hosted_tools import ServerNames, needs_met_here
from ronda.server.services.models import Models, Target
from ronda.server.services.runs import new_id
from ronda.server.services.secrets import with_secrets
from ronda.server.services.toolbox import Toolbox
from ronda.wire.anthropic import API
from ronda.wire.anthropic.server_answer import MessageAnswer, passes_over_events
from ronda.wire.anthropic.server_error import write_error
from ronda.wire.anthropic.server_request import MessagesRequest, for_anthropic, for_others, read_request
from ronda.wire.shared.failures import Failure


class MessagesDoor:
    def __init__(
        self,
        answering: Answering,
        models: Models,
        toolbox: Toolbox,
        server_names: Callable[[], ServerNames | None],
        settings: Callable[[], ServerConfig],
    ) -> None:
        self._answering = answering
        self._models = models
        self._toolbox = toolbox
        self._server_names = server_names
        self._settings = settings

    async def answer(self, incoming: Incoming) -> ASGIApp:
        known = _RequestId()
        try:
            request, target = await self.read_job(incoming)
            if request.decisions:
                return await continue_answer(
                    self._answering, incoming, request.decisions, request.stream, MESSAGE_ANSWERS, messages_error
                )
            assert target is not None
            if not passes_over_events(incoming.header(b"user-agent") or ""):
                request = replace(request, answer=replace(request.answer, shows_tools=False))

            def writer(runs: Sequence[Run]) -> MessageAnswer:
                known.id = runs[0].id
                return MessageAnswer(runs)

            job = Job(request, target)
            return await self._answering.answer(incoming, job, writer, known.error, door=MESSAGE_ANSWERS)
        except RondaError as error:
            return known.refusal(error)

    async def count_tokens(self, incoming: Incoming) -> ASGIApp:
        known = _RequestId()
        try:
            request, target = await self.read_job(incoming)
            if target is None:
                raise BadRequest("'approvals' has no tokens to count; leave it out", param="approvals")
            turns = (await self._answering.runs.rejoin(request.turns, incoming.owner)).turns
            tokens = await self._answering.opening.setups.count(target, request, turns, incoming.owner)
        except RondaError as error:
            return known.refusal(error)
        return Json(b'{"input_tokens":%d}' % max(1, tokens), 200, known.headers)

    async def read_job(self, incoming: Incoming) -> tuple[MessagesRequest, Target | None]:
        """The request in the words of the model that will answer it; None if it continues an answer that is begun."""
        version, betas = incoming.header(b"anthropic-version"), incoming.header(b"anthropic-beta")
        request = await incoming.read(self._settings().max_body, lambda body: read_request(body, version, betas))
        if request.decisions:
            return request, None
        target = await self._models.find(request.model, incoming.owner)
        if target.spec.partition(":")[0] == API:
            rules = self._settings().rules_for(request.permission)
            request = for_anthropic(
                request,
                needs_met_here(self._toolbox, self._server_names(), target, request.own_needs, rules),
            )
            return request, with_secrets(target, request)
        thinks = _can_think(target, request)
        if not thinks:
            warning = "this model cannot be told how much to think; 'thinking' was ignored"
            request = replace(request, effort=None, answer=replace(request.answer, warnings=(warning,)))
        return for_others(request), target


class _RequestId:
    """By what id a request is known to an operator who looks into it: its run's, once there is one."""

    def __init__(self) -> None:
        self.id = new_id("req")

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"request-id", self.id.encode()),)

    def error(self, failure: Failure) -> bytes:
        return write_error(failure.status, failure.message, failure.code, self.id)

    def refusal(self, error: RondaError) -> ASGIApp:
        return error_answer(failure_of(error), self.error, self.headers)


# ---- what is asked, of whom -------------------------------------------------------------------------------------------


def _can_think(target: Target, request: MessagesRequest) -> bool:
    """Clients ask every model to think as much as it sees fit; one that cannot should answer anyway."""
    if request.effort is None:
        return True
    try:
        capabilities_of(target.provider).check(Plan(target.spec, options=Options(reasoning_effort=request.effort)))
    except BadRequest:
        return False
    return True
