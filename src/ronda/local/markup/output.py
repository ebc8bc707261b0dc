"""What was read → previews as it is read, and one turn at the end.

The turn is the fold of the previews: text after text is one part, and so is thought after thought. Pieces that come in one
`feed` are one preview, so that reading character by character costs no more to show than reading lines.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ronda.core.events import CallDelta, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Stop, Text, ToolCall

_Kind: TypeAlias = Literal["text", "reasoning", "call"]


class _Part:
    __slots__ = ("complete", "index", "kind", "name", "pieces", "shown")

    def __init__(self, kind: _Kind, name: str = "", index: int = 0) -> None:
        self.kind = kind
        self.name = name
        self.index = index  # which of the calls this is
        self.pieces: list[str] = []
        self.shown = 0  # how many of the pieces were in a preview
        self.complete = False


class Out:
    def __init__(self) -> None:
        self.calls = 0
        self.cut = False  # something that began as a call has no name yet, and never will
        self._parts: list[_Part] = []
        self._unshown = 0  # parts before this one will not grow
        self._named = 0  # calls already announced

    def text(self, piece: str) -> None:
        self._add("text", piece)

    def reasoning(self, piece: str) -> None:
        self._add("reasoning", piece)

    def open(self, name: str) -> None:
        self._parts.append(_Part("call", name, self.calls))
        self.calls += 1

    def arguments(self, piece: str) -> None:
        """More of the arguments of the call opened last."""
        if piece:
            self._parts[-1].pieces.append(piece)

    def close(self) -> None:
        self._parts[-1].complete = True

    def _add(self, kind: _Kind, piece: str) -> None:
        if not piece:
            return
        if not self._parts or self._parts[-1].kind != kind:
            self._parts.append(_Part(kind))
        self._parts[-1].pieces.append(piece)

    def take(self) -> list[Preview]:
        """The previews of what came since the last time."""
        found: list[Preview] = []
        for part in self._parts[self._unshown :]:
            piece = "".join(part.pieces[part.shown :])
            part.shown = len(part.pieces)
            if part.kind == "call":
                if piece or part.index == self._named:
                    found.append(CallDelta(part.index, "", part.name, piece))
                self._named = max(self._named, part.index + 1)
            elif piece:
                found.append(TextDelta(piece) if part.kind == "text" else ReasoningDelta(piece))
        self._unshown = max(0, len(self._parts) - 1)
        return found

    def turn(self, stop: Stop) -> AssistantTurn:
        parts: list[AssistantPart] = []
        for part in self._parts:
            text = "".join(part.pieces)
            if part.kind == "call":
                parts.append(ToolCall("", part.name, text))
            else:
                parts.append(Text(text) if part.kind == "text" else Reasoning(text))
        if stop in ("stop", "tool_calls"):
            whole = all(part.complete for part in self._parts if part.kind == "call")
            # Half a call is no call: it is shown, and nothing of its turn runs.
            stop = "length" if self.cut or not whole else "tool_calls" if self.calls else "stop"
        return AssistantTurn(tuple(parts), stop)
