"""One run, seen as one choice of an answer: the fold of its events.

What was said in all, what of it was shown already, which calls were handed out, what the loop's own tools did. Knows nothing
of bytes: a stream and a plain answer are both made of this.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from ronda.core.events import Event, ModelFinished, ModelStarted, RunFinished, ToolFinished, Warned
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


class Handed:
    """How much of a caller's call has been streamed."""

    __slots__ = ("arguments", "id", "name", "waiting")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = 0
        self.waiting: list[str] = []


class Choice:
    """A stream feeds it piece by piece (`add`, `rest`, `hand`), a plain answer whole (`fold`)."""

    __slots__ = ("_handed", "held", "index", "live_calls", "logprobs", "refused", "run", "said", "text_started", "thought",
                 "tools", "warnings")  # fmt: skip

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
        self.live_calls = not run.runs_tools and run.plan.choice.mode != "none"
        self.held = run.plan.holds_text  # shown when the run is over, and only the answer
        self._handed: dict[int, Handed] = {}

    def begin_round(self, round: int) -> None:
        self.tools.round = round
        self._handed = {}
        self.said.begin_round()
        self.thought.begin_round()
        self.refused.begin_round()

    def hand(self, index: int) -> Handed:
        if index not in self._handed:
            self._handed[index] = Handed()
        return self._handed[index]

    def is_taken(self, id: str) -> bool:
        return any(handed.id == id for handed in self._handed.values())

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
            case ModelStarted(round=round):
                self.begin_round(round)
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
