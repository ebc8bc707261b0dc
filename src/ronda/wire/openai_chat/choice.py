"""One run, seen as one choice of an answer: what was said in all.

Knows nothing of bytes: a stream and a plain answer are both made of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Raw, Struct, field

from ronda.core.events import Event, LogprobsDelta, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.run import Run
from ronda.wire.shared import updates
from ronda.wire.shared.showing import Showing
from ronda.wire.web.citations import Citation, cite

_PARAGRAPH: Final = "\n\n"


class Stretch(Struct):
    """Text that comes in rounds, each cut into pieces; an empty line stands between two rounds."""

    pieces: list[str] = []
    round: int = -1  # of the last piece

    def add(self, text: str, round_index: int) -> str:
        """Take a piece; what is to be shown of it, paragraph break included."""
        if self.round != round_index:
            self.round = round_index
            if self.pieces:
                text = _PARAGRAPH + text
        self.pieces.append(text)
        return text

    def all(self) -> str:
        return "".join(self.pieces)


class Choice(Struct, eq=False):
    index: int
    run: Run
    showing: Showing
    round: int = 0  # counted here: the loop's own words are a round, too
    text: Stretch = field(default_factory=Stretch)
    reasoning: Stretch = field(default_factory=Stretch)
    refusal: Stretch = field(default_factory=Stretch)
    logprobs: list[Raw] = []
    has_begun: bool = False  # a stream has shown something of it
    goes_on: bool = False  # … and last of this round's text: more of it would be more of the same

    def citations(self) -> list[Citation]:
        """Which places of the text speak of sources that the model was shown."""
        if not self.showing.tools.sources:  # as of most answers
            return []
        sources = self.showing.sources
        return cite(self.text.all(), sources) if sources else []

    def begin_round(self) -> None:
        self.round += 1
        self.goes_on = False

    def fold(self, batch: Sequence[Event]) -> None:
        """For the plain answer, which is made of whole turns and needs no bytes of them."""
        for update in self.showing.fold(batch):
            if type(update) is updates.TurnClosed:
                for delta in update.unseen:
                    self._add(delta)
            elif type(update) is updates.TurnBegan:
                self.begin_round()
            elif type(update) is updates.Ended and update.text:
                self.begin_round()
                self.text.add(update.text, self.round)

    def _add(self, delta: updates.Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self.text.add(text, self.round)
            case ReasoningDelta(text=text):
                self.reasoning.add(text, self.round)
            case RefusalDelta(text=text):
                self.refusal.add(text, self.round)
            case LogprobsDelta(logprobs=logprobs):
                self.logprobs.append(logprobs)
            case _:
                assert_never(delta)
