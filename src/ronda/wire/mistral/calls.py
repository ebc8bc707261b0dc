"""A caller's tool calls as they arrive: pieces of a model's calls → pieces to hand on.

A call is announced once its id and name are known, and no other call of the turn has that id; its arguments follow as they
come. What could not be announced by the end of the turn goes out then, with the id it was given. Calls that are `ours`, by
name, never go out, and are not counted.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from ronda.core.events import CallDelta
from ronda.core.parts import ToolCall


class Piece(Struct, frozen=True, gc=False):
    """`name` is what is new of the name: empty in all pieces but the first, as a rule."""

    index: int
    id: str
    name: str
    arguments: str


class _Handed:
    __slots__ = ("arguments", "id", "name", "waiting")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = 0  # characters that went out
        self.waiting: list[str] = []


class LiveCalls:
    """The calls of one turn."""

    __slots__ = ("_handed", "_ours")

    def __init__(self, ours: Collection[str] = ()) -> None:
        self._handed: dict[int, _Handed] = {}
        self._ours = ours

    def add(self, delta: CallDelta) -> Piece | None:
        handed = self._handed.setdefault(delta.index, _Handed())
        if not handed.id:
            handed.waiting.append(delta.arguments)
            if not delta.id or not delta.name or any(other.id == delta.id for other in self._handed.values()):
                return None
            if self._ours and any(name.startswith(delta.name) for name in self._ours):
                return None  # its name may not be complete yet
            handed.id, handed.name = delta.id, delta.name
            arguments = "".join(handed.waiting)
            handed.arguments = len(arguments)
            return Piece(self._place(delta.index), delta.id, delta.name, arguments)
        more_name = ""
        if delta.name != handed.name and delta.name.startswith(handed.name):
            more_name = delta.name[len(handed.name) :]
            handed.name = delta.name
        if not more_name and not delta.arguments:
            return None
        handed.arguments += len(delta.arguments)
        return Piece(self._place(delta.index), handed.id, more_name, delta.arguments)

    def rest(self, index: int, call: ToolCall) -> Piece | None:
        """What of a call that is complete has not gone out."""
        handed = self._handed.setdefault(index, _Handed())
        if call.name in self._ours:
            return None
        written = call.as_written
        place = self._place(index)
        if not handed.id:
            handed.id = call.id
            return Piece(place, call.id, call.name, written)
        return Piece(place, handed.id, "", written[handed.arguments :]) if len(written) > handed.arguments else None

    def _place(self, index: int) -> int:
        """Which of the calls that go out it is."""
        if not self._ours:
            return index
        return sum(1 for at, handed in self._handed.items() if at < index and handed.id)
