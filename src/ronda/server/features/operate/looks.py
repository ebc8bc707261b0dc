"""How many runs were queued, and how many waited, over time: a journal notes when a run began and ended, not what it did between.

So a process looks once a minute, and remembers what it saw for a week. It forgets that with its end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

EVERY: Final = 60.0  # seconds
_MOST: Final = 7 * 24 * 60
_HOLDS: Final = 1.5 * EVERY  # a look stands for what comes after it, until the next is overdue


class Look(NamedTuple):
    queued: int
    waiting: int


class Looks:
    def __init__(self) -> None:
        self._times: list[float] = []
        self._looks: list[Look] = []

    def add(self, at: float, look: Look) -> None:
        if self._times and at <= self._times[-1]:  # the clock was set back
            return
        self._times.append(at)
        self._looks.append(look)
        del self._times[:-_MOST], self._looks[:-_MOST]

    def most(self, since: float, until: float, pieces: int, last: Look) -> list[Look | None]:
        """The most of each piece of time; None where it is not known. `last` is how it is at its end."""
        edges = [until - (until - since) * left / pieces for left in range(pieces, -1, -1)]
        places = [bisect_right(self._times, edge) for edge in edges]
        found = [self._most(places[n], places[n + 1], edges[n + 1]) for n in range(pieces - 1)]
        return [*found, _most_of([*self._looks[places[-2] : places[-1]], last])]

    def _most(self, first: int, after: int, end: float) -> Look | None:
        if first < after:
            return _most_of(self._looks[first:after])
        return self._looks[after - 1] if after > 0 and self._times[after - 1] > end - _HOLDS else None


def _most_of(looks: Sequence[Look]) -> Look:
    return Look(max([look.queued for look in looks]), max([look.waiting for look in looks]))
