"""Who does what a request asks of a service, where the model is that service's own and speaks the dialect of the request.

this server     what it has
the service     what this server lacks
neither         what the rules of the operator, or of the request, are against. The service runs such calls itself: no person
                here could deny one, or ask a person about it, so that the request is refused
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ronda.core.permissions import unseen_approval
from ronda.core.plan import Approval, PermissionRule
from ronda.drive import Tool, capabilities_of
from ronda.errors import BadRequest
from ronda.wire.shared.capabilities import Need

if TYPE_CHECKING:
    from ronda.server.services.models import Target
    from ronda.server.services.toolbox import Toolbox
    from ronda.tools.mcp.servers import ServerStatus

_WHY: Final[dict[Approval, str]] = {
    "deny": "it is denied here (--agent-permission, or a rule for it)",
    "ask": "a person has to approve each call here (--agent-permission, or a rule for it), and the model's own service would "
    "not ask",
}


class ServerNames(Protocol):
    """Knows the MCP servers that a request may name here."""

    def has(self, need: Need) -> bool: ...


class ConnectedServers(Protocol):
    def status(self) -> Sequence[ServerStatus]: ...

    def all_tools(self) -> Sequence[Tool]: ...


class OperatorServers(Protocol):
    """The MCP servers that the operator has named."""

    def here(self) -> ConnectedServers:
        """As the event loop of now is connected to them."""


def needs_met_here(
    toolbox: Toolbox,
    servers: ServerNames | None,
    target: Target,
    needs: Sequence[Need],
    rules: Sequence[PermissionRule],
) -> tuple[Need, ...]:
    """Those of the needs that this server meets; the others are for the service. Raises BadRequest for what must not be.

    What the caller can do without it does without, where the service is not known to have such tools.
    """
    has_tools = capabilities_of(target.provider).hosts_tools
    here = [
        need
        for need in needs
        if not need.runs_nothing and (_is_here(toolbox, servers, target, need) or (need.is_optional and not has_tools))
    ]
    for need in needs:
        if need.runs_nothing or need in here:
            continue
        mode = unseen_approval(rules, need.tool_names)
        if mode != "auto":
            raise BadRequest(f"'{need.name}' cannot be used here: {_WHY[mode]}", param=need.path)
    return tuple(here)


def _is_here(toolbox: Toolbox, servers: ServerNames | None, target: Target, need: Need) -> bool:
    if need.server is not None:
        return servers is not None and servers.has(need)
    return bool(toolbox.tools_for(need, target.tools))
