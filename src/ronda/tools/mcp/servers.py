"""All MCP servers together: what doors and commands use.

    servers = McpServers(read_config(data, os.environ))
    await servers.ready()   each of them is connected, or has failed for the first time
    servers.tools()         the tools of those that are there, as `Tool` objects under unique names
    servers.status()        how each of them fares
    await servers.close()

One that fails leaves the others alone. They belong to the event loop that they were opened on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from ronda._extras import check_extra
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.offers import McpTool, McpTools, ResourceTool, offered_tools

if TYPE_CHECKING:
    from ronda.tools.mcp.connection import Connection


class ServerStatus(Struct, frozen=True):
    """As `GET /v1/mcp` tells it."""

    name: str
    transport: str
    era: str  # the protocol's version; empty before the first connection
    state: str  # connecting | connected | degraded | failed | disabled
    tools: int
    last_error: str | None
    since: float


class McpServers:
    def __init__(self, configs: Sequence[McpServer], taken: Collection[str] = ()) -> None:
        """`taken` are names that their tools must not have. Raises BadConfig where the package is missing."""
        if configs:
            check_package()
        self._configs = configs
        self._taken = taken
        self._connections: list[Connection] = []
        self._tools: McpTools | None = None

    def tools(self, *names: str) -> list[McpTool | ResourceTool]:
        """Of the servers with these names, or of all."""
        return [tool for tool in self.all_tools() if not names or tool.server in names]

    def all_tools(self) -> McpTools:
        """The same value until something changes."""
        if self._tools is None:
            self._tools = offered_tools([(one.server, one) for one in self._connections], self._taken)
        return self._tools

    def connection(self, name: str) -> Connection | None:
        return next((one for one in self._connections if one.name == name), None)

    def status(self) -> list[ServerStatus]:
        return [status_of(one) for one in self._connections]

    def open(self) -> None:
        """Begin to connect to all of them at once."""
        if not self._connections and self._configs:
            from ronda.tools.mcp.connection import Connection

            self._connections = [Connection(config, self._forget_tools) for config in self._configs]
            self._tools = None
            for one in self._connections:
                one.open()

    async def ready(self) -> None:
        """Wait until each server is connected, or has failed for the first time."""
        self.open()
        if any(one.state == "connecting" for one in self._connections):
            await asyncio.gather(*[one.settled() for one in self._connections])

    async def close(self) -> None:
        await asyncio.gather(*[one.close() for one in self._connections])

    def _forget_tools(self) -> None:
        self._tools = None


class ServersPerLoop:
    """The same servers for each event loop that calls them: a connection belongs to one."""

    def __init__(self, configs: Sequence[McpServer], taken: Collection[str] = ()) -> None:
        check_package()
        self.configs = configs
        self._taken = taken
        self._servers: WeakKeyDictionary[asyncio.AbstractEventLoop, McpServers] = WeakKeyDictionary()

    def here(self) -> McpServers:
        loop = asyncio.get_running_loop()
        if (found := self._servers.get(loop)) is None:
            found = self._servers[loop] = McpServers(self.configs, self._taken)
        return found


def status_of(one: Connection) -> ServerStatus:
    transport, error = one.server.transport, one.last_error or None
    return ServerStatus(one.name, transport, one.version, one.state, len(one.tools), error, one.since)


def check_package() -> None:
    """Cheap: nothing is imported yet."""
    check_extra("mcp", "an MCP server")
