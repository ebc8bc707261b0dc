"""The caller's calls of a turn that is still being written → the pieces of them that go out as they arrive.

What was announced cannot be taken back, so a call is announced only when that is certain: its arguments have begun, so its name
is whole; it is the name of a tool of the caller's that may be called now; no other call of the turn has its id; and each call
before it was announced too, or never goes out. What could not be announced by the end of the turn goes out then.

Nothing goes out live where something may still take it back: an answer that a guardrail has not seen, calls of which only the
first counts, calls of strict tools (which may be repaired, or asked for again), the calls of a last turn (which are dropped).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import Final

from msgspec import Struct

from ronda.core.events import CallDelta, ModelStarted
from ronda.core.obligations import is_met
from ronda.core.parts import AssistantTurn
from ronda.core.plan import Plan

# Some models write the namespace of their training before a tool's name: GPT, Gemini, others. Nothing else is guessed.
_PREFIXES: Final = ("functions.", "default_api.", "tools.")


def offered_name(name: str, offered: Container[str]) -> str:
    """The tool that a model means by a name that is not offered as it is; the same where no prefix hides one that is."""
    for prefix in _PREFIXES:
        if name.startswith(prefix) and (bare := name.removeprefix(prefix)) in offered:
            return bare
    return name


class Piece(Struct, frozen=True, gc=False):
    """`place` counts the calls that go out. `name` is the whole name, in every piece of a call; the first announces it."""

    place: int
    id: str
    name: str
    arguments: str
    is_first: bool


class _Call:
    __slots__ = ("has_begun", "id", "name", "place", "sent", "stays", "waiting")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.has_begun = False  # its arguments have
        self.stays = False  # it is not the caller's, and never goes out
        self.waiting: list[str] = []
        self.place = -1  # until it was announced
        self.sent = 0  # characters of its arguments that went out


class LiveCalls:
    """The calls of one turn. `without`: names whose calls are not the caller's after all."""

    __slots__ = ("_announced", "_calls", "_live", "_names", "_owes", "_plan", "_start", "_without")

    def __init__(self, plan: Plan, start: ModelStarted | None = None, without: Collection[str] = ()) -> None:
        self._plan = plan
        self._start = start
        self._without = without
        self._owes = start is not None and start.owes
        self._calls: dict[int, _Call] = {}
        self._announced = 0
        self._names: tuple[frozenset[str], frozenset[str]] | None = None
        self._live: bool | None = None  # looked up when a call comes: most turns make none

    def add(self, delta: CallDelta) -> Sequence[Piece]:
        """A piece of a call arrived; what goes out now."""
        if not self._is_live():
            return ()
        call = self._calls.get(delta.index)
        if call is None:
            call = self._calls[delta.index] = _Call()
        if call.stays:
            return ()
        if call.place >= 0:
            if not delta.arguments:
                return ()
            call.sent += len(delta.arguments)
            return (Piece(call.place, call.id, call.name, delta.arguments, False),)
        call.id, call.name = delta.id, delta.name
        if delta.arguments:
            call.has_begun = True
            call.waiting.append(delta.arguments)
        return self._announce()

    def rest(self, turn: AssistantTurn) -> list[Piece]:
        """What of a finished turn's calls has not gone out."""
        if not turn.calls or not self._is_live():
            return []
        if self._owes and turn.stop in ("stop", "tool_calls") and not is_met(turn, self._plan):
            return []
        pieces: list[Piece] = []
        for index, made in enumerate(turn.calls):
            if not self._goes_out(made.name):
                continue
            call = self._calls.setdefault(index, _Call())
            if call.place < 0:
                call.id, call.name = made.id, made.name
                pieces.append(self._first(call, made.arguments))
            elif len(made.arguments) > call.sent:
                pieces.append(Piece(call.place, call.id, call.name, made.arguments[call.sent :], False))
        return pieces

    @property
    def places(self) -> dict[str, int]:
        """Of the calls that went out, by their ids."""
        return {call.id: call.place for call in self._calls.values() if call.place >= 0}

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _is_live(self) -> bool:
        if self._live is None:
            self._live = self._plan.announces_calls and not (self._start is not None and self._start.last)
        return self._live

    def _announce(self) -> list[Piece]:
        pieces: list[Piece] = []
        for index in range(len(self._calls)):
            call = self._calls.get(index)
            if call is None or not (call.has_begun and call.id):
                break
            if call.stays or call.place >= 0:
                continue
            if call.name not in self._certain:
                if self._goes_out(offered_name(call.name, self._callers)):
                    break  # at the end of the turn, perhaps; and those after it then too
                call.stays = True
                call.waiting = []
                continue
            if any(other.id == call.id for other in self._calls.values() if other is not call):
                break
            pieces.append(self._first(call, "".join(call.waiting)))
            call.waiting = []
        return pieces

    def _first(self, call: _Call, arguments: str) -> Piece:
        call.place = self._announced
        call.sent = len(arguments)
        self._announced += 1
        return Piece(call.place, call.id, call.name, arguments, True)

    def _goes_out(self, name: str) -> bool:
        """Where the caller runs the loop, it gets what the model wrote; else the calls of its tools that are allowed."""
        return name not in self._without and (not self._plan.runs_tools or name in self._callers)

    @property
    def _certain(self) -> frozenset[str]:
        """Names whose calls go out, whatever else the turn says."""
        return self._sets[1]

    @property
    def _callers(self) -> frozenset[str]:
        return self._sets[0]

    @property
    def _sets(self) -> tuple[frozenset[str], frozenset[str]]:
        if self._names is None:  # most turns make no call
            choice = self._plan.choice
            callers = frozenset(
                [tool.name for tool in self._plan.tools if tool.kind == "caller" and choice.allows(tool.name)]
            )
            certain = frozenset([name for name in callers if choice.allows(name, is_owed=self._owes)])
            self._names = callers, certain.difference(self._without)
        return self._names
