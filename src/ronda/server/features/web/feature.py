"""The web, as a feature: `web_search` says what is offered to which request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.core.events import Event, RunStarted
from ronda.drive import Tool
from ronda.providers.http.reachable import why_not_reached
from ronda.server.features.contract import Ask, Brought, Feature, Line, Services
from ronda.server.features.web.settings import WebSettings
from ronda.server.features.web.web_search import open_web_search
from ronda.tools.search.settings import address_of, destination, read_settings
from ronda.wire.shared.capabilities import Need

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


class Web(Feature):
    name = "web"
    is_steady = False  # what is found in a conversation is numbered on in it

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = settings.part(WebSettings)
        self._config = settings
        self._callback = services.given[self.name]
        self._web = open_web_search(settings, self._callback)
        self.tool_names = () if self._web is None else self._web.names

    def names_for(self, need: Need) -> tuple[str, ...]:
        return () if self._web is None else self._web.names_for(need)

    async def tools(self, ask: Ask) -> Brought | None:
        if self._web is None or ask.choice.mode == "none":
            return None
        web = self._web.choose(ask.needs, unasked=not ask.exclusive)
        if web is None:
            return None
        return Brought(tuple(self._web.tools(web, ask.turns)), about=self._web.about(web), is_own=True)

    async def reopen_tools(self, start: RunStarted, events: Sequence[Event]) -> Mapping[str, Tool]:
        return {} if self._web is None else {tool.spec.name: tool for tool in self._web.reopen(start, events)}

    def startup_lines(self) -> Sequence[str]:
        if self._web is None:
            return ()
        always = self._settings.search_mode == "always"
        who = "every request is offered a search" if always else "requests may ask for a search"
        host = destination(read_settings(self._settings.search).backend)
        where = f"queries go to {host}" if host is not None else "queries stay on this machine"
        return [f"{who}; {where} ([search] in the settings file chooses what is searched)"]

    async def doctor(self) -> Sequence[Line]:
        if self._web is None:
            return ()
        if self._callback is not None:
            return [Line("search", "works", "a function of the program's own searches")]
        backend = read_settings(self._settings.search).backend
        if (address := address_of(backend)) is None:
            return [Line("search", "works", "queries stay on this machine")]
        if (problem := await why_not_reached(address, self._config.fetch_routes)) is not None:
            return [Line("search", "fails", problem, "[search] in the settings file chooses what is searched")]
        return [Line("search", "works", f"{destination(backend)} takes connections")]

    async def stop(self) -> None:
        if self._web is not None:
            await self._web.close()
