"""What a server has, and how its tools are to be treated → `Tool` objects under unique names.

The call goes to whatever connection the server has then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.names import distinct_names
from ronda.tools.parameters import parameters

if TYPE_CHECKING:
    from ronda.tools.mcp.connection import Connection
    from ronda.tools.mcp.listing import ListedTool

READ_RESOURCE: Final = "read_resource"
GET_PROMPT: Final = "get_prompt"
SHOWN_RESOURCES: Final = 50  # that the model is told about; it may read others that fit


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


class PromptTool(ResourceTool):
    """Reads a prompt that a server has, filled in."""

    tool = GET_PROMPT

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        from ronda.tools.mcp.call import get_prompt

        return await get_prompt(self._connection, arguments["name"], arguments.get("arguments", {}), context)


McpTools: TypeAlias = tuple["McpTool | ResourceTool", ...]


def offered_tools(servers: Iterable[tuple[McpServer, Connection]], taken: Collection[str] = ()) -> McpTools:
    """The tools of these connections, each as its `McpServer` says, under names that are not `taken`."""
    offered: list[tuple[McpServer, Connection, ListedTool | str]] = []  # or what we make of its resources and prompts
    for server, one in servers:
        if server.offered:
            offered += [(server, one, tool) for tool in one.tools if server.allows(tool.name)]
            own = [tool.name for tool in one.tools]
            for name, things in ((READ_RESOURCE, one.resources), (GET_PROMPT, one.prompts)):
                if things and name not in own:
                    offered.append((server, one, name))
    names = distinct_names([(server.name, server.prefix, _name(tool)) for server, _, tool in offered], taken)
    found: list[McpTool | ResourceTool] = []
    for server, one, tool in offered:
        name = names[server.name, _name(tool)]
        if tool == READ_RESOURCE:
            found.append(ResourceTool(_resource_spec(server, one, name), server.name, one))
        elif isinstance(tool, str):
            found.append(PromptTool(_prompt_spec(server, one, name), server.name, one))
        else:
            found.append(McpTool(_spec(server, tool, name), server.name, one, tool))
    return tuple(found)


def _name(tool: ListedTool | str) -> str:
    return tool if isinstance(tool, str) else tool.name


def _resource_spec(server: McpServer, connection: Connection, name: str) -> ToolSpec:
    known = "\n".join([f"{one.uri}: {one.name}" for one in connection.resources[:SHOWN_RESOURCES]])
    about = f"Read a resource of {server.name} by its address. Some that there are:\n{known}"
    return _reading_spec(server, READ_RESOURCE, name, about, {"uri": {"type": "string"}}, "uri")


def _prompt_spec(server: McpServer, connection: Connection, name: str) -> ToolSpec:
    known = [
        f"{one.name}({', '.join(one.arguments)}): {one.description}" for one in connection.prompts[:SHOWN_RESOURCES]
    ]
    about = f"Read a prompt of {server.name}, filled in with its arguments. Some that there are:\n" + "\n".join(known)
    members = {
        "name": {"type": "string"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    return _reading_spec(server, GET_PROMPT, name, about, members, "name")


def _reading_spec(
    server: McpServer, tool: str, name: str, about: str, members: dict[str, Any], required: str
) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=about,
        parameters=parameters(members, required),
        strict=True,
        kind="mcp",
        repeatable=True,
        approval=server.approvals.of(tool, is_read_only=True),
        labels=server.labels,
        declared="mcp",
    )


def _spec(server: McpServer, tool: ListedTool, name: str) -> ToolSpec:
    # No timeout here: the call has its own, whose clock stands still while a person is asked.
    return ToolSpec(
        name=name,
        description=tool.description,
        parameters=tool.parameters,
        strict=True,
        kind="mcp",
        approval=server.approvals.of(tool.name, is_read_only=tool.is_read_only),
        labels=server.labels,
        declared="mcp",
        no_arguments_needed=not tool.needs_arguments,
    )
