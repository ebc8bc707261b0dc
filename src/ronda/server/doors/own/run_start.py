"""POST /v1/runs: runs in our own words. They are queued as all runs without a waiting client, and the client is told their names.

Of several variants each is a run by itself: one that fails leaves the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle, islice

from msgspec import Struct
from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import Event, RunFinished
from ronda.core.parts import SystemTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.core.transcript import join_turns
from ronda.errors import BadRequest, NotFound
from ronda.journal.siblings import group_name, group_of
from ronda.server.answering.exchange import Answering, Exchange
from ronda.server.answering.opening import Group, Job
from ronda.server.answering.page_runs import PageRuns
from ronda.server.doors.chat import chat_error
from ronda.server.http.incoming import Header, Incoming
from ronda.server.services.models import Models
from ronda.server.services.run_rows import row_of_start
from ronda.server.services.runs import new_id
from ronda.wire.codec.json import encode
from ronda.wire.own.run_request import RunRequest, read_run_request
from ronda.wire.shared.door_request import DoorRequest


class _StartedRuns(Struct, frozen=True):
    """Where runs are found that were started together."""

    names: Sequence[str]

    def location(self, run: str) -> Header:
        path = f"/v1/runs/{run}" if len(self.names) == 1 else f"/v1/runs?group={group_name(run)}"
        return b"location", path.encode()

    def later(self, writer: None, runs: Sequence[Run], position: int | None) -> bytes:
        starts = [run.start for run in runs]
        return encode(
            {"object": "run_group", "id": group_of(starts[0]), "data": [row_of_start(start) for start in starts]}
        )


class RunStart:
    """`pages`: what has runs build pages, if anything does."""

    def __init__(
        self, answering: Answering, models: Models, pages: Callable[[], PageRuns | None], max_body: int
    ) -> None:
        self._answering = answering
        self._runs = answering.runs
        self._models = models
        self._pages = pages
        self._max_body = max_body

    async def start_runs(self, incoming: Incoming) -> ASGIApp:
        request = await incoming.read(self._max_body, read_run_request)
        names = [new_id("run") for _ in range(request.variants)]
        group = Group(await self._jobs(incoming, request, names), names)
        return await Exchange(self._answering, incoming, group, None, chat_error, door=_StartedRuns(names)).answer()

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
        request = DoorRequest(
            model="",
            turns=turns,
            parent=parent,
            background=True,
            lingers=math.inf,
            disabled_tools=run_request.disabled_tools,
        )
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
                f"the run '{run}' is not over yet; continue it when it is", param="parent", code="run_is_not_over"
            )
        return events


def _join_turns(before: list[Event], new: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Instructions of the new request go before those of the run."""
    run = rebuild(before)
    first = tuple([turn for turn in new if type(turn) is SystemTurn])
    rest = tuple([turn for turn in new if type(turn) is not SystemTurn])
    return (*first, *join_turns(run.turns, rest, run.results))
