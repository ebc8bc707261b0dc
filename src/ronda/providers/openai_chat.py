"""Any upstream that speaks Chat Completions: OpenAI, Azure, vLLM, llama-server, Ollama, LM Studio, OpenRouter, Groq, …"""

from __future__ import annotations

import asyncio

from msgspec import Raw, structs

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.http import Answer, Http, bearer, endpoint
from ronda.wire.openai_chat.client import Reader, read_choices, read_plain
from ronda.wire.openai_chat.errors import error_of
from ronda.wire.openai_chat.requests import write_request

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIChat:
    def __init__(
        self, model: str, base_url: str | None = None, key: str | None = None, timeouts: Timeouts | None = None
    ) -> None:
        self._model = model
        self._http = Http(
            endpoint(base_url or DEFAULT_URL, "/chat/completions"), bearer(base_url or "", key), timeouts or Timeouts()
        )

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        async with self._http.post(write_request(self._model, request)) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream or not answer.is_stream:  # some servers ignore `stream`
                return read_plain(await answer.read())
            reader = Reader()
            await answer.stream_into(reader, show)
            return reader.finish()

    async def call_many(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        """Several choices from one upstream call; an upstream that ignores `n` is asked once more for each one missing."""
        n = len(shows)
        extra = {**request.options.extra, "n": Raw(str(n).encode())}
        many = structs.replace(request, options=structs.replace(request.options, extra=extra), scratch={})
        async with self._http.post(write_request(self._model, many)) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream or not answer.is_stream:
                finished = read_choices(await answer.read())
            else:
                finished = await _read_many(answer, Reader(n), shows)
        missing = range(len(finished), n)
        return [*finished[:n], *await asyncio.gather(*[self.call(request, shows[index]) for index in missing])]


async def _read_many(answer: Answer, reader: Reader, shows: list[Show]) -> list[ModelFinished]:
    answer.expect_no_silence()
    while not reader.broken and (data := await answer.next()):
        if previews := reader.feed(data):
            shows[0](previews)
        for index, aside in enumerate(reader.take_aside(), start=1):
            if aside:
                shows[index](aside)
    reader.close()
    return reader.finish_all()
