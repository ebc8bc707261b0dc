"""All MCP servers together: what doors and commands use.

    servers = await open_servers(read_config(data, os.environ))
    servers.tools()      the tools of those that are there, as `Tool` objects under unique names
    servers.status()     how each of them fares
    await servers.close()

One that fails leaves the others alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import BadConfig
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.names import distinct_names

if TYPE_CHECKING:
    from ronda.tools.mcp.connection import Connection
    from ronda.tools.mcp.listing import ListedTool

READ_RESOURCE: Final = "read_resource"
SHOWN_RESOURCES: Final = 50  # that the model is told of; it may read others that fit


class ServerStatus(Struct, frozen=True):
    """As `GET /v1/mcp` tells it."""

    name: str
    transport: str
    era: str  # the protocol's version; empty before the first connection
    state: str  # connecting | connected | degraded | failed | disabled
    tools: int
    last_error: str | None
    since: float


class McpTool:
    """A tool of a server. The call goes to whatever connection the server has then."""

    def __init__(self, spec: ToolSpec, connection: Connection, tool: str) -> None:
        self.spec = spec
        self.server = connection.name
        self.tool = tool  # its name on the server
        self._connection = connection

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        from ronda.tools.mcp.call import call_tool

        return await call_tool(self._connection, self.tool, arguments, context)


class ResourceTool:
    """Reads what a server has, within the patterns of its configuration."""

    tool = READ_RESOURCE

    def __init__(self, spec: ToolSpec, connection: Connection) -> None:
        self.spec = spec
        self.server = connection.name
        self._connection = connection

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        from ronda.tools.mcp.call import read_resource

        return await read_resource(self._connection, arguments["uri"], context)


class McpServers:
    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections
        self._tools: list[McpTool | ResourceTool] | None = None

    def tools(self, *names: str) -> list[McpTool | ResourceTool]:
        """Of the servers with these names, or of all. The same objects, in the same order, until something changes."""
        if self._tools is None:
            self._tools = self._offer()
        return [tool for tool in self._tools if tool.server in names] if names else list(self._tools)

    def status(self) -> list[ServerStatus]:
        return [
            ServerStatus(
                one.name,
                one.server.transport,
                one.version,
                one.state,
                len(one.tools),
                one.last_error or None,
                one.since,
            )
            for one in self._connections
        ]

    async def ready(self) -> None:
        """Wait until each server is connected, or has failed for the first time."""
        await asyncio.gather(*[one.settled() for one in self._connections])

    async def close(self) -> None:
        await asyncio.gather(*[one.close() for one in self._connections])

    def forget_tools(self) -> None:
        self._tools = None

    def _offer(self) -> list[McpTool | ResourceTool]:
        offered: list[tuple[Connection, ListedTool | None]] = []
        for one in self._connections:
            if one.server.offered:
                offered += [(one, tool) for tool in one.tools if one.server.allows(tool.name)]
                if one.resources and READ_RESOURCE not in [tool.name for tool in one.tools]:
                    offered.append((one, None))
        names = distinct_names((one.name, one.server.prefix, _name(tool)) for one, tool in offered)
        found: list[McpTool | ResourceTool] = []
        for one, tool in offered:
            name = names[one.name, _name(tool)]
            if tool is None:
                found.append(ResourceTool(_resource_spec(one, name), one))
            else:
                found.append(McpTool(_spec(one.server, tool, name), one, tool.name))
        return found


def _name(tool: ListedTool | None) -> str:
    return READ_RESOURCE if tool is None else tool.name


def _resource_spec(connection: Connection, name: str) -> ToolSpec:
    known = "\n".join([f"{one.uri}: {one.name}" for one in connection.resources[:SHOWN_RESOURCES]])
    schema = {
        "type": "object",
        "properties": {"uri": {"type": "string"}},
        "required": ["uri"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name,
        description=f"Read a resource of {connection.name} by its address. Some that there are:\n{known}",
        parameters=Raw(msgspec.json.encode(schema)),
        kind="mcp",
        repeatable=True,
        approval=connection.server.approvals.of(READ_RESOURCE, is_read_only=True),
        declared="mcp",
    )


def _spec(server: McpServer, tool: ListedTool, name: str) -> ToolSpec:
    # No timeout here: the call has its own, whose clock stands still while a person is asked.
    return ToolSpec(
        name=name,
        description=tool.description,
        parameters=tool.parameters,
        kind="mcp",
        approval=server.approvals.of(tool.name, is_read_only=tool.is_read_only),
        declared="mcp",
        no_arguments_needed=not tool.needs_arguments,
    )


async def open_servers(configs: Iterable[McpServer], *, wait: bool = True) -> McpServers:
    """Connect to all of them at once; with `wait`, until each is there or has failed for the first time. Raises BadConfig."""
    configs = list(configs)
    if not configs:
        return McpServers([])
    try:
        from ronda.tools.mcp.connection import Connection
    except ModuleNotFoundError as error:
        raise BadConfig(f"MCP servers need the package {error.name!r}: pip install 'ronda[mcp]'") from error
    servers = McpServers([])
    servers._connections.extend(Connection(config, servers.forget_tools) for config in configs)
    for connection in servers._connections:
        connection.open()
    if wait:
        await servers.ready()
    return servers
