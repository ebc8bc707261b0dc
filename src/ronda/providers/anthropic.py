"""Anthropic, and whoever else speaks its Messages API."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.parts import ToolCall
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.providers.http import Http
from ronda.wire.anthropic import OLD_VERSION, VERSION
from ronda.wire.anthropic.client import Answer, Reader, betas, body_of, error_of, joined, read_answer, refusal

DEFAULT_URL = "https://api.anthropic.com"
MAX_PAUSES = 10  # how often a turn may pause and be gone on with, in one call


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
    ) -> None:
        self._model = model
        self._url, said = endpoint(base_url or DEFAULT_URL)
        self._version = version or said or VERSION
        self._key = key
        self._timeouts = timeouts or Timeouts()
        self._http: dict[str, Http] = {}  # by the betas asked for, which are a header

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if (refused := refusal(request.options, self._version)) is not None:
            raise UpstreamError(str(refused), status=400) from refused
        answers: list[Answer] = []
        while True:
            answer = await self._ask(request, show, answers)
            answers.append(answer)
            if not answer.paused or len(answers) > MAX_PAUSES:
                return joined(answers)

    async def _ask(self, request: ModelRequest, show: Show, paused: list[Answer]) -> Answer:
        body = body_of(request)
        data = body.write(self._model, request, self._version, paused)
        async with self._to(betas(request.options)).post(data) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream or not answer.is_stream:
                return read_answer(await answer.read(), body.names)
            reader = Reader(body.names, first_call=_calls(paused))
            await answer.stream_into(reader, show)
            return reader.answer()

    def _to(self, beta: str) -> Http:
        http = self._http.get(beta)
        if http is None:
            headers = {"anthropic-version": self._version, **_auth(self._key, self._version)}
            if beta:
                headers["anthropic-beta"] = beta
            http = self._http[beta] = Http(self._url, headers, self._timeouts)
        return http


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
    said = dict(parse_qsl(query, keep_blank_values=True))
    version = said.pop("anthropic-version", None)
    return f"{address}?{urlencode(said)}" if said else address, version
