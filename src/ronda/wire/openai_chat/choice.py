"""One run, seen as one choice of an answer: what was said in all.

Knows nothing of bytes: a stream and a plain answer are both made of this.
"""

from __future__ import annotations

from typing import Final, assert_never

from msgspec import Raw

from ronda.core.events import Event, LogprobsDelta, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.run import Run
from ronda.wire.showing import Delta, Ended, Showing, TurnBegan, TurnClosed

_PARAGRAPH: Final = "\n\n"


class Stretch:
    """Text that comes in rounds, each cut into pieces; an empty line stands between two rounds."""

    __slots__ = ("_is_later", "in_round", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._is_later = False  # the next piece begins a round, and others came before it
        self.in_round = False  # this round has said something

    def begin_round(self) -> None:
        self._is_later = bool(self.pieces)
        self.in_round = False

    def add(self, text: str) -> str:
        """Take a piece; what is to be shown of it, paragraph break included."""
        if self._is_later:
            self._is_later = False
            text = _PARAGRAPH + text
        self.in_round = True
        self.pieces.append(text)
        return text

    @property
    def all(self) -> str:
        return "".join(self.pieces)


class Choice:
    __slots__ = ("has_begun", "index", "logprobs", "reasoning", "refusal", "run", "showing", "text")

    def __init__(self, index: int, run: Run, *, whole_calls: bool) -> None:
        self.index = index
        self.run = run
        self.showing = Showing(run, choice=index, whole_calls=whole_calls, id_prefix="call_")
        self.text = Stretch()
        self.reasoning = Stretch()
        self.refusal = Stretch()
        self.logprobs: list[Raw] = []
        self.has_begun = False  # a stream has shown something of it

    def begin_round(self) -> None:
        self.text.begin_round()
        self.reasoning.begin_round()
        self.refusal.begin_round()

    def fold(self, event: Event) -> None:
        """For the plain answer, which is made of whole turns and needs no bytes of them."""
        shown = self.showing.take(event)
        if type(shown) is TurnBegan:
            self.begin_round()
        elif type(shown) is TurnClosed:
            for delta in shown.unseen:
                self._add(delta)
        elif type(shown) is Ended and shown.text:
            self.text.begin_round()
            self.text.add(shown.text)

    def _add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self.text.add(text)
            case ReasoningDelta(text=text):
                self.reasoning.add(text)
            case RefusalDelta(text=text):
                self.refusal.add(text)
            case LogprobsDelta(logprobs=logprobs):
                self.logprobs.append(logprobs)
            case _:
                assert_never(delta)
