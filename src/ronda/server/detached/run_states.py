"""How a run stands, in one word, wherever it is asked: by its name, in a list, in a group.

What became of a run the journal knows. That nobody has begun to drive it yet only the queue does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from ronda.core.run import Run
from ronda.journal import RunState, state_at

if TYPE_CHECKING:
    from ronda.server.app import Server

ShownState: TypeAlias = RunState | Literal["queued"]
SHOWN_STATES: Final[tuple[ShownState, ...]] = ("queued", *get_args(RunState))

QueuePlaces: TypeAlias = Mapping[str, int]  # runs that nobody has begun to drive, and how many wait before each


async def queued_runs(server: Server, owner: str) -> QueuePlaces:
    entries = await server.catalog.queue.list(server.clock(), owner)
    return {entry.run: entry.position for entry in entries if entry.position is not None and not entry.claims}


async def queued_among(server: Server, owner: str, *runs: Run) -> QueuePlaces:
    """The same, if one of these may be among them: nearly always none is, and the queue is not asked."""
    if any(run.start.outlives and run.ended is None and run.id not in server.runs.live for run in runs):
        return await queued_runs(server, owner)
    return {}


def state_of(run: Run, queued: QueuePlaces) -> ShownState:
    if run.ended is not None:
        return state_at(run.ended)
    return shown_state(run.id, "waiting" if run.is_waiting else "running", queued)


def shown_state(run: str, state: RunState, queued: QueuePlaces) -> ShownState:
    """`state` is what the journal says, for which a run that is queued is as good as under way."""
    return "queued" if state == "running" and run in queued else state
