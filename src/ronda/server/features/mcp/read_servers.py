"""MCP servers of the operator's: a JSON file and the settings' own tables → what connects to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ronda.errors import BadConfig
from ronda.server.features.mcp.settings import McpSettings

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.tools.mcp.config import McpServer


def servers_of(settings: ServerConfig, logins: Path | None = None) -> list[McpServer]:
    """`logins` is where `ronda mcp login` keeps tokens. Raises BadConfig."""
    own = settings.part(McpSettings)
    return read_servers(own.mcp_config, own.mcp, logins)


def read_servers(
    file: str | None, tables: Mapping[str, Any] | None = None, logins: Path | None = None
) -> list[McpServer]:
    """Nothing is imported where there are none. Raises BadConfig."""
    if file is None and not tables:
        return []
    from ronda.tools.mcp.config import with_login
    from ronda.tools.mcp.read import check_distinct, read_config, read_tables

    found: list[McpServer] = []
    if file is not None:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise BadConfig(f"cannot read the MCP configuration {file!r}: {error.strerror}") from error
        found = read_config(data, os.environ, file)
    servers = check_distinct([*found, *read_tables(tables or {}, os.environ)], "the settings")
    return servers if logins is None else [with_login(server, logins) for server in servers]
