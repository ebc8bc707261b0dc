"""The turns of a run, twice: all of them, and those the model is shown.

They are one list until something is summed up or rewritten. From then on every new turn goes into both; what is gone from the
one stays in the other, so nothing is lost and the shown turns can be told again from the events only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core import context
from ronda.core.actions import Compact
from ronda.core.parts import AssistantPart, AssistantTurn, Refusal, Text, Turn

_ANSWER_PARTS = frozenset({Text, Refusal})


class Conversation:
    __slots__ = ("_head", "_is_fitted", "_summed_up", "budget", "is_admitted", "shown", "turns")

    def __init__(self, turns: Sequence[Turn], budget: int | None = None) -> None:
        self.budget = budget  # characters the model is shown at the most, as `context` counts them
        self.turns: list[Turn] = list(turns)
        self.shown = self.turns
        self._head: int | None = None  # instructions at the beginning, counted when it first matters
        self._summed_up = False
        self._is_fitted = False  # cut to its budget, as it stands now
        self.is_admitted = False  # seen by the input guardrail, as it stands now

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and (self.turns, self.shown) == (other.turns, other.shown)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def append(self, turn: Turn) -> None:
        self.turns.append(turn)
        if self.shown is not self.turns:
            self.shown.append(turn)
        self._is_fitted = self.is_admitted = False

    def pop(self) -> None:
        self.turns.pop()
        if self.shown is not self.turns:
            self.shown.pop()

    # ---- what the model is shown -------------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        if self._head is None:
            self._head = context.leading(self.shown)
        return self._head

    def cut(self) -> Compact | None:
        """What to leave out of it; None when it fits."""
        if self._is_fitted or self.budget is None:
            return None
        compact = context.cut(self.shown, self.head, self.head + self._summed_up, self.budget)
        self._is_fitted = compact is None  # nothing new would come of looking again
        return compact

    def tighten(self) -> bool:
        """The model says it is too much: a quarter less from now on. False when nothing more can go."""
        self.budget = context.estimate(self.shown) * 3 // 4
        self._is_fitted = False
        return self.cut() is not None

    def dropped(self, upto: int, kept: Sequence[int]) -> tuple[Turn, ...]:
        return context.dropped_turns(self.shown, self.head, upto, kept)

    def compact(self, upto: int, kept: Sequence[int], summary: str) -> None:
        self.shown = context.compact(self.shown, self.head, upto, kept, summary)
        self._summed_up = bool(summary)
        self._is_fitted = True
        self.is_admitted = False

    def rewrite(self, turns: Sequence[Turn]) -> None:
        self.shown = list(turns)
        self._head = None
        self._summed_up = False

    # ---- the last answer ---------------------------------------------------------------------------------------------

    def reword(self, text: str) -> None:
        """Put another text in the place of what the model just said. Its own JSON would still have the old one."""
        for turns in (self.turns,) if self.shown is self.turns else (self.turns, self.shown):
            at = _answered_at(turns)
            turn = turns[at]
            assert type(turn) is AssistantTurn
            parts: list[AssistantPart] = [part for part in turn.parts if type(part) not in _ANSWER_PARTS]
            calls = len(turn.calls)
            parts.insert(len(parts) - calls, Text(text))
            turns[at] = AssistantTurn(tuple(parts), turn.stop)

    def unsay(self) -> None:
        """Take back what the model just said, and its result."""
        for turns in (self.turns,) if self.shown is self.turns else (self.turns, self.shown):
            del turns[_answered_at(turns) :]


def _answered_at(turns: list[Turn]) -> int:
    return max([index for index, turn in enumerate(turns) if type(turn) is AssistantTurn])
