"""Sibling runs that belong together: variants of one answer, each of which is followed, cancelled and continued by itself.

A group is named after its first run: `group_ab12` is that of `run_ab12`, and each of its runs knows the names of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ronda.core.events import Event, RunStarted
from ronda.host.run import LiveRun
from ronda.server.answering.opening import Job, open_runs
from ronda.server.services.runs import new_id
from ronda.server.services.siblings import about_siblings, siblings_of

if TYPE_CHECKING:
    from ronda.server.app import Server

_PREFIX: Final = "group_"


def new_names(count: int) -> list[str]:
    return [new_id("run") for _ in range(count)]


def group_of(start: RunStarted) -> str | None:
    """None for a run that is no variant."""
    names = siblings_of(start)
    return _name(names[0]) if len(names) > 1 else None


def _name(first: str) -> str:
    return _PREFIX + first.removeprefix("run_")


async def open_group(server: Server, owner: str, jobs: Sequence[Job], names: Sequence[str]) -> list[LiveRun]:
    """One run for each job, under these names; all of them, or none."""
    lives: list[LiveRun] = []
    for name, job in zip(names, jobs, strict=True):
        request = replace(job.request, about={**job.request.about, **about_siblings(names)})
        try:
            lives += await open_runs(server, owner, replace(job, request=request), name)
        except BaseException:
            for live in lives:
                live.discard("a sibling could not be opened")
            raise
    return lives


async def runs_of_group(server: Server, group: str, owner: str) -> list[list[Event]]:
    """The events of each of its runs that are kept, in their order; none for a group that is not there."""
    first = await server.runs.read("run_" + group.removeprefix(_PREFIX), owner) if group.startswith(_PREFIX) else []
    if not first or type(first[0]) is not RunStarted or group_of(first[0]) != group:
        return []
    rest = [await server.runs.read(name, owner) for name in siblings_of(first[0])[1:]]
    return [first, *[events for events in rest if events]]
