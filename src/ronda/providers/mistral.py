"""Mistral's own API, and any server that speaks it: a model on /chat/completions, or an agent on /agents/completions."""

from __future__ import annotations

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.http import Http
from ronda.wire.mistral.answer import Naming, Reader, read_plain
from ronda.wire.mistral.client import body_of
from ronda.wire.openai_chat.errors import error_of

DEFAULT_URL = "https://api.mistral.ai/v1"


class Mistral:
    """`model` is the id of an agent when `agent` is set."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        *,
        agent: bool = False,
    ) -> None:
        self._model = model
        self._agent = agent
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        self._http = Http(endpoint(base_url or DEFAULT_URL, agent), headers, timeouts or Timeouts())

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        body = body_of(request, self._agent)
        written = body.write(self._model, request)
        naming = Naming(self._model, body.tools, request.run, request.round)
        async with self._http.post(written) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream or not answer.is_stream:
                return read_plain(await answer.read(), naming)
            reader = Reader(naming)
            await answer.stream_into(reader, show)
            return reader.finish()


def endpoint(base_url: str, agent: bool) -> str:
    """The SDKs' addresses end before /v1, ours behind it: both are taken."""
    address, _, query = base_url.partition("?")
    address = address.rstrip("/")
    if not address.endswith("/completions"):
        if address.endswith("//api.mistral.ai"):
            address += "/v1"
        address += "/agents/completions" if agent else "/chat/completions"
    return f"{address}?{query}" if query else address
