"""A value and where it stands: reads of it report what does not fit, and go on without it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ronda.errors import quote_names
from ronda.prompty.report import Report
from ronda.prompty.yaml_tree import Place

_NAMES: list[tuple[type, str]] = [
    (bool, "true or false"),
    (str, "text"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "a mapping"),
]


_WORD = 30  # characters: more are no slip of the pen


class At:
    """One value of a file. Absent and null are the same, and neither is a problem until somebody needs it."""

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
        for at, value in enumerate(self.value if isinstance(self.value, list) else ()):
            yield At(value, (*self.place, at), self.report)

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
        """A key that nobody reads has no effect, which is seldom meant."""
        if self.report.quiet:
            return
        for key, item in self.fields():
            if key in known:
                continue
            close = difflib.get_close_matches(key, known, 1) if len(key) < _WORD else []
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
