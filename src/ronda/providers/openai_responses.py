"""Any upstream that speaks the Responses API: OpenAI, Azure, DeepSeek, OpenRouter, vLLM, …"""

from __future__ import annotations

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.plan import Plan
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.providers.http import Http, bearer, endpoint
from ronda.wire.openai_responses.client import (
    Reader,
    check_options,
    error_of,
    is_about_encryption,
    own_names,
    read_plain,
    write_request,
)

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIResponses:
    def __init__(
        self, model: str, base_url: str | None = None, key: str | None = None, timeouts: Timeouts | None = None
    ) -> None:
        self._model = model
        self._http = Http(
            endpoint(base_url or DEFAULT_URL, "/responses"), bearer(base_url or "", key), timeouts or Timeouts()
        )
        self._encrypted = True  # until the model says that it has no thoughts to encrypt

    def check(self, plan: Plan) -> None:
        """Raises BadRequest for what this API has no words for: to be asked before a run starts."""
        check_options(plan.options)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        try:
            return await self._call(request, show)
        except UpstreamError as error:
            # A name does not tell what is behind it (Azure's are the user's own): the first refusal does.
            if not self._encrypted or not is_about_encryption(error):
                raise
        self._encrypted = False
        return await self._call(request, show)

    async def _call(self, request: ModelRequest, show: Show) -> ModelFinished:
        async with self._http.post(write_request(self._model, request, self._encrypted)) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            names = own_names(request.tools)
            if not request.stream or not answer.is_stream:  # some servers ignore `stream`
                return read_plain(await answer.read(), names)
            reader = Reader(names)
            await answer.stream_into(reader, show)
            return reader.finish()
