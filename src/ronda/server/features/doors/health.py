"""How a server fares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ronda.server.doors.dialects import OWN
from ronda.server.doors.own.readiness import Disk, ReadinessDoor
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door
from ronda.server.http.routing import Route

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


class Health(Door):
    name = "health"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        disk = Disk(services.runs.journal, services.data_folder, settings.file_store)
        self.readiness = ReadinessDoor(services.runs, services.models, services.answering.others, disk)

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/health", OWN, self.readiness.health, "public", needs_store=False),
            Route("GET", "/ready", OWN, self.readiness.ready, "public", needs_store=False),
        )
