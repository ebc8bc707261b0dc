"""Calls sent to an address of the operator's: one POST per call, the answer's text is the result.

    →  {"name": "search", "arguments": {"query": "…"}}
    ←  "text"  ·  {"content": …}  ·  any other text, as it is

The address is the server's setting, never a request's. Each call carries an `Idempotency-Key` that stays the same when the
same call is tried again, so that the other side can refuse to do a thing twice.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec
import yarl

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import ToolFailed
from ronda.providers.http.session import read_within, session, why_not_reached

MAX_RESULT = 8 * 1024 * 1024


class DispatchTool:
    def __init__(self, spec: ToolSpec, url: str) -> None:
        self.spec = spec
        self._url = yarl.URL(url)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        client = await session()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ronda",
            "Idempotency-Key": context.key,
            "X-Ronda-Run": context.run,
            "X-Ronda-Call": context.call_id,
        }
        body = msgspec.json.encode({"name": self.spec.name, "arguments": arguments})
        where = self._url.with_query(None).with_user(None)  # what the model and the client may read of it
        try:
            async with client.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                if not 200 <= answer.status < 300:
                    raise ToolFailed(f"HTTP {answer.status} from tool callback URL: {where}")
                return ToolOutput(_content(await _read(answer)))
        except (aiohttp.ClientError, OSError) as error:
            raise ToolFailed(f"the tool callback URL {where} did not answer: {why_not_reached(error)}") from error


async def _read(answer: aiohttp.ClientResponse) -> str:
    data = await read_within(answer, MAX_RESULT)
    if data is None:
        raise ToolFailed(f"the result is larger than {MAX_RESULT} bytes")
    return data.decode("utf-8", "replace")


def _content(text: str) -> str:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return text
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "content" in value:
        content = value["content"]
        return content if isinstance(content, str) else msgspec.json.encode(content).decode()
    return text
