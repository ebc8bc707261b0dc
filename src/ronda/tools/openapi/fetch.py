"""The address of a document → its text: http or https, within bounds, and no further than the host it names."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
import yarl

from ronda.providers.http.session import read_within, session
from ronda.tools.openapi.document import BadDocument

MAX_SIZE: Final = 8_000_000
SECONDS: Final = 30.0
MAX_REDIRECTS: Final = 3


async def fetch(address: str) -> bytes:
    try:
        url = yarl.URL(address)
        origin = url.origin()
    except ValueError as error:
        raise BadDocument(f"{address[:200]!r} is not an address: {error}") from error
    try:
        async with asyncio.timeout(SECONDS):
            for _ in range(MAX_REDIRECTS + 1):
                found = await _get(url, origin)
                if isinstance(found, bytes):
                    return found
                url = found
    except TimeoutError as error:
        raise BadDocument(f"{_shown(url)} did not answer within {SECONDS:g} seconds") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise BadDocument(f"{_shown(url)} cannot be fetched: {error or type(error).__name__}") from error
    raise BadDocument(f"{_shown(url)} redirects more than {MAX_REDIRECTS} times")


async def _get(url: yarl.URL, origin: yarl.URL) -> bytes | yarl.URL:
    client = await session()
    headers = {"User-Agent": "ronda", "Accept": "application/json, application/yaml, */*;q=0.5"}
    async with client.get(url, headers=headers, allow_redirects=False) as answer:
        location = answer.headers.get("Location")
        if 300 <= answer.status < 400 and location:
            to = url.join(yarl.URL(location))
            if to.scheme not in ("http", "https") or to.origin() != origin:
                raise BadDocument(f"{_shown(url)} redirects to another host, which is not followed")
            return to
        if answer.status != 200:
            raise BadDocument(f"{_shown(url)} cannot be fetched: HTTP {answer.status}")
        data = await read_within(answer, MAX_SIZE)
        if not data:
            raise BadDocument(f"{_shown(url)} is empty, or larger than {MAX_SIZE} bytes")
        return data


def _shown(url: yarl.URL) -> str:
    return str(url.with_user(None).with_query(None))
