"""A request to a search service that the operator has chosen → what it answers, within bounds.

Its address is the operator's own and may be on this machine, so that it is not checked; nor are redirects followed, for a key
must not go elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec

from ronda.providers.http.session import read_within, session, through, why_not_reached
from ronda.providers.http.transport import DIRECT, Routes
from ronda.tools.function import in_thread
from ronda.tools.search.backend import SearchFailed

SECONDS: Final = 10.0
MAX_BYTES: Final = 5 * 1024 * 1024
SMALL: Final = 64 * 1024  # bytes that are read at once: more would hold the event loop


_routes: ContextVar[Routes] = ContextVar("routes", default=DIRECT)


@contextmanager
def service_routes(routes: Routes) -> Iterator[None]:
    """The way to the services that are asked inside."""
    before = _routes.set(routes)
    try:
        yield
    finally:
        _routes.reset(before)


async def ask(
    method: str,
    address: str,
    *,
    service: str,
    parameters: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """`service` is its name in errors. Raises SearchFailed."""
    sent = {"User-Agent": "Mozilla/5.0 (compatible; ronda)", **(headers or {})}
    data: Any = form
    if body is not None:
        data = msgspec.json.encode(body)
        sent = {"Content-Type": "application/json", **sent}
    client = await session()
    try:
        async with (
            asyncio.timeout(SECONDS),
            client.request(
                method,
                address,
                params=parameters,
                data=data,
                headers=sent,
                allow_redirects=False,
                **through(_routes.get(), address),
            ) as answer,
        ):
            if answer.status == 429:
                raise SearchFailed(f"{service} takes no more searches for now", "too_many_requests")
            if not 200 <= answer.status < 300:
                raise SearchFailed(f"{service} refuses the search: HTTP {answer.status}", status=answer.status)
            found = await read_within(answer, MAX_BYTES)
    except (aiohttp.ClientError, OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise SearchFailed(f"{service} cannot be asked: {why_not_reached(error)}") from error
    if found is None:
        raise SearchFailed(f"{service} answers with more than {MAX_BYTES} bytes")
    return found


async def ask_json(method: str, address: str, *, service: str, **options: Any) -> Any:
    data = await ask(method, address, service=service, **options)
    decode = partial(msgspec.json.decode, data)
    try:
        return decode() if len(data) <= SMALL else await in_thread(decode)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SearchFailed(f"{service} does not answer with JSON") from error
