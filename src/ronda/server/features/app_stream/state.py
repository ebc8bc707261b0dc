"""What the app stream has on one server. It is made with the first request: most servers never see an app."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ronda.journal import Journal
from ronda.server.features.app_stream.design_systems import DesignSystems
from ronda.server.features.app_stream.models import AppModels
from ronda.server.features.app_stream.settings import AppSettings
from ronda.server.services.models import Models
from ronda.tools.page import PageServices, open_page_services

if TYPE_CHECKING:
    from ronda.server.answering.exchange import Answering
    from ronda.server.config import ServerConfig


class AppState:
    def __init__(
        self,
        settings: ServerConfig,
        models: Models,
        journal: Journal,
        answering: Answering,
        data_folder: Path | None,
    ) -> None:
        self.settings = settings
        self.own = settings.part(AppSettings)
        self.models = AppModels(settings, models)
        self.journal = journal
        self.answering = answering
        self._data_folder = data_folder

    @cached_property
    def services(self) -> PageServices:
        settings = self.settings
        return open_page_services(
            self._data_folder,
            images=self.own.images,
            page=self.own.page,
            fetch_allow=settings.fetch_allow,
            routes=settings.fetch_routes,
        )

    @cached_property
    def design_systems(self) -> DesignSystems:
        return DesignSystems(self._data_folder)

    async def close(self) -> None:
        if "services" in self.__dict__:
            await self.services.close()
