"""OpenAI's interfaces that are no conversation: embeddings, images, and the list of models. Bytes in, bytes out.

Services that speak OpenAI's language have them at the same paths: Azure, Mistral, vLLM, Ollama, … Anthropic lists models so, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ronda.core.limits import Timeouts
from ronda.providers.http import Http, bearer, endpoint
from ronda.providers.http.transport import Routes
from ronda.wire.upstream.errors import error_of

DEFAULT_URL = "https://api.openai.com/v1"
MAX_LIST = 16 * 1024 * 1024


async def ask(
    path: str,
    body: bytes,
    base_url: str | None,
    key: str | None,
    timeouts: Timeouts | None = None,
    routes: Routes | None = None,
) -> bytes:
    """`path` is `/embeddings` or `/images/generations`. Raises UpstreamError."""
    url = endpoint(base_url or DEFAULT_URL, path)
    http = Http(url, bearer(base_url or "", key), timeouts or Timeouts(), routes)
    async with http.post(body) as answer:
        data = await answer.read()
        if answer.status != 200:
            raise error_of(data, answer.status, answer.retry_after)
        return data


async def get(
    url: str, headers: Mapping[str, str], timeouts: Timeouts | None = None, routes: Routes | None = None
) -> bytes:
    """A list, which is small. Raises UpstreamError."""
    http = Http(url, headers, timeouts or Timeouts(), routes, method="GET", what="the list of models")
    async with http.get(MAX_LIST) as answer:
        data = await answer.read()
        if answer.status != 200:
            raise error_of(data, answer.status, None)
        return data
