"""This server as an MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ronda.server.doors.dialects import MCP
from ronda.server.doors.mcp.route import McpParts, McpRoute
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door
from ronda.server.http.routing import Route
from ronda.server.services.agents import AgentFolder

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig

# Slow to import, and not needed by most servers.
_MCP: Final = ("ronda.tools.mcp.servers", "ronda.server.doors.mcp.door", "anyio._backends._asyncio")


class McpServer(Door):
    name = "mcp_server"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        provided = services.provided
        self.route = McpRoute(
            McpParts(
                services.answering,
                services.models,
                services.catalog.agents,
                lambda: provided(AgentFolder),
                settings.max_body,
                services.supervisor.sleep,
                services.callers,
            )
        )

    def routes(self) -> Sequence[Route]:
        return [
            Route("POST", "/mcp", MCP, self.route.answer, "write", loads=_MCP),
            Route("GET", "/mcp", MCP, self.route.answer, "read", loads=_MCP),
            Route("DELETE", "/mcp", MCP, self.route.answer, "write", loads=_MCP),
        ]

    async def stop(self) -> None:
        await self.route.close()
