"""POST /v1/models/status, /unload, /reload: whether a model is in this machine's memory, as mistral.rs's clients ask it.

As with mistral.rs the answer is always 200, and its `status` says what became of it: `loaded`, `unloaded`, `not_found`,
`no_loader_config` (the model runs elsewhere) or `internal_error`. What mistral.rs has and Ronda has not is refused by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp

from ronda.drive import Capabilities, capabilities_of
from ronda.errors import BadRequest, NotFound, RondaError
from ronda.server.doors.dialects import MODELS
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.rights import check_right
from ronda.server.http.routing import Route
from ronda.server.services.acting import note_act
from ronda.server.services.models import Models
from ronda.store.audit import Audit
from ronda.wire.codec.json import encode
from ronda.wire.shared.fields import field, read_fields

Status: TypeAlias = Literal["loaded", "unloaded", "not_found", "no_loader_config", "internal_error"]

# Addresses of mistral.rs whose work no part of Ronda does.
_REFUSED: Final = {
    "/v1/models/tune": "this server quantizes no models; name a file that is: --model local:FILE.gguf",
    "/v1/images/generations": "this server's models answer with text; a page that is built here may have pictures (docs: app)",
    "/v1/audio/speech": "this server's models answer with text",
}


class ModelState(Struct, frozen=True, omit_defaults=True):
    model_id: str
    status: Status
    error: str | None = None


def _read_name(body: bytes) -> str:
    fields = read_fields(body)
    name: str = field(fields, "model_id", str, "")
    if not name:
        raise BadRequest("'model_id' says which model; it is missing", param="model_id")
    return name


class ModelStates:
    def __init__(self, models: Models, audit: Audit, max_body: int) -> None:
        self._models = models
        self._audit = audit
        self._max_body = max_body

    def routes(self) -> Sequence[Route]:
        return (
            Route("POST", "/v1/models/status", MODELS, self.tell, "read"),
            Route("POST", "/v1/models/unload", MODELS, self.unload, "write"),
            Route("POST", "/v1/models/reload", MODELS, self.reload, "write"),
            *[Route("POST", path, MODELS, _refuse, "read", needs_store=False) for path in _REFUSED],
        )

    async def tell(self, request: Incoming) -> ASGIApp:
        name, able = await self._find(request)
        if able is None:
            return _answer(_not_found(name))
        is_loaded = able.is_loaded is None or able.is_loaded()  # one that runs elsewhere is there at any time
        return _answer(ModelState(name, "loaded" if is_loaded else "unloaded"))

    async def unload(self, request: Incoming) -> ASGIApp:
        name, able = await self._find(request)
        self._check_may(request)
        if able is None:
            return _answer(_not_found(name))
        if able.unload is None:
            return _answer(_elsewhere(name))
        await note_act(self._audit, request, "model.unload", name)
        if await asyncio.to_thread(able.unload):
            return _answer(ModelState(name, "unloaded"))
        return _answer(ModelState(name, "loaded", "it answers requests now; ask again when they are over"))

    async def reload(self, request: Incoming) -> ASGIApp:
        """Wait until the model is in memory; with the next request it would be, too."""
        name, able = await self._find(request)
        self._check_may(request)
        if able is None:
            return _answer(_not_found(name))
        if able.load is None:
            return _answer(_elsewhere(name))
        await note_act(self._audit, request, "model.reload", name)
        try:
            await able.load()
        except RondaError as error:
            return _answer(ModelState(name, "internal_error", error.public))
        return _answer(ModelState(name, "loaded"))

    async def _find(self, request: Incoming) -> tuple[str, Capabilities | None]:
        """The model that is named, and what it can; None: there is none of that name."""
        name = await request.read(self._max_body, _read_name)
        try:
            target = await self._models.find(name, request.owner)
        except NotFound:
            return name, None
        return name, capabilities_of(target.provider)

    def _check_may(self, request: Incoming) -> None:
        """It concerns all owners. On a server without keys there is one."""
        if request.key or request.owner or request.rights is not None:
            check_right(request, "operate:write")


async def _refuse(request: Incoming) -> ASGIApp:
    assert request.route is not None
    path = request.route.path
    raise NotFound(f"{path} is not served here: {_REFUSED[path]}", code="not_supported")


def _not_found(name: str) -> ModelState:
    return ModelState(name, "not_found", "there is no such model here; GET /v1/models lists those there are")


def _elsewhere(name: str) -> ModelState:
    return ModelState(name, "no_loader_config", "it runs elsewhere: this server neither loads nor unloads it")


def _answer(state: ModelState) -> ASGIApp:
    return Json(encode(msgspec.to_builtins(state)))
