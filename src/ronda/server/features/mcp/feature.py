"""MCP servers, as a feature: `named_servers` are those of requests, `tools.mcp` connects to all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.core.events import Event, RunStarted
from ronda.drive import Tool
from ronda.server.features.contract import Ask, Brought, Feature, Figure, Services
from ronda.server.features.mcp.named_servers import NamedServers
from ronda.server.services.hosted_tools import ServerNames
from ronda.tools.mcp.config import McpServer, through_proxy
from ronda.tools.mcp.servers import ServersPerLoop, check_package
from ronda.wire.capabilities import Need

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


class Mcp(Feature):
    name = "mcp"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        check_package()
        given: Sequence[McpServer] = services.given.get("mcp", ())
        proxied = [through_proxy(one, settings.fetch_proxy, settings.ca_file) for one in given]
        self._servers = ServersPerLoop(proxied, set(services.tool_names)) if proxied else None
        self._named = NamedServers(settings, self._servers)
        self.is_steady = self._servers is None  # else tools come and go

    def provides(self) -> Mapping[type, object]:
        return {ServerNames: self._named} | ({} if self._servers is None else {ServersPerLoop: self._servers})

    def standing_tools(self) -> Sequence[Tool]:
        return () if self._servers is None else self._servers.here().all_tools()

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

    def opened(self, start: RunStarted, tools: Mapping[str, Tool]) -> None:
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

    def begin(self) -> None:
        if self._servers is not None:
            self._servers.here().open()

    async def stop(self) -> None:
        if self._servers is not None:
            await self._servers.here().close()
