"""The query of an address → the values it asks for, or a 400 that names the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Final, TypeVar

from ronda.errors import BadRequest
from ronda.server.http.incoming import Incoming

MOST_VALUES: Final = 50  # of one parameter: as many as a person chooses by hand
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

Word = TypeVar("Word", bound=str)


def _number(text: str) -> float | None:
    """A number that is not below 0; None for anything else."""
    if not text.isascii() or len(text) > 30 or "_" in text or text != text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


class Query:
    """The parameters of an address, read as what they should be."""

    def __init__(self, incoming: Incoming) -> None:
        self._all = incoming.query
        self._values = {name: values[-1] for name, values in incoming.query.items()}

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Several: given again and again, or with commas in between."""
        found = [one for value in self._all.get(name, ()) for one in value.split(",") if one]
        if len(found) > MOST_VALUES:
            raise BadRequest(f"'{name}' names {len(found)} things; it can name {MOST_VALUES}", param=name)
        return tuple(dict.fromkeys(found))

    def words(self, name: str, words: Sequence[Word]) -> tuple[Word, ...]:
        """Several of these."""
        found = self.texts(name)
        if unknown := [one for one in found if one not in words]:
            raise BadRequest(f"'{name}' is {unknown[0][:60]!r}; it can be {', '.join(words)}", param=name)
        return tuple([word for word in words if word in found])

    def number(self, name: str) -> float | None:
        """Not below 0."""
        value = self._values.get(name)
        if value is None:
            return None
        number = _number(value)
        if number is None:
            raise BadRequest(f"'{name}' is {value[:60]!r}; it must be a number, at least 0", param=name)
        return number

    def time(self, name: str) -> float | None:
        """Seconds since 1970, or a date in the form of ISO 8601: without a zone, it is of UTC."""
        value = self._values.get(name)
        if value is None or (number := _number(value)) is not None:
            return None if value is None else number
        try:
            found = datetime.fromisoformat(value[:40])
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, OSError):
            raise BadRequest(
                f"'{name}' is {value[:60]!r}; it must be seconds since 1970, or a date such as 2026-01-31T12:00:00Z",
                param=name,
            ) from None

    def span(self, name: str, default: str, limit: float) -> float:
        """A length of time in seconds: 90s, 15m, 24h, 7d, 2w."""
        value = self._values.get(name, default)
        length = _number(value[:-1]) if value and value[-1] in _UNITS else None
        seconds = 0.0 if length is None else length * _UNITS[value[-1]]
        if not 1 <= seconds <= limit:
            bound = f"of {limit / 86400:.0f} days at most"
            raise BadRequest(
                f"'{name}' is {value[:60]!r}; it must be a length of time such as 15m, 24h or 7d, {bound}", param=name
            )
        return seconds

    def truth(self, name: str) -> bool:
        return self.word(name, "false", ("true", "false", "1", "0")) in ("true", "1")

    def word(self, name: str, default: str, words: tuple[str, ...]) -> str:
        value = self._values.get(name, default)
        if value not in words:
            raise BadRequest(f"'{name}' is {value[:60]!r}; it can be {', '.join(words)}", param=name)
        return value

    def whole(self, name: str, default: int | None, least: int, most: int | None) -> int | None:
        value = self._values.get(name)
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else -1
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise BadRequest(f"'{name}' must be a whole number, {bounds}.", param=name)
        return number
