"""/mcp → the MCP server, which is imported with the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.errors import BadConfig, NotFound
from ronda.server.doors.chat import chat_error
from ronda.server.http.browser_guard import refused_socket
from ronda.server.http.failure import error_answer
from ronda.server.http.incoming import Incoming
from ronda.wire.failures import Failure

if TYPE_CHECKING:
    from ronda.server.app import Server


class McpPort:
    """An app, of which there is /mcp alone on one of its ports."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = scope["type"] != "lifespan" and scope.get("server", (None, None))[1] == self._port
        if here and (scope["type"] != "http" or scope["path"] != "/mcp"):
            await (_NOT_HERE if scope["type"] == "http" else refused_socket)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


_NOT_HERE = error_answer(Failure(404, "invalid_request_error", "on this port there is /mcp alone"), chat_error)


async def mcp(server: Server, incoming: Incoming) -> ASGIApp:
    from ronda.tools.mcp.servers import check_package

    try:
        check_package()
    except BadConfig as error:
        raise NotFound(str(error), code="capability_missing") from error
    from ronda.server.doors.mcp.door import door_of

    # Read here, within the bounds of all requests: the SDK knows those of one alone.
    body = await incoming.body(server.config.max_body) if incoming.method == "POST" else None
    return await door_of(server).answer(incoming.owner, body)
