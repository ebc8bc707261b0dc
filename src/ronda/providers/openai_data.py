"""OpenAI's interfaces that are no conversation: embeddings, images, and the list of models. Bytes in, bytes out.

Whoever speaks OpenAI's language has them at the same paths: Azure, Mistral, vLLM, Ollama, … Anthropic lists its models so, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
import yarl

from ronda.core.limits import Timeouts
from ronda.errors import UpstreamBroken, UpstreamUnreachable
from ronda.providers.http import Http, bearer, endpoint
from ronda.providers.http.address import without_secrets
from ronda.providers.http.session import read_within, session
from ronda.wire.errors import error_of

DEFAULT_URL = "https://api.openai.com/v1"
MAX_LIST = 16 * 1024 * 1024


async def ask(path: str, body: bytes, base_url: str | None, key: str | None, timeouts: Timeouts | None = None) -> bytes:
    """`path` is `/embeddings` or `/images/generations`. Raises UpstreamError."""
    http = Http(endpoint(base_url or DEFAULT_URL, path), bearer(base_url or "", key), timeouts or Timeouts())
    async with http.post(body) as answer:
        data = await answer.read()
        if answer.status != 200:
            raise error_of(data, answer.status, answer.retry_after)
        return data


async def get(url: str, headers: Mapping[str, str], timeouts: Timeouts | None = None) -> bytes:
    """A list, which is small. No redirects: a key must not follow one."""
    times = timeouts or Timeouts()
    client = await session()
    timeout = aiohttp.ClientTimeout(total=times.first_byte, sock_connect=times.connect)
    try:
        address = yarl.URL(url)
        async with client.get(
            address, headers={"User-Agent": "ronda", **headers}, timeout=timeout, allow_redirects=False
        ) as answer:
            data = await read_within(answer, MAX_LIST)
            if data is None:
                raise UpstreamBroken(f"the list of {address.origin()} is larger than {MAX_LIST} bytes")
            if answer.status != 200:
                raise error_of(data, answer.status, None)
            return data
    except (aiohttp.InvalidURL, ValueError) as error:  # whose text repeats the address, with what is secret in it
        raise UpstreamUnreachable(f"cannot list the models: {without_secrets(url)} is not an address") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = error or type(error).__name__
        raise UpstreamUnreachable(f"cannot list the models at {without_secrets(url)}: {why}") from error
