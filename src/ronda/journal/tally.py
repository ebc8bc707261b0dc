"""Facts of a run → what a list tells of it: the first words of its input, its rounds, calls, tokens and cost, and how it ended.

A journal keeps a tally of each run that is driven here, and writes it into the run's row. So a list reads rows, and never a run's
events. The row of a run that is under way may be some seconds old: see `is_due`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from typing import Final

import msgspec
from msgspec import Struct

from ronda.core.events import Event, ModelFinished, ModelStarted, RunFinished, RunStarted, ToolFinished, ToolStarted
from ronda.core.parts import NO_USAGE, Text, Turn, Usage, UserTurn

WORDS: Final = 160  # characters: two lines of a list on a narrow screen
WRITE_EVERY: Final = 1.0  # seconds between two writes of the figures of a run that is under way

_MOST: Final = 2**53  # a model says what it counted, and JavaScript reads no larger number exactly

SIBLINGS: Final = "siblings"  # under which a run keeps the names of all choices of its answer
_GROUP: Final = "group_"

_read_names = msgspec.json.Decoder(list[str]).decode


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
        group = group_of(start) if start.about else None
        return cls(start.plan.model, first_words(start.turns), parent, start.call, group or "")


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


def group_of(start: RunStarted) -> str | None:
    """The name of the group of variants that a run is one of; None for a run that is none."""
    kept = start.about.get(SIBLINGS)
    if kept is None:
        return None
    names = _read_names(kept)
    return group_name(names[0]) if len(names) > 1 else None


def group_name(first: str) -> str:
    """A group is named after its first run: `group_ab12` is that of `run_ab12`."""
    return _GROUP + first.removeprefix("run_")


def first_of_group(group: str) -> str | None:
    """The name of a group's first run; None for what is no name of a group."""
    return "run_" + group.removeprefix(_GROUP) if group.startswith(_GROUP) else None


@lru_cache(1000)
def owner_mark(owner: str) -> str:
    """Stands for an owner where processes tell each other of runs: short, and no name."""
    return blake2b(owner.encode(errors="surrogatepass"), digest_size=6, person=b"owner").hexdigest()


class Tally:
    """The figures of one run, fact by fact. Counts as `core.run` does."""

    __slots__ = ("_calls", "_child_calls", "_end", "_rounds", "_usage", "_written_at", "is_news")

    def __init__(self) -> None:
        self._rounds = 0
        self._calls: set[str] = set()  # a call that is started again after a crash counts once
        self._child_calls = 0
        self._usage: Usage = NO_USAGE
        self._end: RunFinished | None = None
        self._written_at = 0.0
        self.is_news = False  # the row does not have all of it

    def add(self, facts: Iterable[Event]) -> None:
        for fact in facts:
            if type(fact) is ModelStarted:
                self._rounds = fact.round + 1
            elif type(fact) is ModelFinished:
                known = self._usage  # most runs have one round: a sum is dear
                self._usage = fact.usage if known is NO_USAGE else known + fact.usage
            elif type(fact) is ToolStarted:
                self._calls.add(fact.call_id)
            elif type(fact) is ToolFinished:
                self._child_calls += fact.tool_calls
                if fact.usage is not NO_USAGE:
                    self._usage = self._usage + fact.usage
            elif type(fact) is RunFinished:
                self._end = fact
            else:
                continue
            self.is_news = True

    def is_due(self) -> bool:
        """Whether it is time to write the figures of a run that goes on. Those of a run that ends are written with its end."""
        if not self.is_news:
            return False
        now = time.monotonic()
        if now - self._written_at < WRITE_EVERY:
            return False
        self._written_at = now
        return True

    @property
    def figures(self) -> Figures:
        usage, end = self._usage, self._end
        read, said, cached, reasoning = usage.input, usage.output, usage.cached, usage.reasoning
        if min(read, said, cached, reasoning) < 0 or max(read, said, cached, reasoning) > _MOST:
            read, said, cached, reasoning = [min(max(n, 0), _MOST) for n in (read, said, cached, reasoning)]
        return Figures(
            self._rounds,
            len(self._calls) + self._child_calls,
            read,
            said,
            cached,
            reasoning,
            usage.cost if usage.cost is not None and isfinite(usage.cost) else None,
            "" if end is None else end.reason,
            "" if end is None else end.code or end.limit or "",
        )
