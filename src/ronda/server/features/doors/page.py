"""The web page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.server.doors.dialects import OWN
from ronda.server.doors.page.route import PageDoor
from ronda.server.features.code.settings import CodeSettings
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door
from ronda.server.features.web.settings import WebSettings
from ronda.server.http.routing import Route

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.http.operations import Operation


class Page(Door):
    name = "page"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        code, web = settings.part(CodeSettings), settings.part(WebSettings)
        abilities = {
            "python": code.enable_code_execution,
            "shell": code.enable_shell,
            "search": web.enable_search,
            "search_always": web.enable_search and web.search_mode == "always",
        }
        self._door = PageDoor(services.settings, services.catalog, services.toolbox, services.feature_names, abilities)

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.doors.page.operations import OPERATIONS

        return OPERATIONS

    def routes(self) -> Sequence[Route]:
        door = self._door
        return (
            Route("GET", "/", OWN, door.front, "public", needs_store=False),
            Route("GET", "/ui", OWN, door.page, "public", needs_store=False),
            Route("GET", "/ui/frame", OWN, door.frame, "public", needs_store=False),
            Route("GET", "/ui/server", OWN, door.describe, "read"),
            Route("GET", "/ui/{path:path}", OWN, door.page, "public", needs_store=False),
        )
