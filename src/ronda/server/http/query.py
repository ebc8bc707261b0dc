"""The query of an address → the values it asks for, or a 400 that names the parameter."""

from __future__ import annotations

from ronda.errors import BadRequest
from ronda.server.http.incoming import Incoming


class Query:
    """The parameters of an address, read as what they should be."""

    def __init__(self, incoming: Incoming) -> None:
        self._values = {name: values[-1] for name, values in incoming.query.items()}

    def text(self, name: str) -> str | None:
        return self._values.get(name)

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
