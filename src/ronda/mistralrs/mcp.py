"""MCP servers under the original's names: the members of its configuration file, as Python objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.read import read_config


class McpServerSourcePy:
    """Where a server is."""

    @dataclass(frozen=True)
    class Process:
        command: str
        args: Sequence[str] = ()
        work_dir: str | None = None
        env: Mapping[str, str] | None = None

    @dataclass(frozen=True)
    class Http:
        url: str
        timeout_secs: int | None = None
        headers: Mapping[str, str] | None = None

    @dataclass(frozen=True)
    class WebSocket:
        url: str
        timeout_secs: int | None = None
        headers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class McpServerConfigPy:
    """`tool_prefix` of None means none, unlike a member that a file leaves out. `id` comes first in the original, and need not
    be there: so all have a default, and a server without a source is refused when it is read."""

    id: str | None = None
    name: str = ""
    source: McpServerSourcePy.Process | McpServerSourcePy.Http | McpServerSourcePy.WebSocket | None = None
    enabled: bool = True
    tool_prefix: str | None = None
    resources: Sequence[str] | None = None
    bearer_token: str | None = None


@dataclass(frozen=True)
class McpClientConfigPy:
    servers: Sequence[McpServerConfigPy]
    auto_register_tools: bool = True
    tool_timeout_secs: int | None = None
    max_concurrent_calls: int | None = None


def servers_of(config: McpClientConfigPy) -> list[McpServer]:
    """Raises BadConfig, with the place of what is wrong."""
    servers = [{**vars(one), "source": _source_of(one)} for one in config.servers]
    return read_config(msgspec.json.encode({**vars(config), "servers": servers}), {}, "mcp_client_config")


def _source_of(server: McpServerConfigPy) -> dict[str, Any]:
    source = server.source
    return {} if source is None else {**vars(source), "type": type(source).__name__}
