"""POST /v1/runs: runs in our own words. They are queued as any that nobody waits for, and whoever asked is told their names.

Of several variants each is a run by itself: one that fails leaves the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle, islice

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import Event, RunFinished
from ronda.core.parts import SystemTurn, Turn
from ronda.core.run import rebuild
from ronda.core.transcript import join_turns
from ronda.errors import BadRequest, NotFound
from ronda.server.answering.groups import group_of, new_names, open_group
from ronda.server.answering.opening import Job, Opening
from ronda.server.answering.page_runs import PageRuns
from ronda.server.http.incoming import Incoming, Json
from ronda.server.services.background import Background
from ronda.server.services.models import Models
from ronda.server.services.run_rows import row_of_start
from ronda.server.services.runs import Runs
from ronda.wire.door_request import DoorRequest
from ronda.wire.json import encode
from ronda.wire.run_request import RunRequest, read_run_request


class RunStart:
    """`pages`: what has runs build pages, if anything does."""

    def __init__(
        self,
        opening: Opening,
        runs: Runs,
        models: Models,
        background: Background,
        pages: Callable[[], PageRuns | None],
        max_body: int,
    ) -> None:
        self._opening = opening
        self._runs = runs
        self._models = models
        self._background = background
        self._pages = pages
        self._max_body = max_body

    async def start_runs(self, incoming: Incoming) -> ASGIApp:
        request = await incoming.read(self._max_body, read_run_request)
        names = new_names(request.variants)
        jobs = await self._jobs(incoming, request, names)
        lives = await open_group(self._opening, incoming.owner, jobs, names)
        starts = [live.run.start for live in lives]
        await self._background.add(lives)
        body = {"object": "run_group", "id": group_of(starts[0]), "data": [row_of_start(start) for start in starts]}
        return Json(encode(body), 202)

    async def _jobs(self, incoming: Incoming, run_request: RunRequest, names: list[str]) -> list[Job]:
        owner = incoming.owner
        pages: PageRuns | None = self._pages()
        turns, files, parent = run_request.turns, run_request.files, None
        if run_request.parent is not None:
            before = await self._ended_run(run_request.parent, owner)
            parent = (run_request.parent, len(before))
            turns = _join_turns(before, turns)
            if files is None:
                files = None if pages is None else await pages.files_of(before)
        request = DoorRequest(model="", turns=turns, parent=parent, background=True, lingers=math.inf)
        if files is None:
            named = [(name, await self._models.find(name, owner)) for name in run_request.models or ("default",)]
            return [
                Job(replace(request, model=name), target) for name, target in islice(cycle(named), run_request.variants)
            ]
        if pages is None:
            raise BadRequest("this server builds no pages: ask without 'files'", param="files")
        targets = [await self._models.find(name, owner) for name in run_request.models]
        return await pages.jobs(incoming, request, files, names, targets)

    async def _ended_run(self, run: str, owner: str) -> list[Event]:
        events = await self._runs.read(run, owner)
        if not events:
            raise NotFound(
                f"the run '{run[:100]}' does not exist, or is not kept any more", param="parent", code="run_not_found"
            )
        if type(events[-1]) is not RunFinished:
            raise BadRequest(
                f"the run '{run}' is not over yet; go on with it when it is", param="parent", code="run_is_not_over"
            )
        return events


def _join_turns(before: list[Event], new: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Instructions of the new request go before those of the run."""
    run = rebuild(before)
    first = tuple([turn for turn in new if type(turn) is SystemTurn])
    rest = tuple([turn for turn in new if type(turn) is not SystemTurn])
    return (*first, *join_turns(run.turns, rest, run.results))
