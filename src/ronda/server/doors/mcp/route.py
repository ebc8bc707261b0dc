"""/mcp → the MCP server, which is imported with the first request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace
from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.errors import BadConfig, NotFound
from ronda.host.supervisor import Sleep
from ronda.server.answering.exchange import Answering
from ronda.server.doors.chat import chat_error
from ronda.server.http.browser_guard import refused_socket
from ronda.server.http.failure import error_answer
from ronda.server.http.incoming import Incoming, Json, with_headers
from ronda.server.services.models import Models
from ronda.wire.codec.json import UNREADABLE
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.server.doors.mcp.door import McpDoor
    from ronda.server.http.incoming import Header
    from ronda.server.services.agents import AgentFolder
    from ronda.server.services.callers import Callers
    from ronda.store.agents import Agents


_INVALID_REQUEST: Final = -32600  # JSON-RPC's


class McpPort:
    """An app that has only /mcp on one of its ports."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = scope["type"] != "lifespan" and scope.get("server", (None, None))[1] == self._port
        if here and (scope["type"] != "http" or scope["path"] != "/mcp"):
            await (_NOT_HERE if scope["type"] == "http" else refused_socket)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


_NOT_HERE = error_answer(Failure(404, "invalid_request_error", "on this port there is /mcp only"), chat_error)


class McpParts(Struct, frozen=True):
    """What the MCP server is made of."""

    answering: Answering
    models: Models
    agents: Agents  # that clients made …
    agent_folder: Callable[[], AgentFolder | None]  # … and those of the operator's files
    max_body: int
    sleep: Sleep
    callers: Callers


class McpRoute:
    def __init__(self, parts: McpParts) -> None:
        self._parts = parts
        self._door: McpDoor | None = None  # made with the first request

    async def answer(self, incoming: Incoming) -> ASGIApp:
        from ronda.tools.mcp.servers import check_package

        try:
            check_package()
        except BadConfig as error:
            raise NotFound(str(error), code="capability_missing") from error
        from ronda.server.doors.mcp.door import McpDoor

        # Read here, within the bounds of all requests: the SDK knows those of one only.
        body = await incoming.body(self._parts.max_body) if incoming.method == "POST" else None
        more: Sequence[Header] = ()
        if body is not None:
            message = _read(body)
            if isinstance(message, Json):
                return message
            if message is not None and message.method == "tools/call" and incoming.route is not None:
                # Nothing else asks a model: clients connect, and look at what there is, also where a budget is used up.
                more = await self._parts.callers.admit(incoming, replace(incoming.route, scope="run"))
        if self._door is None:
            self._door = McpDoor(self._parts)
        answer = await self._door.answer(incoming.owner, incoming.rights, body)
        return with_headers(answer, more) if more else answer

    async def serve_pipes(self) -> None:
        """Until the client closes its side."""
        from ronda.server.doors.mcp.door import serve_pipes

        await serve_pipes(self._parts)

    async def close(self) -> None:
        if (door := self._door) is not None:
            self._door = None
            await door.close()


class _Message(Struct, frozen=True):
    """JSON-RPC's envelope. What a method takes is the SDK's to check."""

    jsonrpc: Literal["2.0"]
    id: int | str | float | None = None
    method: str | None = None
    params: dict[str, Raw] | None = None
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


def _read(body: bytes) -> _Message | Json | None:
    """A message; an answer to JSON that is none of MCP's, as the SDK would list every field of every message that it is not; or
    None for what is no JSON at all, of which the SDK says so."""
    try:
        message = msgspec.json.decode(body, type=_Message)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`", "")
    except UNREADABLE:
        return None
    else:
        if message.method is not None or message.result is not UNSET or message.error is not UNSET:
            return message
        problem = "it has no 'method'"
    problem_body = {"code": _INVALID_REQUEST, "message": f"this is no JSON-RPC 2.0 message: {problem}"}
    return Json(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem_body}), 400)
