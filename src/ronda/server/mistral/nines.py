"""Calls that come back under another id: a client that keeps Mistral's rule makes nine characters of every other id.

Our half of a turn is found by the ids of the caller's calls, so those are remembered in both forms, and taken back here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from ronda.core.events import Event
from ronda.core.parts import AssistantTurn, ToolCall, ToolTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.server.door import Exchange
from ronda.server.runs import Runs
from ronda.wire.mistral.ids import nine


class Remembering(Exchange):
    """An exchange whose open calls are found under both of their ids."""

    def _take(self, sibling: int, batch: Sequence[Event]) -> None:
        super()._take(sibling, batch)
        run: Run = self._lives[sibling].run
        if run.ended is not None and run.ended.reason == "tool_calls" and run.runs_tools:
            ids = [nine(call.id) for call in run.open_calls if nine(call.id) != call.id]
            self._server.runs.journal.expect(run.start.owner, ids, run.id)


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
