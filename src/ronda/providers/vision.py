"""A provider for models that cannot see: it is never sent an image. Which models those are is known to `services`."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import structs

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.drive.provider import CallMany, Project
from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.vision import Unseen

_SCRATCH: Final = "unseen"


class TextOnly:
    """Any provider, for a model that cannot see. All else about it is the provider's own."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @property
    def capabilities(self) -> Capabilities:
        able = capabilities_of(self._provider)
        call_many = able.call_many and partial(_call_many, able.call_many)
        return structs.replace(able, call_many=call_many, project=partial(_project, able.project))

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        unseen = _unseen(request)
        shown = structs.replace(request, turns=unseen.turns(request.turns))
        return _with_warning(await self._provider.call(shown, show), unseen)


async def _call_many(call_many: CallMany, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
    unseen = _unseen(request)
    finished = await call_many(structs.replace(request, turns=unseen.turns(request.turns)), shows)
    return [_with_warning(finished[0], unseen), *finished[1:]]


def _project(project: Project | None, request: ModelRequest) -> Projection:
    """A model without a wire is sent nothing."""
    unseen = _unseen(request)
    shown = structs.replace(request, turns=unseen.turns(request.turns))
    made = Projection(b"null") if project is None else project(shown)
    return structs.replace(made, changes=(*unseen.changes.found, *made.changes))


def _unseen(request: ModelRequest) -> Unseen:
    unseen = request.scratch.get(_SCRATCH)
    if not isinstance(unseen, Unseen):
        unseen = request.scratch[_SCRATCH] = Unseen()
    return unseen


def _with_warning(finished: ModelFinished, unseen: Unseen) -> ModelFinished:
    if not unseen.changes.found:
        return finished
    return structs.replace(finished, warnings=(*unseen.changes.warnings, *finished.warnings))
