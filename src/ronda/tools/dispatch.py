"""Calls sent to an address of the operator's: one POST per call, and the answer is the result (`dispatch_answer`).

    →  {"name": "search", "arguments": {"query": "…"}}

The address is the server's setting, never a request's. Each call carries an `Idempotency-Key` that stays the same when the
same call is tried again, so that the other side can refuse to do a thing twice, and a signature if there is a secret.

A call is sent again, twice at the most, only where it cannot run twice: no server was reached, or the tool is repeatable.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, Final

import aiohttp
import msgspec
import yarl

from ronda.core.limits import RETRY, Retry
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.drive.outgoing import OUTGOING
from ronda.errors import ToolFailed
from ronda.providers.http.session import read_within, session, why_not_reached
from ronda.tools.dispatch_answer import read_answer
from ronda.tools.signature import HEADER, sign

MAX_RESULT = 8 * 1024 * 1024
MOST_RETRIES: Final = 2
_BUSY: Final = frozenset({429, 502, 503, 504})  # it may be better in a moment


class _Again(Exception):
    """The call did not come through, and may be sent once more."""


class DispatchTool:
    def __init__(self, spec: ToolSpec, url: str, secret: str | None = None, retry: Retry = RETRY) -> None:
        self.spec = spec
        self._url = yarl.URL(url)
        self._shown = self._url.with_query(None).with_user(None)  # what the model and the client may read of it
        self._secret = secret
        self._retry = retry

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ronda",
            "Idempotency-Key": context.key,
            "X-Ronda-Run": context.run,
            "X-Ronda-Call": context.call_id,
        }
        if (outgoing := OUTGOING.get()) is not None:
            headers |= outgoing.members
        if not self.spec.repeatable:
            # A connection that was used before may be closed while the call is on its way: it cannot be known if it ran.
            headers["Connection"] = "close"
        body = msgspec.json.encode({"name": self.spec.name, "arguments": arguments})
        failures = 0
        while True:
            try:
                return await self._send(body, headers)
            except _Again as again:
                failures += 1
                if failures > MOST_RETRIES:
                    raise ToolFailed(str(again)) from again.__cause__
            await asyncio.sleep(self._retry.wait(failures, random.random()))

    async def _send(self, body: bytes, headers: dict[str, str]) -> ToolOutput:
        client = await session()
        if self._secret is not None:
            headers = {**headers, HEADER: sign(self._secret, body, time.time())}
        try:
            async with client.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                if not 200 <= answer.status < 300:
                    why = f"HTTP {answer.status} from tool callback URL: {self._shown}"
                    raise self._failure(why, is_safe=False, is_passing=answer.status in _BUSY)
                data = await read_within(answer, MAX_RESULT)
                if data is None:
                    raise ToolFailed(f"the result is larger than {MAX_RESULT} bytes")
                return read_answer(data, answer.headers)
        except (aiohttp.ClientError, OSError) as error:
            why = f"the tool callback URL {self._shown} did not answer: {why_not_reached(error)}"
            not_sent = isinstance(error, aiohttp.ClientConnectorError)
            is_passing = not isinstance(error, aiohttp.ClientSSLError)  # a certificate stays as it is
            raise self._failure(why, is_safe=not_sent, is_passing=is_passing) from error

    def _failure(self, why: str, *, is_safe: bool, is_passing: bool) -> Exception:
        return _Again(why) if is_passing and (is_safe or self.spec.repeatable) else ToolFailed(why)
