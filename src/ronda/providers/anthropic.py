"""Anthropic, and other services that speak its Messages API."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import msgspec

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.parts import ToolCall
from ronda.core.plan import Options
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.drive.offload import write_body
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.providers.http import Http
from ronda.providers.http.transport import Routes
from ronda.wire.anthropic import API, OLD_VERSION, VERSION
from ronda.wire.anthropic.client_request import (
    Answer,
    Body,
    Reader,
    betas,
    body_of,
    form_of,
    is_about_grammar,
    is_about_seal,
    join_answers,
    read_answer,
    under_own_names,
)
from ronda.wire.anthropic.media import takes_file
from ronda.wire.anthropic.models import facts
from ronda.wire.anthropic.options import default_output
from ronda.wire.codec.json import UNREADABLE
from ronda.wire.upstream.errors import error_of
from ronda.wire.upstream.native import made_by, maker
from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.stream import is_event_stream

DEFAULT_URL = "https://api.anthropic.com"
_KEY_NAME = "ANTHROPIC_API_KEY"
MAX_PAUSES = 10  # how often a turn may pause and be continued, in one call


class Anthropic:
    """`version` is the API's; the one before the newest takes sampling parameters, and the key under another name.

    It can stand in the address as well: `https://api.anthropic.com?anthropic-version=2023-06-01`.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        version: str | None = None,
        account: str | None = None,
        routes: Routes | None = None,
    ) -> None:
        self._model = model
        self._home = maker(API, base_url or DEFAULT_URL, account or key)
        self._url, version_in_url = endpoint(base_url or DEFAULT_URL)
        self._version = version or version_in_url or VERSION
        self._key = key
        self._timeouts = timeouts or Timeouts()
        self._routes = routes
        self._http: dict[str, Http] = {}  # by the betas asked for, which are a header

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            enforces_format=self.enforces_format,
            count_tokens=self.count_tokens,
            project=self.project,
            takes_addresses=True,
            takes_file=takes_file,
            keeps_files=True,
            default_output=self.default_output,
        )

    def default_output(self, options: Options) -> int:
        return default_output(facts(self._model), options)

    def enforces_format(self, options: Options) -> bool:
        """A schema that the API takes without a change is decoded under; others are looked at at the end."""
        form = form_of(options.response_format)
        if form is None or form.names or options.response_format is None or not facts(self._model).formats:
            return False
        return bool(form.schema == msgspec.json.decode(options.response_format.schema))

    def project(self, request: ModelRequest) -> Projection:
        """What would be sent, and what was changed for it."""
        body = body_of(request, self._home)
        data = body.write(self._model, request, self._version)
        return self._to(betas(request.options)).projection(API, data, body.changes.found)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        body = body_of(request, self._home)
        answers: list[Answer] = []
        while not answers or (answers[-1].paused and len(answers) <= MAX_PAUSES):
            try:
                answers.append(await self._ask(body, request, show, answers))
            except UpstreamError as error:
                if not _can_do_without(error, body, request):
                    raise
        finished = under_own_names(join_answers(answers), form_of(request.options.response_format))
        finished = msgspec.structs.replace(finished, turn=made_by(finished.turn, self._home))
        return finished if not body.changes.found else msgspec.structs.replace(finished, warnings=body.changes.warnings)

    async def _ask(self, body: Body, request: ModelRequest, show: Show, paused: list[Answer]) -> Answer:
        data = await write_body(request, lambda: body.write(self._model, request, self._version, paused))
        async with self._to(betas(request.options)).post(data, request.max_bytes) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream or not answer.is_stream:
                whole = await answer.read()
                return (
                    Reader(body.names).whole(whole).answer()
                    if is_event_stream(whole)
                    else read_answer(whole, body.names)
                )
            reader = Reader(body.names, first_call=_calls(paused))
            await answer.stream_into(reader, show, request.room)
            return reader.answer()

    async def count_tokens(self, request: ModelRequest) -> int:
        """What the API would count for this request. No model is called."""
        beta = betas(request.options)
        http = Http(_counting(self._url), self._headers(beta), self._timeouts, self._routes, _KEY_NAME)

        def write() -> bytes:
            whole = body_of(request, self._home).write(self._model, request, self._version)
            fields = msgspec.json.decode(whole, type=dict[str, msgspec.Raw])
            return msgspec.json.encode({name: value for name, value in fields.items() if name in _COUNTED})

        async with http.post(await write_body(request, write)) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise error_of(body, answer.status, answer.retry_after)
        try:
            return msgspec.json.decode(body, type=_TokenCount).input_tokens
        except UNREADABLE as error:
            raise UpstreamBroken(f"the model's server did not say a number of tokens: {error}") from error

    def _to(self, beta: str) -> Http:
        http = self._http.get(beta)
        if http is None:
            http = self._http[beta] = Http(self._url, self._headers(beta), self._timeouts, self._routes, _KEY_NAME)
        return http

    def _headers(self, beta: str) -> dict[str, str]:
        headers = {"anthropic-version": self._version, **_auth(self._key, self._version)}
        return {**headers, "anthropic-beta": beta} if beta else headers


def _can_do_without(error: UpstreamError, body: Body, request: ModelRequest) -> bool:
    """Whether what this error is about can be left out, and was not before. It comes before anything of an answer does."""
    if body.grammars and is_about_grammar(error):
        body.grammars = False  # the loop checks arguments and answers anyway
        return True
    return is_about_seal(error) and body.leave_seals_out(request)


# What the API wants to know for counting; it refuses anything else.
_COUNTED = frozenset(
    ["model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed",
     "context_management", "mcp_servers"]
)  # fmt: skip


class _TokenCount(msgspec.Struct, frozen=True):
    input_tokens: int


def _counting(url: str) -> str:
    address, mark, query = url.partition("?")
    return f"{address}/count_tokens{mark}{query}"


def _calls(answers: list[Answer]) -> int:
    return sum(type(part) is ToolCall for answer in answers for part in answer.finished.turn.parts)


def _auth(key: str | None, version: str) -> dict[str, str]:
    if key is None:
        return {}
    return {"x-api-key": key} if version == OLD_VERSION else {"Authorization": f"Bearer {key}"}


def endpoint(base_url: str) -> tuple[str, str | None]:
    """Where messages go, and the version of the API if the address says one. Any other query stays behind the path."""
    address, _, query = base_url.partition("?")
    address = address.rstrip("/")
    if not address.endswith("/messages"):
        address += "/messages" if address.endswith("/v1") else "/v1/messages"
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    version = parameters.pop("anthropic-version", None)
    return f"{address}?{urlencode(parameters)}" if parameters else address, version
