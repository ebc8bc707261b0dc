"""Ids of the calls that go to the caller: never one that it has seen before in the conversation.

Some servers count from 0 in every turn, and some clients (Claude Code) take a call whose id they know for one that they have
answered. Such a call gets an id derived from the run, the round and its place: a replay names it the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.events import CallDelta, Preview
from ronda.core.parts import AssistantTurn, ToolCall
from ronda.core.run import Run


def derived_id(run: Run, index: int) -> str:
    """For a call of the turn under way."""
    return f"call_{run.id[-12:]}_{run.round - 1}_{index}"


class CallIds:
    """For the turn under way, plain and in previews alike."""

    __slots__ = ("_known_ids", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known_ids: frozenset[str] | None = None  # looked up when a call of the caller's comes

    def is_known(self, call: ToolCall | CallDelta) -> bool:
        run = self._run
        spec = run.tools.get(call.name)
        if spec is None or spec.kind != "caller":
            return False
        if self._known_ids is None:
            turns = [turn for turn in run.turns if type(turn) is AssistantTurn]
            self._known_ids = frozenset([one.id for turn in turns for one in turn.calls])
        return call.id in self._known_ids

    def under_new_ids(self, batch: Sequence[Preview]) -> Sequence[Preview]:
        """Previews under the ids that their calls will have."""
        for one in batch:  # nearly all of them are text, and given back as they are
            if type(one) is CallDelta and self.is_known(one):
                return [self._named(one) if type(one) is CallDelta else one for one in batch]
        return batch

    def _named(self, delta: CallDelta) -> CallDelta:
        if not self.is_known(delta):
            return delta
        return CallDelta(delta.index, derived_id(self._run, delta.index), delta.name, delta.arguments)
