"""Gemini, on Google's API or on Vertex AI, or whoever passes it on."""

from __future__ import annotations

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.http import Http
from ronda.wire.gemini.answer import Naming, Reader, read_plain
from ronda.wire.gemini.client import body_of
from ronda.wire.gemini.contents import ToolRole
from ronda.wire.gemini.errors import error_of

DEFAULT_URL = "https://generativelanguage.googleapis.com/v1beta"


class Gemini:
    """`tool_role` is the role of results; `openapi` declares tools for a proxy that knows no `parametersJsonSchema`."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        *,
        tool_role: ToolRole = "user",
        openapi: bool = False,
    ) -> None:
        self._model = model
        self._tool_role: ToolRole = tool_role
        self._openapi = openapi
        base, headers, timeouts = base_url or DEFAULT_URL, _headers(key), timeouts or Timeouts()
        self._plain = Http(endpoint(base, model, "generateContent"), headers, timeouts)
        self._stream = Http(endpoint(base, model, "streamGenerateContent", "alt=sse"), headers, timeouts)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        body = body_of(request, self._tool_role, self._openapi)
        written = body.write(self._model, request)
        naming = Naming(self._model, body.tools, request.run, request.round)
        async with (self._stream if request.stream else self._plain).post(written) as answer:
            if answer.status != 200:
                raise error_of(await answer.read(), answer.status, answer.retry_after)
            if not request.stream:
                return read_plain(await answer.read(), naming)
            # Some proxies drop `alt=sse` and answer with a JSON array that grows: the reader sees which it is.
            reader = Reader(naming)
            await answer.stream_into(reader, show)
            return reader.finish()


def endpoint(base_url: str, model: str, method: str, query: str = "") -> str:
    """A model may be a path of its own (tunedModels/…, endpoints/…), and a base address may carry a query."""
    address, _, said = base_url.partition("?")
    path = model if "/" in model else f"models/{model}"
    queries = "&".join(part for part in (said, query) if part)
    return f"{address.rstrip('/')}/{path}:{method}" + (f"?{queries}" if queries else "")


def _headers(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    # An access token of Google Cloud, which Vertex AI wants, is no API key.
    return {"Authorization": f"Bearer {key}"} if key.startswith("ya29.") else {"x-goog-api-key": key}
