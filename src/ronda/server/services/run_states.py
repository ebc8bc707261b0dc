"""How a run stands, in one word, wherever it is asked: by its name, in a list, in a group.

What became of a run the journal knows. Only the queue knows that no process has begun to drive it yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from ronda.core.run import Run
from ronda.journal import ListedState, RunState, state_at

if TYPE_CHECKING:
    from ronda.server.services.runs import Runs
    from ronda.store.queue import Queue, QueueEntry

SHOWN_STATES: Final[tuple[ListedState, ...]] = ("queued", *get_args(RunState))

QueuePlaces: TypeAlias = Mapping[str, int]  # runs that no process has begun to drive, and how many wait before each


async def queued_runs(queue: Queue, runs: Runs, owner: str | None) -> QueuePlaces:
    """Of an owner, or of all."""
    entries = await queued_entries(queue, runs, owner)
    return {entry.run: entry.position for entry in entries if entry.position is not None}


async def queued_entries(queue: Queue, runs: Runs, owner: str | None) -> list[QueueEntry]:
    """The same, with when each came."""
    entries = await queue.list(runs.clock(), owner)
    return [entry for entry in entries if entry.position is not None and not entry.claims]


async def queued_among(queue: Queue, under_way: Runs, owner: str, *runs: Run) -> QueuePlaces:
    """The same, if one of these may be among them: nearly always none is, and the queue is not asked."""
    if any(run.start.outlives and run.ended is None and run.id not in under_way.live for run in runs):
        return await queued_runs(queue, under_way, owner)
    return {}


def state_of(run: Run, queued: QueuePlaces) -> ListedState:
    if run.ended is not None:
        return state_at(run.ended)
    return shown_state(run.id, "waiting" if run.waits_for_people else "running", queued)


def shown_state(run: str, state: RunState, queued: QueuePlaces) -> ListedState:
    """`state` is what the journal says, for which a run that is queued is as good as under way."""
    return "queued" if state == "running" and run in queued else state
