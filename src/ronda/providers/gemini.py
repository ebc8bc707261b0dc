"""Gemini, on Google's API or on Vertex AI, or a proxy that passes it on."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.drive.offload import write_body
from ronda.errors import UpstreamError
from ronda.providers.choices import asking_with, with_missing
from ronda.providers.http import Http
from ronda.providers.http.transport import Routes
from ronda.wire.gemini import API
from ronda.wire.gemini.client_answer import Naming, Reader, read_candidates
from ronda.wire.gemini.client_request import body_of
from ronda.wire.gemini.errors import error_of
from ronda.wire.gemini.options import own_config
from ronda.wire.upstream.input_files import takes_any_file
from ronda.wire.upstream.projection import Projection

DEFAULT_URL = "https://generativelanguage.googleapis.com/v1beta"


class Gemini:
    """One model of Gemini, at one address."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        routes: Routes | None = None,
    ) -> None:
        self._model = model
        base = base_url or DEFAULT_URL
        more = (_headers(key), timeouts or Timeouts(), routes, "GEMINI_API_KEY")
        self._plain = Http(endpoint(base, model, "generateContent"), *more)
        self._gives_many = True  # until it has refused to
        self._stream = Http(endpoint(base, model, "streamGenerateContent", "alt=sse"), *more)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            call_many=self.call_many,
            project=self.project,
            takes_addresses=True,
            takes_file=takes_any_file,
            keeps_files=True,
        )

    def project(self, request: ModelRequest) -> Projection:
        """What would be sent, and what was changed for it."""
        body = body_of(request)
        data = body.write(self._model, request)
        return (self._stream if request.stream else self._plain).projection(API, data, body.changes.found)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return (await self._ask(request, [show]))[0]

    async def call_many(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        """Several candidates of one upstream call; a model that gives one at a time is asked once for each missing."""
        if not self._gives_many:
            return await with_missing([], self.call, request, shows)
        config = {**own_config(request.options), "candidateCount": len(shows)}
        many = asking_with(request, "generationConfig", Raw(msgspec.json.encode(config)))
        try:
            finished = await self._ask(many, shows)
        except UpstreamError as error:
            if error.status != 400:
                raise
            # Some models refuse `candidateCount` above one. A request that is bad for another reason is refused again, once.
            finished = [await self.call(msgspec.structs.replace(request, scratch={}), shows[0])]
            self._gives_many = False
        return await with_missing(finished, self.call, request, shows)

    async def _ask(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        body = body_of(request)
        data = await write_body(request, lambda: body.write(self._model, request))
        naming = Naming(self._model, body.tools, request.run, request.round)
        async with (self._stream if request.stream else self._plain).post(
            data, len(shows) * request.max_bytes
        ) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream:
                finished = read_candidates(await answer.read(), naming, len(shows))
            else:
                # Some proxies drop `alt=sse` and answer with a JSON array that grows: the reader sees which it is.
                reader = Reader(naming, len(shows))
                await answer.stream_many_into(reader, shows, request.room)
                finished = reader.finish_all()
        if body.changes.found:
            finished[0] = msgspec.structs.replace(finished[0], warnings=body.changes.warnings)
        return finished


def endpoint(base_url: str, model: str, method: str, query: str = "") -> str:
    """A model may be a path of its own (tunedModels/…, endpoints/…), and a base address may carry a query."""
    address, _, base_query = base_url.partition("?")
    path = model if "/" in model else f"models/{model}"
    queries = "&".join(part for part in (base_query, query) if part)
    return f"{address.rstrip('/')}/{path}:{method}" + (f"?{queries}" if queries else "")


def _headers(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    # An access token of Google Cloud, which Vertex AI wants, is no API key.
    return {"Authorization": f"Bearer {key}"} if key.startswith("ya29.") else {"x-goog-api-key": key}
