"""How a run stands, in one word, wherever it is asked: by its name, in a list, in a group.

What became of a run the journal knows. That nobody has begun to drive it yet only the queue does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from ronda.core.run import Run, rebuild
from ronda.journal import RunState, RunSummary, state_at

if TYPE_CHECKING:
    from ronda.server.services.runs import Runs
    from ronda.store.queue import Queue

ShownState: TypeAlias = RunState | Literal["queued"]
SHOWN_STATES: Final[tuple[ShownState, ...]] = ("queued", *get_args(RunState))

QueuePlaces: TypeAlias = Mapping[str, int]  # runs that nobody has begun to drive, and how many wait before each


async def queued_runs(queue: Queue, runs: Runs, owner: str) -> QueuePlaces:
    entries = await queue.list(runs.clock(), owner)
    return {entry.run: entry.position for entry in entries if entry.position is not None and not entry.claims}


async def queued_among(queue: Queue, under_way: Runs, owner: str, *runs: Run) -> QueuePlaces:
    """The same, if one of these may be among them: nearly always none is, and the queue is not asked."""
    if any(run.start.outlives and run.ended is None and run.id not in under_way.live for run in runs):
        return await queued_runs(queue, under_way, owner)
    return {}


def state_of(run: Run, queued: QueuePlaces) -> ShownState:
    if run.ended is not None:
        return state_at(run.ended)
    return shown_state(run.id, "waiting" if run.waits_for_people else "running", queued)


def asking_here(runs: Runs, owner: str) -> list[str]:
    """Runs that wait for people within a tool, in this process. The journal has them as under way: were the process to end, they
    would have to be taken up."""
    asking = [live.run for live in runs.live.values() if live.run.start.owner == owner and live.run.ended is None]
    return [run.id for run in asking if run.waits_for_people and not run.is_waiting]


async def asking_elsewhere(under_way: Runs, runs: Iterable[RunSummary], owner: str, queued: QueuePlaces) -> list[str]:
    """Those of these runs that wait for people within a tool of another process. Only their events tell."""
    found: list[str] = []
    for one in runs:
        if one.state == "running" and one.run not in queued and one.run not in under_way.live:
            events = await under_way.read(one.run, owner)
            run = rebuild(events) if events else None
            if run is not None and run.ended is None and run.waits_for_people and not run.is_waiting:
                found.append(one.run)
    return found


def shown_state(run: str, state: RunState, queued: QueuePlaces) -> ShownState:
    """`state` is what the journal says, for which a run that is queued is as good as under way."""
    return "queued" if state == "running" and run in queued else state
