"""Calls that come back under another id: a client that keeps Mistral's rule makes nine characters of every other id.

Our half of a turn is found by the ids of the caller's calls, so those are remembered in both forms, and taken back here.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, structs

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantTurn, ToolCall, ToolTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.server.runs import Runs
from ronda.wire.mistral.handoffs import calls_for_caller, goes_on
from ronda.wire.mistral.ids import nine

# Kept with the run of an agent that another one handed over to: the caller goes on naming the first.
INSTEAD: Final = {"instead": Raw(b"true")}


def both_ids(run: Run) -> list[str]:
    """What else the open calls of a run may be called when their results come."""
    if goes_on(run):
        return []
    ids = [call.id for call in calls_for_caller(run)]
    also = [nine(id) for id in ids if nine(id) != id]
    if run.runs_tools:
        return also
    # So that what comes of them finds the agent that asked.
    return [*ids, *also] if INSTEAD.keys() <= run.start.about.keys() else []


async def asked_by(runs: Runs, turns: tuple[Turn, ...], owner: str) -> str | None:
    """The agent whose calls the end of a conversation answers, where it is one that another agent handed over to."""
    last = turns[-1] if turns else None
    for result in last.results if isinstance(last, ToolTurn) else ():
        if (name := await runs.journal.waiting(owner, result.call_id)) is not None:
            events = await runs.read(name, owner)
            start = events[0] if events else None
            if isinstance(start, RunStarted) and INSTEAD.keys() <= start.about.keys():
                return msgspec.json.decode(start.about["agent_id"], type=str)
    return None


async def with_own_ids(runs: Runs, turns: tuple[Turn, ...], owner: str) -> tuple[Turn, ...]:
    """The turns with the ids that the calls had when we handed them out."""
    own: dict[str, str] = {}
    for turn in turns:
        for id in [call.id for call in turn.calls] if isinstance(turn, AssistantTurn) else ():
            if id not in own and nine(id) == id and (name := await runs.journal.waiting(owner, id)) is not None:
                events = await runs.read(name, owner)
                own |= {nine(call.id): call.id for call in rebuild(events).open_calls} if events else {}
    return tuple([_renamed(turn, own) for turn in turns]) if own else turns


def _renamed(turn: Turn, own: dict[str, str]) -> Turn:
    if isinstance(turn, AssistantTurn) and turn.calls:
        parts = [
            structs.replace(part, id=own.get(part.id, part.id)) if isinstance(part, ToolCall) else part
            for part in turn.parts
        ]
        return AssistantTurn(tuple(parts), turn.stop, turn.native)
    if isinstance(turn, ToolTurn):
        return ToolTurn(
            tuple([structs.replace(one, call_id=own.get(one.call_id, one.call_id)) for one in turn.results])
        )
    return turn
