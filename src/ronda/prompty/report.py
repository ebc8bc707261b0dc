"""What is found while a file is read: everything, so that one look shows all of it.

Problems keep a file from loading; warnings do not. Both know their line and their field, which is written as people point
at it: `model.connection.apiKey`, `tools[0].name`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from ronda.errors import quote_names
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
    """`quiet` leaves out warnings, which a program that only loads a file never sees."""

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


# A value and where it stands: reads of it report what does not fit, and go on without it.

_NAMES: list[tuple[type, str]] = [
    (bool, "true or false"),
    (str, "text"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "a mapping"),
]


_LONGEST_WORD = 30  # characters: more are no slip of the pen


class At:
    """One value of a file. Absent and null are the same, and neither is a problem until it is needed."""

    __slots__ = ("place", "report", "value")

    def __init__(self, value: Any, place: Place, report: Report) -> None:
        self.value = value
        self.place = place
        self.report = report

    # ---- what it is -----------------------------------------------------------------------------------------------------

    @property
    def is_given(self) -> bool:
        return self.value is not None

    def text(self, default: str = "") -> str:
        found = self._read(str, "text")
        return default if found is None else str(found)

    def maybe_text(self) -> str | None:
        found = self._read(str, "text")
        return None if found is None else str(found)

    def flag(self, default: bool = False) -> bool:
        found = self.maybe_flag()
        return default if found is None else found

    def maybe_flag(self) -> bool | None:
        if isinstance(self.value, str) and self.place in self.report.referred:  # an environment knows only text
            fields = {"true": True, "false": False}.get(self.value.lower())
            if fields is not None:
                return fields
        found = self._read(bool, "true or false")
        return None if found is None else bool(found)

    def number(self) -> float | None:
        return self._number(float, "a number")

    def integer(self) -> int | None:
        found = self._number(int, "a whole number")
        return None if found is None else int(found)

    def mapping(self) -> dict[str, Any]:
        """The plain values of a mapping that is only passed on."""
        found = self._read(dict, "a mapping")
        return {} if found is None else dict(found)

    def texts(self) -> tuple[str, ...] | None:
        found = self._read(list, "a list")
        return None if found is None else tuple(item.text() for item in self.items())

    # ---- what is in it --------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[At]:
        for index, value in enumerate(self.value if isinstance(self.value, list) else ()):
            yield At(value, (*self.place, index), self.report)

    def fields(self) -> Iterator[tuple[str, At]]:
        for key, value in (self.value if isinstance(self.value, dict) else {}).items():
            yield key, At(value, (*self.place, key), self.report)

    def __getitem__(self, key: str) -> At:
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return At(value, (*self.place, key), self.report)

    def is_mapping(self) -> bool:
        """Whether it can be read field by field; reports a value that can't."""
        return self._read(dict, "a mapping") is not None

    # ---- what is said about it --------------------------------------------------------------------------------------------

    def problem(self, message: str) -> None:
        self.report.add(self.place, message)

    def warn(self, message: str) -> None:
        self.report.warn(self.place, message)

    def warn_unknown(self, known: Collection[str], hints: Mapping[str, str] | None = None) -> None:
        """A key that is not read has no effect, which is seldom meant."""
        if self.report.quiet:
            return
        for key, item in self.fields():
            if key in known:
                continue
            close = difflib.get_close_matches(key, known, 1) if len(key) < _LONGEST_WORD else []
            hint = (hints or {}).get(key) or (f"did you mean '{close[0]}'?" if close else "it has no effect")
            item.warn(f"unknown key '{key[:60]}'; {hint}")

    def one_of(self, allowed: Collection[str], default: str) -> str:
        found = self.text(default)
        if found not in allowed:
            self.problem(f"'{found}' is not one of {quote_names(allowed)}")
            return default
        return found

    # ---- inside -----------------------------------------------------------------------------------------------------------

    def _read(self, kind: type, name: str) -> Any:
        if self.value is None:
            return None
        if isinstance(self.value, kind):
            return self.value
        self._misfit(name)
        return None

    def _number(self, kind: type[int] | type[float], name: str) -> float | None:
        value = self.value
        if isinstance(value, str) and self.place in self.report.referred:
            try:
                value = kind(value)
            except ValueError:
                value = self.value
        if isinstance(value, float) and kind is int and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool):
            return value
        self._misfit(name)
        return None

    def _misfit(self, name: str) -> None:
        known = next((label for kind, label in _NAMES if isinstance(self.value, kind)), "something else")
        self.problem(f"{name} is needed here, not {known}")
