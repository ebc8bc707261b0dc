"""What the addresses of Mistral's API share: how they say what is wrong, and how they read the query of an address."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.http.incoming import Incoming
from ronda.wire.codec.json import encode
from ronda.wire.mistral.validation_errors import read_value, refuse
from ronda.wire.shared.failures import Failure

MOST_ON_A_PAGE = 1000
# mistralai 3.7.0 sends its own word for "not said" where a filter is left out.
_UNSET: Final = '"~?~unset~?~sentinel~?~"'


def mistral_error(failure: Failure) -> bytes:
    if failure.details is not None:  # a 422, place by place
        return encode({"detail": failure.details})
    return encode(
        {
            "object": "error",
            "message": failure.message,
            "type": failure.type,
            "param": failure.param,
            "code": failure.code,
        }
    )


class Asks:
    """What a query asks for, checked: a 422 names what cannot be read."""

    def __init__(self, incoming: Incoming) -> None:
        self._values = incoming.query

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        return value[-1] if value else None

    def texts(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def needed(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            refuse("missing", ("query", name), "Field required")
        return value

    def number(self, name: str, default: int | None, least: int = 0, most: int = 2**53) -> int:
        value = self.text(name)
        if value is None:
            if default is None:
                refuse("missing", ("query", name), "Field required")
            return default
        try:
            number = int(value) if len(value) < 20 else -1
        except ValueError:
            refuse("int_parsing", ("query", name), "Input should be a valid integer", value)
        if not least <= number <= most:
            refuse("value_error", ("query", name), f"Input should be from {least} to {most}", value)
        return number

    def flag(self, name: str) -> bool | None:
        value = self.text(name)
        if value is None or value == "":
            return None
        if value.lower() not in ("true", "false", "1", "0"):
            refuse("bool_parsing", ("query", name), "Input should be a valid boolean", value)
        return value.lower() in ("true", "1")

    def metadata(self) -> dict[str, Any] | None:
        value = self.text("metadata")
        if not value or value == _UNSET:
            return None
        wanted: dict[str, Any] | None = read_value(value.encode(), dict[str, Any] | None, ("query", "metadata"))
        return wanted

    def page(self, size: int) -> tuple[int, int]:
        """Which items: (from, to)."""
        page = self.number("page", 0)
        size = self.number("page_size", size, 1, MOST_ON_A_PAGE)
        return page * size, (page + 1) * size


def matches(stored: Any, wanted: Any) -> bool:
    """Whether metadata has all that a filter asks for."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            name in stored and matches(stored[name], wanted[name]) for name in wanted
        )
    return bool(stored == wanted)
