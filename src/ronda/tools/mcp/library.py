"""For programs: the tools of an MCP server.

agent = Agent("openai-chat:NAME", tools=[mcp("uvx", "mcp-server-time")])
agent = Agent("openai-chat:NAME", tools=[mcp("https://mcp.example.com/mcp", approval="ask")])

The server is connected to when a run begins, and the connection is kept for the next run on the same event loop.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from ronda.core.plan import Approval
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.read import read_tables
from ronda.tools.mcp.servers import check_package

_ADDRESSES = ("http://", "https://", "ws://", "wss://")


def mcp(
    server: str,
    *args: str,
    name: str = "",
    approval: Approval = "auto",
    allowed_tools: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    **settings: Any,
) -> McpToolset:
    """The tools of an MCP server: one at an address, or a program that is started.

    Args:
        server: The server's address (http, https, ws or wss), or the program to start.
        args: The program's arguments.
        name: What the server is called in messages, and what its tools' names begin with; without one, the tools have the
            names that the server gives them.
        approval: "ask": a person approves each call before it runs (`approve=` of the run). "deny": none runs.
        allowed_tools: The names of the tools that the model gets; without them, all.
        env: The program's environment, beside a few variables of this one.
        headers: What is sent to the address with each request.
        settings: The other settings of `[mcp.NAME]` in a server's settings file: `folder`, `sandbox`, `bearer_token`,
            `transport`, `ask_tools`, `auto_tools`, `labels`, `resources`, `prompts`, `call_seconds`, …
    """
    check_package()
    if not isinstance(server, str):
        raise BadConfig(f"mcp: the server is {server!r:.100}; write mcp('https://…'), or mcp('PROGRAM', 'ARGUMENT', …)")
    table: dict[str, Any] = {"approval": approval, "prefix": name, **settings}
    if server.startswith(_ADDRESSES):
        if args or env:
            raise BadConfig(f"mcp: {server!r} is an address, which takes no arguments and no environment")
        table |= {"url": server, "headers": dict(headers or {})}
    else:
        if headers:
            raise BadConfig(f"mcp: headers are for addresses, and {server!r} is a program")
        table |= {"command": server, "args": list(args), "env": dict(env or {})}
    if allowed_tools is not None:
        table["allowed_tools"] = list(allowed_tools)
    [read] = read_tables({name or _name_of(server, args): table}, os.environ, "mcp(…)")
    return McpToolset(read)


def _name_of(server: str, args: Sequence[str]) -> str:
    """For messages: the program that a launcher such as uvx or npx starts, or the host of an address."""
    if server.startswith(_ADDRESSES):
        return server.split("/")[2].rpartition("@")[2]
    return next((word for word in reversed(args) if not word.startswith("-")), PurePath(server).name)


class McpToolset:
    """Made by `mcp`: opened when a run begins."""

    def __init__(self, server: McpServer) -> None:
        self.server = server

    @property
    def labels(self) -> tuple[str, ...]:
        return self.server.labels

    async def open_tools(self, taken: Collection[str]) -> Sequence[Tool]:
        """Raises BadConfig for a server that cannot be used."""
        from ronda.tools.mcp.offers import offered_tools
        from ronda.tools.mcp.shared_connections import shared_connection  # with the whole of the SDK behind it

        connection = await shared_connection(self.server)
        if not connection.tools and connection.last_error:
            raise BadConfig(f"the MCP server '{self.server.name}' cannot be used: {connection.last_error}")
        found = offered_tools([(self.server, connection)], taken)
        return list(found)
