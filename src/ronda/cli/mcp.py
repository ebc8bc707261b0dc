"""`ronda mcp`: `serve` is this program as an MCP server, over its pipes; `login` gets a token of an MCP server for Ronda."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import webbrowser
from pathlib import Path

from ronda._extras import check_extra
from ronda.cli.serve import data_folder, state_folder
from ronda.cli.settings import read_config
from ronda.errors import BadConfig, ToolFailed
from ronda.server.config import ServerConfig
from ronda.server.features.mcp.read_servers import servers_of
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.servers import check_package


def mcp(arguments: argparse.Namespace) -> int:
    check_package()
    config = read_config(arguments)
    if arguments.action == "serve":
        check_extra("server", "'ronda mcp serve'")
        asyncio.run(_serve(config))
        return 0
    server = _find_server(config, arguments.name)
    assert server.login is not None
    if arguments.action == "logout":
        Path(server.login).unlink(missing_ok=True)
        print(f"the token for '{server.name}' is forgotten here")
        return 0
    try:
        tools = asyncio.run(_log_in(server, arguments))
    except (ToolFailed, TimeoutError) as error:
        raise BadConfig(f"no login at '{server.name}': {error or 'no answer came in time'}") from error
    print(f"logged in to '{server.name}', which has {tools} tools")
    return 0


async def _serve(config: ServerConfig) -> None:
    """Until the program that started it closes its side. Standard output is the client's only."""
    from ronda.server.app import Server
    from ronda.server.features.doors.mcp import McpServer as McpDoor
    from ronda.server.storage import open_catalog, open_journal

    folder = data_folder(config)
    given = {"mcp": servers_of(config, folder or state_folder())}
    server = Server(config, open_journal(folder, config), catalog=open_catalog(folder), given=given)
    server.open()
    try:
        door = server.features.find(McpDoor.name)
        assert isinstance(door, McpDoor)
        await door.route.serve_pipes()
    finally:
        await server.runs.stop(config.shutdown_seconds)
        await server.close()


def _find_server(config: ServerConfig, name: str | None) -> McpServer:
    servers = servers_of(config, data_folder(config) or state_folder())
    there_is = ", ".join([server.name for server in servers]) or "none; name a file with --mcp-config or --config"
    if name is None:
        raise BadConfig(f"at which MCP server? There is {there_is}")
    found = next((server for server in servers if server.name == name), None)
    if found is None:
        raise BadConfig(f"no MCP server is named {name!r}; there is {there_is}")
    if found.login is None or found.grant is not None or found.bearer_token:
        raise BadConfig(f"the MCP server {name!r} needs no login: it is a program, or the settings have its token")
    return found


async def _log_in(server: McpServer, arguments: argparse.Namespace) -> int:
    from ronda.tools.mcp.login import log_in

    return await log_in(server, Terminal(opens_browser=not arguments.no_browser), arguments.login_port)


class Terminal:
    """A person at a terminal, whose browser may be on another machine."""

    def __init__(self, *, opens_browser: bool) -> None:
        self._opens_browser = opens_browser

    def show(self, address: str) -> None:
        print(f"open this address in a browser:\n\n{address}\n", file=sys.stderr)
        print("if the browser is elsewhere, paste the address that it ends at (127.0.0.1) here", file=sys.stderr)
        sys.stderr.flush()
        if self._opens_browser:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(address)

    async def pasted(self) -> str:
        """Not in a thread: one that waits for a line would keep the program from ending."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            text = sys.stdin.readline()
            if not text:
                loop.remove_reader(sys.stdin)
            elif not line.done():
                line.set_result(text)

        try:
            loop.add_reader(sys.stdin, read)
        except (OSError, ValueError):  # a file, or nothing at all: nothing can be pasted
            return await line
        try:
            return await line
        finally:
            loop.remove_reader(sys.stdin)
