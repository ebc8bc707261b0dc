"""The app stream, as the server knows it. Light: every server has it, and most never see an app."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda._extras import has_extra, install
from ronda.core.events import Event, RunStarted
from ronda.drive.offload import load
from ronda.host.host import LAST_SECONDS
from ronda.providers import split_spec
from ronda.server.answering.opening import Job
from ronda.server.answering.page_runs import PageRuns
from ronda.server.features.app_stream.page import builds_page
from ronda.server.features.app_stream.routes import app_routes
from ronda.server.features.app_stream.settings import AppSettings
from ronda.server.features.contract import Feature, Finding, Line, Reopening, Services
from ronda.server.http.incoming import Incoming
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Handler, Route
from ronda.server.services.models import Target
from ronda.wire.own.run_request import MAX_VARIANTS
from ronda.wire.shared.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.features.app_stream.state import AppState


class AppStream(Feature):
    name = "app_stream"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        own = settings.part(AppSettings)
        for model in own.app.named:
            split_spec(model.model)
        if own.app.variants is not None and not 1 <= own.app.variants <= MAX_VARIANTS:
            yield Finding(f"[app] variants is {own.app.variants}; it can be 1 to {MAX_VARIANTS}")
        if own.images or own.page:
            from ronda.tools.page import open_page_services  # most servers have neither

            open_page_services(None, images=own.images, page=own.page, fetch_allow=settings.fetch_allow)

    @classmethod
    def owned_folders(cls, data_folder: Path, owner: str) -> Sequence[Path]:
        from ronda.server.features.app_stream.design_systems import folder_of

        return [folder_of(data_folder, owner)]

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = settings
        self._models = services.models
        self._runs = services.runs
        self._answering = services.answering
        self._data_folder = services.data_folder
        self._connections: set[asyncio.Task[None]] = set()

    @cached_property
    def _state(self) -> AppState:
        """Made with the first request."""
        from ronda.server.features.app_stream.state import AppState

        return AppState(self._settings, self._models, self._runs.journal, self._answering, self._data_folder)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def routes(self) -> Sequence[Route]:
        return app_routes(self._generate_code, self._http_route)

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.features.app_stream.operations import OPERATIONS

        return OPERATIONS

    def _http_route(self, name: str) -> Handler:
        return partial(self._answer, name)

    async def _answer(self, name: str, incoming: Incoming) -> ASGIApp:
        from ronda.server.features.app_stream import http_routes

        answer: ASGIApp = await getattr(http_routes, name)(self._state, incoming)
        return answer

    async def _generate_code(self, incoming: Incoming) -> ASGIApp:
        from ronda.server.features.app_stream.socket import Connection

        async def connection(scope: Scope, receive: Receive, send: Send) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await Connection(self._state, incoming, receive, send).run()
            finally:
                self._connections.discard(task)

        return connection

    # ---- runs that build pages (`PageRuns`) ----------------------------------------------------------------------------

    def provides(self) -> Mapping[type, object]:
        return {PageRuns: self}

    async def files_of(self, events: Sequence[Event]) -> dict[str, str] | None:
        start = events[0] if events else None
        if type(start) is not RunStarted or not builds_page(start):
            return None
        await _load()
        from ronda.server.features.app_stream.variants import project_of

        project = project_of(events)
        return None if project is None else project.files

    async def jobs(
        self,
        incoming: Incoming,
        request: DoorRequest,
        files: dict[str, str],
        names: Sequence[str],
        targets: Sequence[Target],
    ) -> list[Job]:
        await _load()
        from ronda.server.features.app_stream.page import Page
        from ronda.server.features.app_stream.variants import page_job, public_address

        chosen = list(islice(cycle(targets), len(names))) if targets else await self._state.models.choose(len(names))
        page = Page(
            files=files,
            main=_main(files),
            siblings=tuple(names) if len(names) > 1 else (),
            base_url=public_address(self._settings.part(AppSettings).app.public_url, incoming),
        )
        return [page_job(self._state, request, target, page, variant) for variant, target in enumerate(chosen)]

    async def reopen(self, start: RunStarted, events: Sequence[Event]) -> Reopening | None:
        if not builds_page(start):
            return None
        await _load()
        from ronda.server.features.app_stream.variants import reopen_page

        return await reopen_page(self._state, start, events)

    async def doctor(self) -> Sequence[Line]:
        if not has_extra("page"):
            return [Line("page", "missing", "pages cannot be built, nor pictures of them taken", install("page"))]
        await load("ronda.tools.page.doctor")
        from ronda.tools.page.doctor import examine_page

        return await asyncio.to_thread(examine_page)

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def runs_ended(self) -> None:
        """Sockets say so and close by themselves: a close of the server's own would make the front end throw away what was
        complete."""
        if self._connections:
            await asyncio.wait(self._connections, timeout=LAST_SECONDS)

    async def stop(self) -> None:
        if "_state" in self.__dict__:
            await self._state.close()


async def _load() -> None:
    island = "ronda.server.features.app_stream"
    await load(f"{island}.variants", f"{island}.state")


def _main(files: Mapping[str, str]) -> str:
    pages = [path for path in files if path.endswith((".html", ".htm"))]
    return "index.html" if "index.html" in files or not pages else pages[0]
