"""Facts of a run → what a list shows of it: the first words of its input, its rounds, calls, tokens and cost, and how it ended.

A journal writes the figures of each run that is driven here into the run's row. So a list reads rows, and never a run's
events. The row of a run that is under way may be some seconds old: see `buffers.FIGURES_EVERY`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ronda.core.events import Event, ModelFinished, ModelStarted, RunFinished, RunStarted, ToolFinished, ToolStarted
from ronda.core.parts import NO_USAGE, Text, Turn, Usage, UserTurn
from ronda.journal.siblings import SIBLINGS, group_of

if TYPE_CHECKING:
    from ronda.core.run import Run

WORDS: Final = 160  # characters: two lines of a list on a narrow screen

_MOST: Final = 2**53  # a model says what it counted, and JavaScript reads no larger number exactly


class Beginning(Struct, frozen=True, gc=False):
    """What is known of a run when it begins. "" is "none"."""

    model: str = ""
    words: str = ""  # the first of what was asked
    parent: str = ""  # the run that it goes on from, or that it is a call of
    call: str = ""  # which call of its parent it is
    group: str = ""

    @classmethod
    def of(cls, start: RunStarted) -> Beginning:
        parent = "" if start.parent is None else start.parent[0]
        group = group_of(start) or "" if SIBLINGS in start.about else ""
        return cls(start.plan.model, first_words(start.turns), parent, start.call, group)


class Figures(Struct, frozen=True, gc=False):
    """What is counted while a run goes on. `end` is the reason of its end, `code` what else names it: the limit of one that
    reached a limit. `cost` is in US dollars; None where no price is known."""

    rounds: int = 0
    tool_calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cost: float | None = None
    end: str = ""
    code: str = ""


NO_FIGURES: Final = Figures()


def first_words(turns: Sequence[Turn]) -> str:
    """Of what was asked last: a chat sends everything again."""
    for turn in reversed(turns):
        if type(turn) is UserTurn:
            for part in turn.parts:
                if type(part) is Text and (words := " ".join(part.text[: WORDS * 2].split())):
                    return words[:WORDS]
    return ""


def figures_of(run: Run) -> Figures:
    """Of a run that is driven here, which counts anyway."""
    return _bounded(run.round, run.tool_calls, run.usage, run.ended)


def _bounded(rounds: int, tool_calls: int, usage: Usage, end: RunFinished | None) -> Figures:
    read, said, cached, reasoning, cost = usage.input, usage.output, usage.cached, usage.reasoning, usage.cost
    if min(read, said, cached, reasoning) < 0 or max(read, said, cached, reasoning) > _MOST:
        read, said, cached, reasoning = [min(max(count, 0), _MOST) for count in (read, said, cached, reasoning)]
    if cost is not None and not isfinite(cost):
        cost = None
    if end is None:
        return Figures(rounds, tool_calls, read, said, cached, reasoning, cost)
    return Figures(rounds, tool_calls, read, said, cached, reasoning, cost, end.reason, end.code or end.limit or "")


class Tally:
    """The figures of one run, fact by fact, where only its facts are there. Counts as `core.run` does."""

    __slots__ = ("calls", "earlier_calls", "end", "rounds", "usages")

    def __init__(self) -> None:
        self.rounds = 0
        self.calls: set[str] = set()  # of this round: one that is started again after a crash counts once
        self.earlier_calls = 0  # of rounds before, and of children
        self.usages: list[Usage] = []  # a sum of two is dear: they are added up when figures are asked for
        self.end: RunFinished | None = None

    def add(self, facts: Iterable[Event]) -> None:
        for fact in facts:
            if type(fact) is ModelStarted:
                self.rounds = fact.round + 1
                self.earlier_calls += len(self.calls)  # some models begin their ids anew in each round
                self.calls.clear()
            elif type(fact) is ModelFinished:
                self.usages.append(fact.usage)
            elif type(fact) is ToolStarted:
                self.calls.add(fact.call_id)
            elif type(fact) is ToolFinished:
                self.earlier_calls += fact.tool_calls
                if fact.usage is not NO_USAGE:
                    self.usages.append(fact.usage)
            elif type(fact) is RunFinished:
                self.end = fact

    @property
    def figures(self) -> Figures:
        # What `core.run` counts is bounded by its limits; facts may say anything.
        rounds, tool_calls = min(self.rounds, _MOST), min(len(self.calls) + self.earlier_calls, _MOST)
        return _bounded(rounds, tool_calls, sum(self.usages, NO_USAGE), self.end)
