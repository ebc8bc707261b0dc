"""Any upstream that speaks Chat Completions: OpenAI, Azure, vLLM, llama-server, Ollama, LM Studio, OpenRouter, Groq, …"""

from __future__ import annotations

from msgspec import Raw, structs

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.plan import Options
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.drive.offload import write_body
from ronda.providers.choices import asking_with, read_answer, with_missing
from ronda.providers.http import Http, bearer, endpoint
from ronda.providers.http.transport import Routes
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.client_answer import Reader, read_choices, read_plain
from ronda.wire.openai_chat.client_plain import Naming
from ronda.wire.openai_chat.client_request import Body, body_of
from ronda.wire.openai_chat.names import NO_NAMES
from ronda.wire.openai_chat.quirks import learn, native_api, quirks_at
from ronda.wire.upstream.errors import error_of
from ronda.wire.upstream.input_files import is_binary_type
from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.stream import is_event_stream

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIChat:
    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        routes: Routes | None = None,
        key_name: str = "OPENAI_API_KEY",
    ) -> None:
        self._model = model
        self._quirks = quirks_at(base_url)
        self._api = native_api(base_url)
        url = endpoint(base_url or DEFAULT_URL, "/chat/completions")
        self._http = Http(url, bearer(base_url or "", key), timeouts or Timeouts(), routes, key_name)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            enforces_format=self.enforces_format,
            call_many=self.call_many,
            project=self.project,
            takes_file=is_binary_type,
            keeps_files=self._quirks.files_are_data,
        )

    def enforces_format(self, options: Options) -> bool:
        """A strict schema goes out as it is, and OpenAI's own servers decode under it."""
        answer_format = options.response_format
        return answer_format is not None and answer_format.strict is True and self._quirks.keeps_forms

    def project(self, request: ModelRequest) -> Projection:
        """What would be sent, and what was changed for it."""
        body = body_of(request, self._quirks, self._api)
        data = body.write(self._model, request)
        return self._http.projection(API, data, body.changes.found)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        body = body_of(request, self._quirks, self._api)
        data = await write_body(request, lambda: body.write(self._model, request))
        async with self._http.post(data, request.max_bytes) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            naming = self._naming(body, request)
            if not request.stream or not answer.is_stream:  # some servers ignore `stream`
                whole = await answer.read()
                finished = (
                    Reader(naming=naming).whole(whole).finish() if is_event_stream(whole) else read_plain(whole, naming)
                )
            else:
                reader = Reader(naming=naming)
                await answer.stream_into(reader, show, request.room)
                finished = reader.finish()
        if (native := finished.turn.native) is not None:
            self._quirks = learn(self._quirks, native.payload)
        return finished if not body.changes.found else structs.replace(finished, warnings=body.changes.warnings)

    def _naming(self, body: Body, request: ModelRequest) -> Naming:
        names = {wire: own for own, wire in body.names.items()} if body.names else NO_NAMES
        return Naming(self._api, names, request.run, request.round)

    async def call_many(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        """Several choices from one upstream call; an upstream that ignores `n` is asked once more for each one missing."""
        n = len(shows)
        many = asking_with(request, "n", Raw(b"%d" % n))
        body = body_of(many, self._quirks, self._api)
        data = await write_body(many, lambda: body.write(self._model, many))
        naming = self._naming(body, request)
        async with self._http.post(data, n * request.max_bytes) as answer:
            finished = await read_answer(
                answer, request, shows, Reader(n, naming), lambda whole: read_choices(whole, naming)
            )
        return await with_missing(finished, self.call, request, shows)
