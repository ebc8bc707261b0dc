"""What a server has: models, tools, MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ronda.server.doors.dialects import MODELS, OWN
from ronda.server.doors.own.listing import ListingDoor
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door
from ronda.server.http.routing import Route
from ronda.server.services.agents import AgentFolder
from ronda.server.services.hosted_tools import OperatorServers

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


class Listing(Door):
    name = "listing"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        provided = services.provided
        self._door = ListingDoor(
            services.models, services.toolbox, lambda: provided(AgentFolder), lambda: provided(OperatorServers)
        )

    def routes(self) -> Sequence[Route]:
        door = self._door
        return (
            Route("GET", "/v1/models", MODELS, door.list_models, "read"),
            Route("GET", "/v1/models/{name:path}", MODELS, door.get_model, "read"),
            Route("GET", "/v1/tools", OWN, door.list_tools, "read"),
            Route("GET", "/v1/mcp", OWN, door.list_mcp_servers, "read"),
        )
