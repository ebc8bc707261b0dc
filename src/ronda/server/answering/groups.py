"""Sibling runs that belong together: variants of one answer, each of which is followed, cancelled and continued by itself.

A group is named after its first run: `group_ab12` is that of `run_ab12`, and each of its runs knows the names of all.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ronda.core.events import RunStarted
from ronda.host.run import LiveRun
from ronda.journal.tally import first_of_group
from ronda.journal.tally import group_of as group_of
from ronda.server.answering.opening import Job, Opening
from ronda.server.services.runs import Runs, new_id
from ronda.server.services.siblings import about_siblings, siblings_of


def new_names(count: int) -> list[str]:
    return [new_id("run") for _ in range(count)]


async def open_group(opening: Opening, owner: str, jobs: Sequence[Job], names: Sequence[str]) -> list[LiveRun]:
    """One run for each job, under these names; all of them, or none."""
    lives: list[LiveRun] = []
    for name, job in zip(names, jobs, strict=True):
        request = replace(job.request, about={**job.request.about, **about_siblings(names)})
        try:
            lives += await opening.open_runs(owner, replace(job, request=request), name)
        except BaseException:
            for live in lives:
                live.discard("a sibling could not be opened")
            raise
    return lives


async def names_of_group(runs: Runs, group: str, owner: str) -> tuple[str, ...]:
    """The names of its runs, in their order; none for a group that is not there."""
    first = first_of_group(group)
    events = [] if first is None else await runs.read(first, owner)
    if not events or type(events[0]) is not RunStarted or group_of(events[0]) != group:
        return ()
    return tuple(siblings_of(events[0]))
