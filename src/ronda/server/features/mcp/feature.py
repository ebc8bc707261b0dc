"""MCP servers, as a feature: `named_servers` are those of requests, `tools.mcp` connects to all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.core.events import Event, RunStarted
from ronda.drive import Tool
from ronda.server.features.contract import Ask, Brought, Feature, Figure, Folders, Line, Services
from ronda.server.features.mcp.named_servers import NamedServers
from ronda.server.features.mcp.read_servers import servers_of
from ronda.server.services.hosted_tools import OperatorServers, ServerNames
from ronda.tools.mcp.config import McpServer, through_proxy
from ronda.tools.mcp.servers import ServersPerLoop, ServerStatus, check_package
from ronda.wire.shared.capabilities import Need

if TYPE_CHECKING:
    from ronda.prompty.registry import Lent
    from ronda.server.config import ServerConfig


class Mcp(Feature):
    name = "mcp"

    @classmethod
    def prepare(cls, settings: ServerConfig, folders: Folders) -> Sequence[McpServer]:
        return servers_of(settings, folders.data or folders.state)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        check_package()
        given: Sequence[McpServer] = services.given[self.name] or ()
        proxied = [through_proxy(one, settings.fetch_proxy, settings.ca_file) for one in given]
        self._servers = ServersPerLoop(proxied, set(services.tool_names())) if proxied else None
        self._named = NamedServers(settings, self._servers)
        self.is_steady = self._servers is None  # else tools come and go

    def provides(self) -> Mapping[type, object]:
        return {ServerNames: self._named} | ({} if self._servers is None else {OperatorServers: self._servers})

    def standing_tools(self) -> Sequence[Tool]:
        return () if self._servers is None else self._servers.here().all_tools()

    def lend(self, lent: Lent, owner: str) -> None:
        if self._servers is not None:
            lent.mcp = self._servers.here()

    def startup_lines(self) -> Sequence[str]:
        if self._servers is None:
            return ()
        names = ", ".join([f"{one.name} ({one.transport})" for one in self._servers.configs if one.enabled])
        return [f"MCP servers: {names or 'none that is enabled'} (GET /v1/mcp shows the status of each)"]

    async def ready(self) -> None:
        """Wait for servers that are being connected to for the first time."""
        if self._servers is not None:
            await self._servers.here().ready()

    def others(self, needs: Sequence[Need]) -> Sequence[Need]:
        return self._named.others(needs)

    async def tools(self, ask: Ask) -> Brought | None:
        if not ask.needs or all(need.server is None for need in ask.needs):
            return None
        return await self._named.tools(ask.owner, ask.needs)

    def run_began(self, start: RunStarted, tools: Mapping[str, Tool]) -> None:
        if tools:
            self._named.remember(start.run, tools)

    async def reopen_tools(self, start: RunStarted, events: Sequence[Event]) -> Mapping[str, Tool]:
        return self._named.of_run(start.run)

    def figures(self) -> Iterable[Figure]:
        for one in () if self._servers is None else self._servers.here().status():
            labels = {"server": one.name}
            yield Figure(
                "ronda_mcp_server_up", one.state == "connected", labels, help="1 for an MCP server that is connected."
            )
            yield Figure("ronda_mcp_server_tools", one.tools, labels, help="Tools that an MCP server has.")

    async def doctor(self) -> Sequence[Line]:
        if self._servers is None:
            return ()
        servers = self._servers.here()
        await servers.ready()
        return [_line(one) for one in servers.status()]

    def begin(self) -> None:
        if self._servers is not None:
            self._servers.here().open()

    async def stop(self) -> None:
        if self._servers is not None:
            await self._servers.here().close()


def _line(one: ServerStatus) -> Line:
    name = f"mcp {one.name}"
    if one.state == "disabled":
        return Line(name, "missing", "it is disabled in its configuration")
    if one.state == "connected":
        return Line(name, "works", f"connected over {one.transport}, {one.tools} tools")
    return Line(name, "fails", f"{one.state}: {one.last_error or 'it has not answered'}")
