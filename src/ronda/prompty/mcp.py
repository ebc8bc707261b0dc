"""A tool of kind `mcp` → the tools of its server.

    connection    its endpoint is the server's address, its key or token is sent there; a connection is kept for the next run
    serverName    by itself, it names a server that the host has: of `ronda serve`'s settings, or `register_mcp_servers`

`approvalMode` and `allowedTools` can only narrow what the host's own settings say.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ronda.core.plan import Approval, ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import BadConfig, ToolFailed, quote_names
from ronda.prompty.connections import endpoint_of, grant_of, key_of, resolve_connection
from ronda.prompty.errors import BadPrompty
from ronda.prompty.model import ApprovalMode, Connection, McpTool
from ronda.prompty.tool_specs import without_bound_parameters
from ronda.tools.mcp.config import AUTO, Approvals, Http, McpServer, Source, Sse, WebSocket, slug
from ronda.tools.mcp.offers import offered_tools
from ronda.tools.mcp.read import read_config
from ronda.tools.mcp.servers import McpServers, check_package

_STRICTNESS: Final[tuple[Approval, ...]] = ("auto", "ask", "deny")

_lock = threading.Lock()
_registered: dict[str, McpServer] = {}


def register_mcp_servers(servers: Mapping[str, Any]) -> None:
    """Let files name these servers by their `serverName`. They are given as in `mcpServers`: name → command and args, or url."""
    register(read_config(msgspec.json.encode({"mcpServers": dict(servers)}), {}, "register_mcp_servers"))


def register(servers: Iterable[McpServer]) -> None:
    with _lock:
        _registered.update({server.name: server for server in servers})


def clear_mcp_servers() -> None:
    """Forget what was registered."""
    with _lock:
        _registered.clear()


async def tools_of_server(declared: McpTool, host: McpServers | None, taken: Collection[str]) -> list[Tool]:
    """Raises BadPrompty where the file is wrong. A server that cannot be used is a tool that says why when it is called."""
    try:
        check_package()
    except BadConfig as error:
        raise BadPrompty(str(error), field=f"tools.{declared.name}") from error
    from ronda.tools.mcp.shared_connections import shared_connection  # with the whole of the SDK behind it

    approvals = approvals_of(declared.approval_mode)
    connection = host.connection(declared.server_name) if host is not None and declared.connection is None else None
    if connection is not None:
        server = connection.server
    else:
        server = _named_server(declared, host) if declared.connection is None else _server_at(declared)
        connection = await shared_connection(server)
    if not connection.tools and connection.last_error:
        return [_Unusable(declared, server.name, connection.last_error)]
    made: list[Tool] = []
    for tool in offered_tools([(replace(server, offered=True), connection)], taken):
        if declared.allowed_tools is None or tool.tool in declared.allowed_tools:
            approval = approvals.of(tool.tool, is_read_only=False)
            approval = max(approval, tool.spec.approval, key=_STRICTNESS.index)
            tool.spec = without_bound_parameters(replace(tool.spec, approval=approval), declared.bindings)
            made.append(tool)
    return made


class _Unusable:
    """In the place of the tools of a server that is not there."""

    def __init__(self, declared: McpTool, server: str, why: str) -> None:
        about = declared.description or declared.server_description or f"The tools of {server}."
        self.spec = ToolSpec(
            declared.name, f"{about} (It cannot be used now.)", kind="mcp", declared="mcp", no_arguments_needed=True
        )
        self._why = f"the MCP server {server!r} cannot be used: {why}"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        raise ToolFailed(self._why)


def approvals_of(mode: ApprovalMode | None) -> Approvals:
    """Of a mode that names tools, the others ask, too; but not where only those that ask are named."""
    if mode is None or mode.kind == "never":
        return AUTO
    if mode.kind == "always":
        return Approvals("ask")
    always, never = mode.always_require_approval_tools, mode.never_require_approval_tools
    return Approvals("auto" if always and not never else "ask", always, never)


def _named_server(declared: McpTool, host: McpServers | None) -> McpServer:
    with _lock:
        known = dict(_registered)
    if (found := known.get(declared.server_name)) is not None:
        return found
    names = [*known, *([] if host is None else [one.name for one in host.status()])]
    there_is = f"there is {quote_names(sorted(names))}" if names else "there is none"
    raise BadPrompty(
        f"the tool '{declared.name}' names the MCP server '{declared.server_name}', which is not configured here; {there_is}",
        field=f"tools.{declared.name}.serverName",
    )


def _server_at(declared: McpTool) -> McpServer:
    field = f"tools.{declared.name}.connection"
    assert declared.connection is not None
    connection = resolve_connection(declared.connection)
    if not isinstance(connection, Connection):
        raise BadPrompty(
            f"the connection of '{declared.name}' is a model's provider, which is no MCP server", field=field
        )
    name = declared.server_name or declared.name
    key = key_of(connection)
    return McpServer(
        name=name,
        source=_source(endpoint_of(connection), connection, field),
        prefix=slug(name) or None,
        bearer_token=key,
        grant=grant_of(connection, field) if key is None and connection.kind != "anonymous" else None,
    )


def _source(endpoint: str | None, connection: Connection, field: str) -> Source:
    transport = str(connection.extra.get("transport", "")).lower()
    if endpoint and endpoint.startswith(("ws://", "wss://")):
        return WebSocket(endpoint)
    if not endpoint or not endpoint.startswith(("http://", "https://")):
        raise BadPrompty(
            f"the endpoint of an MCP server must begin with http://, https://, ws:// or wss://, not {endpoint!r:.200}",
            field=field,
        )
    return Sse(endpoint) if transport == "sse" else Http(endpoint)
