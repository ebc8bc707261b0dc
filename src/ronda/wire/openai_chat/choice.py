"""One run, seen as one choice of an answer: the fold of its events.

What was said in all, what of it was shown already, which calls were handed out, what the loop's own tools did. Knows nothing
of bytes: a stream and a plain answer are both made of this.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from ronda.core.events import (
    Event,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    RunFinished,
    ToolFinished,
    Warned,
)
from ronda.core.live import LiveCalls
from ronda.core.output import final_text
from ronda.core.parts import NULL
from ronda.core.run import Run
from ronda.wire.endings import finish_reason, has_answer
from ronda.wire.own_tools import OwnTools

_PARAGRAPH = "\n\n"


class Stretch:
    """Text that comes in rounds, each cut into pieces: what was said in all, and what of this round was shown."""

    __slots__ = ("_pieces", "_said_before", "shown")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._said_before = False
        self.shown = 0  # characters of this round

    def begin_round(self) -> None:
        self._said_before = self._said_before or self.shown > 0
        self.shown = 0

    def add(self, text: str) -> str:
        """Take a piece; what of it is to be shown, paragraph break included."""
        if not text:
            return ""
        if self.shown == 0 and self._said_before:
            self.shown = len(text)
            text = _PARAGRAPH + text
        else:
            self.shown += len(text)
        self._pieces.append(text)
        return text

    def rest(self, whole: str) -> str:
        """What of this round's whole text was not shown yet: everything, when nobody sent previews."""
        return self.add(whole[self.shown :]) if len(whole) > self.shown else ""

    @property
    def all(self) -> str:
        return "".join(self._pieces)


class Choice:
    """A stream feeds it piece by piece (`add`, `rest`), a plain answer whole (`fold`)."""

    __slots__ = (
        "broken",
        "calls",
        "held",
        "index",
        "logprobs",
        "refused",
        "run",
        "said",
        "text_started",
        "thought",
        "tools",
        "warnings",
    )  # fmt: skip

    def __init__(self, index: int, run: Run) -> None:
        self.index = index
        self.run = run
        self.tools = OwnTools(index)
        self.said = Stretch()
        self.thought = Stretch()
        self.refused = Stretch()
        self.logprobs: list[Raw] = []
        self.warnings: list[str] = []
        self.text_started = False
        self.broken: ModelInterrupted | None = None  # the attempt before this one
        self.calls = LiveCalls(run.plan)
        self.held = run.plan.holds_text  # shown when the run is over, and only the answer

    def begin_round(self, start: ModelStarted) -> None:
        self.broken = None
        self.tools.round = start.round
        self.calls = LiveCalls(self.run.plan, start)
        self.said.begin_round()
        self.thought.begin_round()
        self.refused.begin_round()

    @property
    def finish_reason(self) -> str:
        return finish_reason(self.run.ended)

    def fold(self, batch: Sequence[Event]) -> None:
        """Take events for the plain answer, which has no use for previews."""
        for event in batch:
            match event:
                case ModelFinished(turn=turn):
                    self.thought.rest(turn.reasoning)
                    if not self.held:
                        self.said.rest(turn.text)
                    self.refused.rest(turn.refusal)
                    self.tools.asked(turn.calls)
                    if event.logprobs != NULL:
                        self.logprobs.append(event.logprobs)
                case ToolFinished():
                    self.tools.record(event.result)
                case RunFinished():
                    self.last_answer(event)
                case _:
                    self.note(event)

    def note(self, event: Event) -> None:
        match event:
            case ModelStarted():
                self.begin_round(event)
            case ModelRetried():
                self.calls = self.calls.anew()
            case ModelInterrupted():
                self.broken = event
            case Warned(message=message):
                self.warnings.append(message)
            case _:
                pass

    def last_answer(self, end: RunFinished) -> str | None:
        """Text that no model turn has shown: the loop's own words, or an answer that was held until it was checked."""
        answer = end.answer
        if answer is None and self.held and has_answer(end):
            answer = final_text(self.run)
        if not answer:
            return None
        self.said.begin_round()
        return self.said.add(answer)
