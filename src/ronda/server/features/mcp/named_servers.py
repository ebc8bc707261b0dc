"""MCP servers that a request names → their tools, for this request only.

    with an address    one that the operator listed (--mcp-allow-url), and that has a public address: see `tools.fetch`
    without            one of the operator's own, by its name

What a request brings along (headers, tokens) goes to that address and nowhere else: no journal has it. So a run that goes on in
another process has lost these servers; one that goes on here finds them again, by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace
from yarl import URL

from ronda.core.plan import Origin
from ronda.core.taint import EGRESS, UNTRUSTED
from ronda.drive import Tool
from ronda.drive.offload import load
from ronda.errors import BadConfig, BadRequest
from ronda.server.features.mcp.settings import McpSettings
from ronda.server.services.toolbox import Brought
from ronda.wire.shared.capabilities import Need
from ronda.wire.shared.mcp_servers import ERRORS, NamedServer

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.tools.mcp.offers import McpTool, McpTools, ResourceTool
    from ronda.tools.mcp.servers import ServersPerLoop

_SLOW_IMPORTS: Final = (
    "ronda.tools.mcp.shared_connections",
    "ronda.tools.mcp.transports",
    "ronda.tools.mcp.offers",
    "anyio._backends._asyncio",
)
MAX_REMEMBERED: Final = 1_000  # runs whose servers are found again


class NamedServers:
    """The operator says which addresses requests may name, which of these may be private, and which way leads to them; `own`
    are the operator's servers."""

    def __init__(self, config: ServerConfig, own: ServersPerLoop | None) -> None:
        self._patterns = [_check_pattern(pattern) for pattern in config.part(McpSettings).mcp_allow_url]
        self._exceptions = config.fetch_allow
        self._proxy, self._ca_file = config.fetch_proxy, config.ca_file
        self._own = own
        self._handlers: dict[str, Mapping[str, Tool]] = {}  # by run

    def others(self, needs: Iterable[Need]) -> list[Need]:
        """The needs that are not met here. Raises BadRequest for a server that must not be named."""
        needs = list(needs)
        known = [need for need in needs if self._is_known(need)]
        # A choice of what MCP servers have names none of them.
        return [
            need
            for need in needs
            if need not in known and not (known and need.server is None and need.hosted.capability == "mcp")
        ]

    def has(self, need: Need) -> bool:
        """Whether what a need names is one of the operator's, or at an address that requests may name here. Raises BadRequest
        for an address that the operator has not allowed besides others."""
        server = need.server
        if server is not None and not server.url:
            return self._own is not None and server.configured in [one.name for one in self._own.configs]
        return self._is_known(need)

    def _is_known(self, need: Need) -> bool:
        """False where nothing of the kind is to be had."""
        server = need.server
        if server is None:
            return False
        place = need.path.removesuffix(".type")
        if not server.url:
            names = [] if self._own is None else [one.name for one in self._own.configs]
            if server.configured in names:
                if server.token is not None or server.headers:
                    raise BadRequest(
                        f"'{place}' names the operator's MCP server '{server.configured}', which has its own credentials; "
                        "leave out those of the request",
                        param=place,
                    )
                return True
            if not names:
                return False
            raise BadRequest(
                f"'{place}' names the MCP server '{server.configured[:100]}', which this server does not have; "
                f"there is {', '.join(names)}",
                param=place,
            )
        if not self._patterns:
            return False
        url = _normal(server.url)
        if url is None:
            raise BadRequest(f"'{place}': the address of an MCP server must be http or https, with a host", param=place)
        if not any(fnmatchcase(url, pattern) for pattern in self._patterns):
            raise BadRequest(
                f"'{place}': the operator of this server has not allowed MCP servers at this address (--mcp-allow-url)",
                param=place,
            )
        return True

    async def tools(self, owner: str, needs: Iterable[Need]) -> Brought:
        found: list[tuple[NamedServer, McpTool | ResourceTool]] = []
        errors: dict[str, str] = {}
        hidden: set[str] = set()
        for server in [need.server for need in needs if need.server is not None and self._is_known(need)]:
            offered, errors[server.label] = await (
                self._reached(server, owner) if server.url else self._configured(server)
            )
            for tool in offered:
                if server.allows(tool.tool, is_read_only=tool.is_read_only):
                    found.append((server, tool))
                else:
                    hidden.add(tool.spec.name)
        tools: list[Tool] = []
        stand_ins: dict[str, tuple[str, ...]] = {}
        for server, tool in found:
            approval = tool.spec.approval
            is_named = tool.spec.name in (server.always_asks.names or ())  # by the name that it has here
            if approval == "auto" and (is_named or server.asks(tool.tool, is_read_only=tool.is_read_only)):
                approval = "ask"
            named = copy(tool)  # the others are as they were
            deferred = server.deferred.fits(tool.tool, is_read_only=tool.is_read_only)
            origin = Origin(server.label, tool.tool)
            named.spec = replace(tool.spec, approval=approval, origin=origin, deferred=deferred)
            tools.append(named)
            for called in ("hosted:mcp", f"hosted:mcp/{server.label}", f"hosted:mcp/{server.label}/{tool.tool}"):
                stand_ins[called] = (*stand_ins.get(called, ()), tool.spec.name)
        problems = {label: problem for label, problem in errors.items() if problem}
        about = {ERRORS: Raw(msgspec.json.encode(problems))} if problems else {}
        return Brought(tuple(tools), frozenset(hidden), stand_ins, about)

    async def _configured(self, named: NamedServer) -> tuple[McpTools, str]:
        """As the operator has it: who may call what is the operator's to say."""
        assert self._own is not None
        own = self._own.here()
        await own.ready()
        connection = own.connection(named.configured)
        assert connection is not None
        return tuple(own.tools(named.configured)), "" if connection.tools else connection.last_error

    async def _reached(self, named: NamedServer, owner: str) -> tuple[McpTools, str]:
        await load(*_SLOW_IMPORTS)
        from ronda.tools.mcp.config import Http, McpServer, Sse, slug
        from ronda.tools.mcp.offers import offered_tools
        from ronda.tools.mcp.shared_connections import shared_connection

        kind = Sse if URL(named.url).path.rstrip("/").endswith("/sse") else Http
        server = McpServer(
            name=named.label,
            source=kind(named.url, dict(named.headers)),
            prefix=slug(named.label) or None,
            bearer_token=named.token,
            public_only=True,
            exceptions=self._exceptions,
            proxy=self._proxy,
            ca_file=self._ca_file,
            labels=(UNTRUSTED, EGRESS),
        )
        connection = await shared_connection(server, scope=owner)
        return offered_tools([(server, connection)]), "" if connection.tools else connection.last_error

    def remember(self, run: str, tools: Mapping[str, Tool]) -> None:
        """Those that a request named, for when the run goes on here."""
        named = {name: tool for name, tool in tools.items() if tool.spec.origin is not None}
        if not named:
            return
        self._handlers[run] = named
        while len(self._handlers) > MAX_REMEMBERED:
            del self._handlers[next(iter(self._handlers))]

    def of_run(self, run: str) -> Mapping[str, Tool]:
        return self._handlers.get(run, {})


def _check_pattern(pattern: str) -> str:
    """`https://mcp.example.com` is all that is there; `https://*.example.com/*` all below that name."""
    scheme, found, rest = pattern.partition("://")
    if not found or scheme not in ("http", "https") or not rest or "@" in rest:
        raise BadConfig(
            f"--mcp-allow-url is {pattern!r}; it must be like https://mcp.example.com or https://*.example.com/mcp"
        )
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.lower()}/{path}" if slash and path else f"{scheme}://{host.lower()}/*"


def _normal(address: str) -> str | None:
    """As patterns are compared with it: no user, no query, no dots that lead elsewhere, no port that goes without saying."""
    try:
        url = URL(address)
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not url.host or url.user is not None or len(address) > 2048:
        return None
    port = "" if url.is_default_port() else f":{url.port}"
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{port}{url.path or '/'}"
