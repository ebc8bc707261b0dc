"""Turns of which the beginning was looked at before: in a session it is the same objects, request after request.

Looking again would cost each request as much as all those before it. It is a tuple like any other to code that does not ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ronda.core.parts import Turn


class KnownTurns(tuple[Turn, ...]):
    """Of the first `known` turns every call is answered, they are as large as `size` says, `whole` are the files that
    have all of results of which they have a part, and `marks` are those of a reader of them."""

    known: int
    size: int
    whole: frozenset[str]
    marks: frozenset[str]

    @classmethod
    def of(
        cls,
        turns: Iterable[Turn],
        known: int,
        size: int,
        whole: frozenset[str] = frozenset(),
        marks: frozenset[str] = frozenset(),
    ) -> KnownTurns:
        made = cls(turns)
        made.known, made.size, made.whole, made.marks = known, size, whole, marks
        return made


def known_of(turns: Any) -> int:
    return turns.known if type(turns) is KnownTurns else 0
