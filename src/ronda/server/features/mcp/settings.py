"""Settings of MCP servers: the operator's, and those that requests may name."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from msgspec import Struct

from ronda.server.setting import AGENTS, MODEL, Setting

_agents = partial(Setting, AGENTS)


class McpSettings(Struct, frozen=True):
    mcp_config: Annotated[
        str | None,
        Setting(
            MODEL,
            "--mcp-config FILE.json",
            "MCP servers whose tools the model gets",
            default="the file that MCP_CONFIG_PATH names",
            variable="MCP_CONFIG_PATH",
            reads="path",
        ),
    ] = None
    mcp: Annotated[dict[str, Any], _agents("", "MCP servers, by name, beside those of mcp_config")] = {}
    mcp_allow_url: Annotated[
        tuple[str, ...],
        _agents(
            "--mcp-allow-url URL",
            "an address of MCP servers that requests may name, such as https://mcp.example.com or "
            "https://*.example.com/mcp; may be repeated",
        ),
    ] = ()

    def __repr__(self) -> str:
        """Without the tokens of servers: this may end up in logs and tracebacks."""
        return "McpSettings(…)"
