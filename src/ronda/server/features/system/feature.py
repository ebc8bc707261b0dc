"""GET /v1/system/info, GET and POST /v1/system/doctor; POST /v1/models/status, /unload, /reload (`model_states`).

The first two are mistral.rs's addresses. A doctor asks every feature (`Feature.doctor`); this one answers for what has no feature
of its own: the sandbox, the model, prices, the database and the disk.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.types import ASGIApp

from ronda._cores import count_cores
from ronda._extras import has_extra, install
from ronda._version import __version__
from ronda.core.prices import find_price
from ronda.providers.prices import is_known
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import OWN
from ronda.server.doors.own.readiness import Disk
from ronda.server.features.contract import Feature, Line, Services
from ronda.server.features.prices.settings import PriceSettings
from ronda.server.features.system.model_states import ModelStates
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Route
from ronda.server.services.models import examine_model
from ronda.wire.codec.json import encode

FRESH_FOR: Final = 5.0  # seconds for which nothing is looked at again: it starts programs, and the page may ask often


class System(Feature):
    name = "system"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = settings
        self._models, self._runs, self._catalog = services.models, services.runs, services.catalog
        self._others = services.answering.others
        self._disk = Disk(services.runs.journal, services.data_folder, settings.file_store)
        self._feature_names = services.feature_names
        self._ask_all = services.doctor
        self._states = ModelStates(services.models, services.catalog.audit, settings.max_body)
        self._clock = services.clock
        self._began = services.clock()
        self._looking = asyncio.Lock()
        self._found: list[Line] = []
        self._until = 0.0

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/v1/system/info", OWN, self.show_info, "read", right="operate"),
            Route("GET", "/v1/system/doctor", OWN, self.examine, "read", right="operate"),
            Route("POST", "/v1/system/doctor", OWN, self.examine, "read", right="operate"),
            *self._states.routes(),
        )

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.features.system.operations import OPERATIONS

        return OPERATIONS

    async def show_info(self, request: Incoming) -> ASGIApp:
        system = platform.uname()
        body: dict[str, Any] = {
            "object": "system.info",
            "version": __version__,
            "python": platform.python_version(),
            "os": {"name": system.system, "release": system.release, "machine": system.machine},
            "cpu": {"logical_cores": os.cpu_count(), "usable_cores": count_cores()},
            "memory": await asyncio.to_thread(_memory),
            "model": self._models.default.spec,
            "features": list(self._feature_names()),
            "uptime": self._clock() - self._began,
        }
        return Json(encode(body))

    async def examine(self, request: Incoming) -> ASGIApp:
        async with self._looking:
            if time.monotonic() >= self._until:
                self._found = await self._ask_all()
                self._until = time.monotonic() + FRESH_FOR
            lines = self._found
        status = "fails" if any(line.state == "fails" for line in lines) else "works"
        return Json(encode({"object": "system.doctor", "status": status, "checks": lines}))

    # ---- what has no feature of its own ------------------------------------------------------------------------------

    async def doctor(self) -> Sequence[Line]:
        from ronda.sandbox.doctor import examine_machine  # a sandbox is much to import

        return [*await examine_machine(), self._model(), self._prices(), await self._database(), await self._space()]

    def _model(self) -> Line:
        found = examine_model("model", self._models.default, self._models.missing_key)
        state = self._runs.host.model
        if found.state == "works" and state is not None and state.is_failing:
            return Line("model", "fails", f"{found.text}: its last call failed", "the server's log says why")
        return found

    def _prices(self) -> Line:
        return examine_prices(self._settings)

    async def _database(self) -> Line:
        kind = "in memory" if self._settings.data_dir == ":memory:" else "in the data folder"
        where = kind if self._settings.database is None else "in PostgreSQL"
        if self._others.reach is not None and self._others.reach.is_lost:
            return Line("database", "fails", f"it has not answered for {self._others.reach.seconds_away:.0f} seconds")
        if self._catalog.is_there:
            await self._catalog.read(lambda db: db.execute("SELECT 1").fetchall())
        return Line("database", "works", f"runs and what clients make are kept {where}")

    async def _space(self) -> Line:
        if (problem := await self._disk.problem()) is not None:
            return Line("disk", "fails", problem)
        return Line("disk", "works", "it takes files, and has room")


def examine_prices(settings: ServerConfig) -> Line:
    """Of the models of these settings, those whose calls have no known cost."""
    own = settings.part(PriceSettings).prices
    unknown = [
        spec
        for spec, base_url in settings.model_places
        if find_price(own, spec) is None and not is_known(spec, base_url)
    ]
    if not unknown:
        return Line("prices", "works", "the price of every model of these settings is known")
    helps = "give it under [prices] in the settings" if has_extra("prices") else install("prices")
    names = ", ".join([f"'{spec}'" for spec in unknown])
    return Line("prices", "partly", f"no price is known of {names}", helps)


def _memory() -> dict[str, int | None]:
    """In bytes; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line)
        return {
            "total_bytes": int(rows["MemTotal"].split()[0]) * 1024,
            "available_bytes": int(rows["MemAvailable"].split()[0]) * 1024,
        }
    except (OSError, KeyError, ValueError):
        return {"total_bytes": None, "available_bytes": None}
