"""The MCP server: over HTTP at /mcp, with the keys, owners and host check of every door; and over the pipes of a program."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server as SdkServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ronda._version import __version__
from ronda.host.supervisor import Supervisor
from ronda.server.doors.mcp.call import call
from ronda.server.doors.mcp.tools import tools_for
from ronda.server.http.rights import use_rights

if TYPE_CHECKING:
    from ronda.server.doors.mcp.route import McpParts

_OWNER = "ronda.owner"  # where a request's scope says whose it is …
_RIGHTS = "ronda.rights"  # … and what its key may do


def make_server(parts: McpParts) -> SdkServer[Any]:
    def owner_of(context: ServerRequestContext[Any, Any]) -> str:
        """Over pipes there is one: the program that started this one. What the request's key may do holds from here on."""
        if context.request is None:
            return ""
        use_rights(context.request.scope[_RIGHTS])
        return str(context.request.scope[_OWNER])

    async def list_tools(
        context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        found = await tools_for(parts.agent_folder(), parts.agents, owner_of(context))
        tools = [types.Tool(name=one.name, description=one.description, input_schema=one.schema) for one in found]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        owner = owner_of(context)
        found = await tools_for(parts.agent_folder(), parts.agents, owner)
        tool = next((one for one in found if one.name == params.name), None)
        if tool is None:
            known = ", ".join([one.name for one in found[:20]])
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:200]!r}; there is {known}")
        progress = 0

        async def tell(text: str) -> None:
            nonlocal progress
            progress += 1
            await context.session.report_progress(progress, None, text)

        result = await call(parts.answering, parts.models, owner, tool, params.arguments or {}, tell)
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=result.text)]
        return types.CallToolResult(content=content, is_error=result.failed, structured_content=result.structured)

    about = "Agents that are run to their end: each tool is one, and 'chat' asks a model directly."
    return SdkServer("ronda", version=__version__, instructions=about, on_list_tools=list_tools, on_call_tool=call_tool)


class McpDoor:
    """The address /mcp of one server, on one event loop."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts
        self._manager: StreamableHTTPSessionManager | None = None
        self._is_up = asyncio.Event()
        self._is_over = asyncio.Event()
        # Contexts of the SDK are left by the task that entered them. It ends after the runs that were called through it.
        self._holder = Supervisor(parts.sleep).keep("the MCP door", self._hold)

    async def _hold(self) -> None:
        """A manager of the SDK serves once: each start has its own."""
        made = make_server(self._parts)
        self._manager = StreamableHTTPSessionManager(made, max_request_body_size=self._parts.max_body)
        try:
            async with self._manager.run():
                self._is_up.set()
                await self._is_over.wait()
        finally:
            self._is_up.clear()

    async def answer(self, owner: str, rights: frozenset[str] | None, body: bytes | None) -> ASGIApp:
        """`body`: what was read of the request; None if nothing was."""
        await self._is_up.wait()
        manager = self._manager
        assert manager is not None

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            # A session is its owner's: the SDK lets no other owner speak in it.
            user = AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[]))
            # What stands around a header's value is no part of it; the SDK compares values with the body.
            headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
            incoming = receive if body is None else _after(body, receive)
            whose = {"user": user, _OWNER: owner, _RIGHTS: rights}
            await manager.asgi_app({**scope, "headers": headers, **whose}, incoming, send)

        return app

    async def close(self) -> None:
        self._is_over.set()
        with suppress(asyncio.CancelledError):
            await self._holder


def _after(body: bytes, receive: Receive) -> Receive:
    """What comes behind a body that was read, with the body before it."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def incoming() -> Message:
        return unread.pop() if unread else await receive()

    return incoming


async def serve_pipes(parts: McpParts) -> None:
    """Until the client closes its side."""
    from mcp.server.stdio import stdio_server

    made = make_server(parts)
    async with stdio_server() as (received, leaving):
        await made.run(received, leaving, made.create_initialization_options())
