"""What a server has, and how its tools are to be treated → `Tool` objects under unique names.

The call goes to whatever connection the server has then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.names import distinct_names

if TYPE_CHECKING:
    from ronda.tools.mcp.connection import Connection
    from ronda.tools.mcp.listing import ListedTool

READ_RESOURCE: Final = "read_resource"
SHOWN_RESOURCES: Final = 50  # that the model is told of; it may read others that fit


class McpTool:
    """A tool of a server."""

    def __init__(self, spec: ToolSpec, server: str, connection: Connection, listed: ListedTool) -> None:
        self.spec = spec
        self.server = server
        self.tool = listed.name  # on the server
        self.is_read_only = listed.is_read_only
        self._connection = connection

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        from ronda.tools.mcp.call import call_tool

        return await call_tool(self._connection, self.tool, arguments, context)


class ResourceTool:
    """Reads what a server has, within the patterns of its configuration."""

    tool = READ_RESOURCE
    is_read_only = True

    def __init__(self, spec: ToolSpec, server: str, connection: Connection) -> None:
        self.spec = spec
        self.server = server
        self._connection = connection

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        from ronda.tools.mcp.call import read_resource

        return await read_resource(self._connection, arguments["uri"], context)


McpTools: TypeAlias = tuple["McpTool | ResourceTool", ...]


def offered_tools(servers: Iterable[tuple[McpServer, Connection]], taken: Collection[str] = ()) -> McpTools:
    """The tools of these connections, each as its `McpServer` says, under names that are not `taken`."""
    offered: list[tuple[McpServer, Connection, ListedTool | None]] = []
    for server, one in servers:
        if server.offered:
            offered += [(server, one, tool) for tool in one.tools if server.allows(tool.name)]
            if one.resources and READ_RESOURCE not in [tool.name for tool in one.tools]:
                offered.append((server, one, None))
    names = distinct_names([(server.name, server.prefix, _name(tool)) for server, _, tool in offered], taken)
    found: list[McpTool | ResourceTool] = []
    for server, one, tool in offered:
        name = names[server.name, _name(tool)]
        if tool is None:
            found.append(ResourceTool(_resource_spec(server, one, name), server.name, one))
        else:
            found.append(McpTool(_spec(server, tool, name), server.name, one, tool))
    return tuple(found)


def _name(tool: ListedTool | None) -> str:
    return READ_RESOURCE if tool is None else tool.name


def _resource_spec(server: McpServer, connection: Connection, name: str) -> ToolSpec:
    known = "\n".join([f"{one.uri}: {one.name}" for one in connection.resources[:SHOWN_RESOURCES]])
    schema = {
        "type": "object",
        "properties": {"uri": {"type": "string"}},
        "required": ["uri"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name,
        description=f"Read a resource of {server.name} by its address. Some that there are:\n{known}",
        parameters=Raw(msgspec.json.encode(schema)),
        kind="mcp",
        repeatable=True,
        approval=server.approvals.of(READ_RESOURCE, is_read_only=True),
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
