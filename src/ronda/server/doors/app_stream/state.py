"""What the app stream has on one server. It is made when somebody first comes: most servers never see an app."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from ronda.host.host import LAST_SECONDS
from ronda.server.doors.app_stream.design_systems import DesignSystems
from ronda.server.doors.app_stream.models import AppModels
from ronda.tools.page import PageServices, open_page_services

if TYPE_CHECKING:
    from ronda.server.app import Server


class AppStream:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.models = AppModels(server)
        self.connections: set[asyncio.Task[None]] = set()

    @cached_property
    def services(self) -> PageServices:
        config = self._server.config
        return open_page_services(
            self._server.data_folder, images=config.images, page=config.page, fetch_allow=config.fetch_allow
        )

    @cached_property
    def design_systems(self) -> DesignSystems:
        return DesignSystems(self._server.data_folder)

    async def last_words(self) -> None:
        """When all runs are stopped, sockets say so and close by themselves: a close of the server's own would make the front
        end throw away what was complete."""
        if self.connections:
            await asyncio.wait(self.connections, timeout=LAST_SECONDS)

    async def close(self) -> None:
        if "services" in self.__dict__:
            await self.services.close()
