"""One run, seen as one choice of an answer: what was said in all.

Knows nothing of bytes: a stream and a plain answer are both made of this.
"""

from __future__ import annotations

from typing import Final, assert_never

from msgspec import Raw

from ronda.core.events import LogprobsDelta, NativeDelta, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.run import Run
from ronda.wire.endings import finish_reason
from ronda.wire.showing import (
    CallsGrew,
    Delta,
    Ended,
    Showing,
    Shown,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnBroke,
    TurnClosed,
    Withdrawn,
)

_PARAGRAPH: Final = "\n\n"


class Stretch:
    """Text that comes in rounds, each cut into pieces; an empty line stands between two rounds."""

    __slots__ = ("_is_later", "_pieces", "in_round")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_later = False  # the next piece begins a round, and others came before it
        self.in_round = False  # this round has said something

    def begin_round(self) -> None:
        self._is_later = bool(self._pieces)
        self.in_round = False

    def add(self, text: str) -> str:
        """Take a piece; what is to be shown of it, paragraph break included."""
        if self._is_later:
            self._is_later = False
            text = _PARAGRAPH + text
        self.in_round = True
        self._pieces.append(text)
        return text

    @property
    def all(self) -> str:
        return "".join(self._pieces)


class Choice:
    __slots__ = ("has_begun", "index", "logprobs", "reasoning", "refusal", "run", "showing", "text")

    def __init__(self, index: int, run: Run, *, whole_calls: bool) -> None:
        self.index = index
        self.run = run
        self.showing = Showing(run, choice=index, whole_calls=whole_calls)
        self.text = Stretch()
        self.reasoning = Stretch()
        self.refusal = Stretch()
        self.logprobs: list[Raw] = []
        self.has_begun = False  # a stream has shown something of it

    def begin_round(self) -> None:
        self.text.begin_round()
        self.reasoning.begin_round()
        self.refusal.begin_round()

    @property
    def finish_reason(self) -> str:
        return finish_reason(self.run.ended)

    def fold(self, shown: Shown) -> None:
        """For the plain answer, which needs no pieces."""
        match shown:
            case TurnBegan():
                self.begin_round()
            case TurnClosed(unseen=unseen):
                for piece in unseen:
                    self._add(piece)
            case Ended(text=text):
                if text:
                    self.text.begin_round()
                    self.text.add(text)
            case ToolBegan() | ToolEnded() | TurnBroke() | Withdrawn():
                pass
            case TextDelta() | ReasoningDelta() | RefusalDelta() | LogprobsDelta() | NativeDelta() | CallsGrew():
                pass
            case _:
                assert_never(shown)

    def _add(self, piece: Delta) -> None:
        match piece:
            case TextDelta(text=text):
                self.text.add(text)
            case ReasoningDelta(text=text):
                self.reasoning.add(text)
            case RefusalDelta(text=text):
                self.refusal.add(text)
            case LogprobsDelta(logprobs=logprobs):
                self.logprobs.append(logprobs)
            case _:
                assert_never(piece)
