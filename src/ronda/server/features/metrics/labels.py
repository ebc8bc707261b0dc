"""Values of labels, of which there must not be any number: what a label is called where there is none, or too many."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"
NONE: Final = "none"
MAX_MODELS: Final = 100
MAX_TOOLS: Final = 200


class Bounded:
    """The values of a label that are told apart: the first ones that come."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def value(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name
