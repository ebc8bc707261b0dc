"""What the addresses of Mistral's API share: how they say what is wrong, and how they read the query of an address."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.exchange import Incoming
from ronda.wire.failures import Failure
from ronda.wire.json import encode
from ronda.wire.mistral.details import read_value, refuse

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

    def __init__(self, request: Incoming) -> None:
        self._said = request.query

    def text(self, name: str) -> str | None:
        said = self._said.get(name)
        return said[-1] if said else None

    def texts(self, name: str) -> list[str]:
        return self._said.get(name, [])

    def needed(self, name: str) -> str:
        said = self.text(name)
        if said is None:
            refuse("missing", ("query", name), "Field required")
        return said

    def number(self, name: str, default: int | None, least: int = 0, most: int = 2**53) -> int:
        said = self.text(name)
        if said is None:
            if default is None:
                refuse("missing", ("query", name), "Field required")
            return default
        try:
            number = int(said) if len(said) < 20 else -1
        except ValueError:
            refuse("int_parsing", ("query", name), "Input should be a valid integer", said)
        if not least <= number <= most:
            refuse("value_error", ("query", name), f"Input should be from {least} to {most}", said)
        return number

    def flag(self, name: str) -> bool | None:
        said = self.text(name)
        if said is None or said == "":
            return None
        if said.lower() not in ("true", "false", "1", "0"):
            refuse("bool_parsing", ("query", name), "Input should be a valid boolean", said)
        return said.lower() in ("true", "1")

    def metadata(self) -> dict[str, Any] | None:
        said = self.text("metadata")
        if not said or said == _UNSET:
            return None
        wanted: dict[str, Any] | None = read_value(said.encode(), dict[str, Any] | None, ("query", "metadata"))
        return wanted

    def page(self, size: int) -> tuple[int, int]:
        """Which items: (from, to)."""
        page = self.number("page", 0)
        size = self.number("page_size", size, 1, MOST_ON_A_PAGE)
        return page * size, (page + 1) * size


def matches(kept: Any, wanted: Any) -> bool:
    """Whether metadata has all that a filter asks for."""
    if isinstance(wanted, dict):
        return isinstance(kept, dict) and all(name in kept and matches(kept[name], wanted[name]) for name in wanted)
    return bool(kept == wanted)
