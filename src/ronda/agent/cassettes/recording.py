"""A run that is written down while it is driven: to be played again with `ronda replay`, or in a test."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ronda.agent.cassettes.cassette import CassetteWriter, Failed
from ronda.core.events import PREVIEWS, Event, ModelFinished, Preview, RunFinished
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import BadRequest, UpstreamError


class Recorder:
    """Stands between a run and its model, and is told about everything that happens."""

    def __init__(self, path: str | os.PathLike[str], run: Run, provider: Provider) -> None:
        self._cassette = CassetteWriter.at(path, run.start)
        self._provider = provider
        self.capabilities: Capabilities = capabilities_of(provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        cassette = self._cassette
        cassette.request(request.round, request.attempt, tuple(request.turns), request.choice)

        def shown(previews: list[Preview]) -> bool | None:
            cassette.show(previews)
            return show(previews)

        try:
            finished = await self._provider.call(request, shown)
        except (UpstreamError, BadRequest) as error:
            cassette.answer(Failed.of(error))
            raise
        cassette.answer(finished)
        return finished

    def take(self, batch: Sequence[Event]) -> None:
        if type(batch[0]) not in PREVIEWS:
            self._cassette.record_facts(batch)
            if type(batch[-1]) is RunFinished:
                self._cassette.close()
