"""`ronda mcp serve`: this program as an MCP server, over its pipes, with the settings of `ronda serve`."""

from __future__ import annotations

import argparse
import asyncio

from ronda.cli.settings import read_config
from ronda.server.config import ServerConfig
from ronda.server.mcp_settings import read_servers


def mcp(arguments: argparse.Namespace) -> int:
    asyncio.run(_serve(read_config(arguments)))
    return 0


async def _serve(config: ServerConfig) -> None:
    """Until whoever started it closes its side. Standard output is the client's alone."""
    from ronda.cli.serve import data_folder
    from ronda.server.app import Server
    from ronda.server.mcp_door.door import serve_pipes
    from ronda.server.storage import open_catalog, open_journal
    from ronda.tools.mcp.servers import check_package

    check_package()
    folder = data_folder(config)
    servers = read_servers(config.mcp_config, config.mcp)
    server = Server(config, open_journal(folder, config), catalog=open_catalog(folder), mcp=servers)
    server.open()
    try:
        await serve_pipes(server)
    finally:
        await server.runs.stop(config.shutdown_seconds)
        await server.close()
