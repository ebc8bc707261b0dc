"""An operation as a tool: the request is sent, and what comes back is what the model reads.

A redirect is followed on the same origin and nowhere else. An answer that says something went wrong is a failed result with
its status and the beginning of what it says.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import aiohttp
import msgspec
import yarl

from ronda.core.parts import Attachment, File, Image
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import ToolFailed
from ronda.providers.grants import Grant
from ronda.providers.http.session import session, why_not_reached
from ronda.providers.oauth import token_for
from ronda.tools.openapi.auth import Key, Scheme, sign
from ronda.tools.openapi.operations import Operation
from ronda.tools.openapi.request import Request, write_request

MAX_RESULT: Final = 1024 * 1024
MAX_ERROR: Final = 2_000  # characters of an error's body
MAX_REDIRECTS: Final = 3

_TEXT: Final = ("json", "xml", "javascript", "yaml", "x-www-form-urlencoded", "graphql", "csv")


class OperationTool:
    """`server` is the address the operation's path is put behind."""

    def __init__(
        self, operation: Operation, server: str, key: Key | None = None, schemes: tuple[Scheme, ...] = ()
    ) -> None:
        self.spec: ToolSpec = operation.spec
        self._operation = operation
        self._server = server
        self._key = key
        self._schemes = schemes

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        status, output = await self._call(arguments)
        if status == 401 and self._key is not None and isinstance(self._key.secret, Grant):
            _, output = await self._call(arguments, anew=True)  # a token may end before its time
        return output

    async def _call(self, arguments: dict[str, Any], *, anew: bool = False) -> tuple[int, ToolOutput]:
        request = write_request(self._operation, self._server, arguments)
        request.headers.setdefault("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
        request.headers.setdefault("User-Agent", "ronda")
        called = f"{request.method} {origin_of(self._server)}{self._operation.path}"  # without any argument or key
        if self._key is not None and self._schemes and origin_of(request.url) == self._key.origin:
            secret = self._key.secret
            sign(request, self._schemes, await token_for(secret, anew=anew) if isinstance(secret, Grant) else secret)
        try:
            return await _send(request, called)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolFailed(f"{called} could not be called: {why_not_reached(error)}") from error


def origin_of(url: str) -> str:
    return str(yarl.URL(url, encoded=True).origin())


async def _send(request: Request, called: str) -> tuple[int, ToolOutput]:
    client = await session()
    url = yarl.URL(request.url, encoded=True)
    for _ in range(MAX_REDIRECTS + 1):
        form = None
        if request.fields is not None:
            form = aiohttp.FormData(default_to_multipart=True)
            for name, text in request.fields:
                form.add_field(name, text)
        async with client.request(
            request.method, url, headers=request.headers, data=form or request.data, allow_redirects=False
        ) as answer:
            again = _redirect(answer, url, request, called)
            if again is None:
                return answer.status, await _read(answer)
            url = again
    raise ToolFailed(f"{called} redirects more than {MAX_REDIRECTS} times")


def _redirect(answer: aiohttp.ClientResponse, url: yarl.URL, request: Request, called: str) -> yarl.URL | None:
    location = answer.headers.get("Location")
    if answer.status not in (301, 302, 303, 307, 308) or not location:
        return None
    to = url.join(yarl.URL(location))
    if to.scheme not in ("http", "https") or to.origin() != url.origin():
        raise ToolFailed(f"{called} redirects to another host, {to.host or location[:100]!r}, which is not followed")
    if request.method not in ("GET", "HEAD") and answer.status not in (307, 308):
        # The specification of HTTP has it as a GET from here on: what was asked is done, this is where to read of it.
        request.method, request.data, request.fields = "GET", None, None
        request.headers.pop("Content-Type", None)
    return to


async def _read(answer: aiohttp.ClientResponse) -> ToolOutput:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        pieces.append(piece)
        if size > MAX_RESULT:
            break
    data = b"".join(pieces)
    status = f"HTTP {answer.status}" + (f" {answer.reason}" if answer.reason else "")
    if not 200 <= answer.status < 300:
        head = data[: 4 * MAX_ERROR].decode("utf-8", "replace")[:MAX_ERROR].strip()
        return ToolOutput(f"Error: {status}" + (f": {head}" if head else ""), failed=True)
    if size > MAX_RESULT:
        return ToolOutput(f"Error: the answer is larger than {MAX_RESULT} bytes; ask for less of it", failed=True)
    return _output(data, answer, status)


def _output(data: bytes, answer: aiohttp.ClientResponse, status: str) -> ToolOutput:
    if not data:
        return ToolOutput(status)
    kind = answer.content_type.lower()
    if kind.startswith("text/") or any(word in kind for word in _TEXT) or (not answer.headers.get("Content-Type")):
        try:
            return ToolOutput(data.decode(answer.charset or "utf-8", "replace"))
        except LookupError:  # an unknown character set
            return ToolOutput(data.decode("utf-8", "replace"))
    if kind == "application/octet-stream" and _is_json(data):
        return ToolOutput(data.decode())
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    attachment: Attachment = Image(url) if kind.startswith("image/") else File(url)
    return ToolOutput(f"[{len(data)} bytes of {kind}]", (attachment,))


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True
