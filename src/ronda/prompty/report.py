"""What is found while a file is read: everything, so that one look shows all of it.

Problems keep a file from loading; warnings do not. Both know their line and their field, which is written as people point
at it: `model.connection.apiKey`, `tools[0].name`.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from ronda.prompty.errors import BadPrompty
from ronda.prompty.yaml_tree import Place, Tree

_WORD = re.compile(r"[\w-]+")


class Problem(Struct, frozen=True):
    """One thing about a file. `line` is None, and `field` empty, where it is about the file as a whole.

    A file with an `error` does not load; one with a `warning` does, but says something that has no effect or will fail.
    """

    line: int | None
    field: str
    message: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line is not None else ""
        text = self.message if self.severity == "error" else f"warning: {self.message}"
        return ": ".join(part for part in (place, self.field, text) if part)


class Report:
    """`quiet` leaves out warnings, which whoever only loads a file never sees."""

    def __init__(self, path: str | None, *, quiet: bool = False) -> None:
        self.path = path
        self.quiet = quiet
        self.tree: Tree | None = None
        self.errors: list[BadPrompty] = []
        self.warnings: list[Problem] = []
        self.referred: set[Place] = set()  # values that a reference brought in: text where a number may be meant
        self._unresolved: set[Place] = set()

    def add(self, place: Place, message: str, kind: type[BadPrompty] = BadPrompty) -> None:
        if place not in self._unresolved:
            self.errors.append(kind(message, path=self.path, line=self.line(place), field=field(place) or None))

    def leads_nowhere(self, place: Place) -> None:
        """There is a reference without a value: that it is absent is no second problem of anything it stands in."""
        self._unresolved.update(place[:length] for length in range(len(place) + 1))

    def warn(self, place: Place, message: str) -> None:
        if not self.quiet:
            self.warnings.append(Problem(self.line(place), field(place), message, "warning"))

    def line(self, place: Place) -> int | None:
        return self.tree.line(place) if self.tree is not None else None

    def problems(self) -> list[Problem]:
        """In the order of the file, errors before warnings in one line."""
        found = [Problem(error.line, error.field or "", str(error)) for error in self.errors]
        return sorted([*found, *self.warnings], key=lambda problem: (problem.line or 0, problem.severity))


def field(place: Place) -> str:
    """`('tools', 0, 'name')` → `tools[0].name`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _WORD.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part[:60]!r}]"
    return text
