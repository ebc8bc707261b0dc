"""What was recorded and what happens now → nothing, or the first difference and the path of the value that differs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ronda.core.events import RunStarted
from ronda.errors import RondaError

_encode = msgspec.json.Encoder().encode
_MISSING: Final = object()
_SHOWN_CHARS: Final = 120  # characters of a value that differs


class Difference(RondaError):
    """What happens is not what was recorded. `path` is where."""

    def __init__(self, where: str, path: str, recorded: object, now: object) -> None:
        super().__init__(f"{where} differs at {path}: recorded {_short(recorded)}, now {_short(now)}")
        self.path = path
        self.recorded = recorded
        self.now = now


def _short(value: object) -> str:
    text = "nothing" if value is _MISSING else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def compare(where: str, recorded: object, now: object) -> None:
    """Byte for byte, as JSON."""
    before, after = _encode(recorded), _encode(now)
    if before != after:
        path, one, other = _first_difference(msgspec.json.decode(before), msgspec.json.decode(after), "$")
        raise Difference(where, path, one, other)


def _first_difference(one: Any, other: Any, path: str) -> tuple[str, Any, Any]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *[name for name in other if name not in one]]:
            before, after = one.get(name, _MISSING), other.get(name, _MISSING)
            if before is _MISSING or after is _MISSING or before != after:
                return _first_difference(before, after, f"{path}.{name}")
    if isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            before = one[index] if index < len(one) else _MISSING
            after = other[index] if index < len(other) else _MISSING
            if before is _MISSING or after is _MISSING or before != after:
                return _first_difference(before, after, f"{path}[{index}]")
    return path, one, other


def compare_starts(recorded: RunStarted, now: RunStarted) -> None:
    """Of a run that is begun again: what is the agent's. Its model is not asked, and limits are those of a call."""
    compare("the conversation that the run begins with", recorded.turns, now.turns)
    for name in ("tools", "choice", "options"):
        compare(f"'{name}' of the plan", getattr(recorded.plan, name), getattr(now.plan, name))
