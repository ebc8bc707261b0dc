"""A run's events → the text of its answer, piece by piece, and what of it was withdrawn.

Text is shown as it arrives until the turn turns out to ask for a tool: from then on nothing of that turn is shown, and what
was shown of it is withdrawn. The same goes for a turn that broke off and was asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from ronda.core.events import Event, LogprobsDelta, NativeDelta, ReasoningDelta, RefusalDelta, TextDelta, ToolProgressed
from ronda.core.transcript import final_text
from ronda.wire.shared import updates
from ronda.wire.shared.showing import Showing

if TYPE_CHECKING:
    from ronda.core.run import Run


class _Turn:
    """What is shown of one turn."""

    __slots__ = ("calls", "pieces", "withdrawn")

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.calls = False
        self.withdrawn = False


class Piece(str):
    """A piece of text. `withdrawn` turns true when it was not part of the answer after all."""

    __slots__ = ("_turn",)
    _turn: _Turn

    def __new__(cls, text: str, turn: _Turn) -> Piece:
        made = super().__new__(cls, text)
        made._turn = turn
        turn.pieces.append(made)
        return made

    @property
    def withdrawn(self) -> bool:
        return self._turn.withdrawn


class AnswerText:
    """Events → the pieces to show now. No clock, no await: the same for every way to read a stream."""

    def __init__(self, hold: bool) -> None:
        self.hold = hold
        self.withdrawn: list[Piece] = []
        self._showing: Showing | None = None
        self._turn = _Turn()
        self._held: list[str] = []

    @property
    def pieces(self) -> list[Piece]:
        """Of the turn that was shown last."""
        return list(self._turn.pieces)

    @property
    def text(self) -> str:
        return "" if self._turn.withdrawn else "".join(self._turn.pieces)

    def take(self, run: Run, batch: Sequence[Event]) -> list[Piece]:
        showing = self._showing = self._showing or Showing(run)
        out: list[Piece] = []
        for event in batch:
            if type(event) is TextDelta:
                if self.hold or showing.holds_text:
                    self._held.append(event.text)
                elif not self._turn.calls:
                    out.append(Piece(event.text, self._turn))
            elif (update := showing.take(event)) is not None:
                self._show(run, update, out)
        return out

    def _show(self, run: Run, update: updates.Update, out: list[Piece]) -> None:
        match update:
            case updates.CallsGrew():
                self._turn.calls = True
                self._withdraw()
            case updates.TurnClosed(turn=turn):
                if turn.calls and run.runs_tools:
                    self._withdraw()
            case updates.TurnBegan():
                self._withdraw()  # the turn before was not the answer, whatever it was
                self._turn = _Turn()
            case updates.Withdrawn():
                self._withdraw()
            case updates.Ended():
                if update.failure is None:
                    out += self._rest(run)
            case TextDelta() | ReasoningDelta() | RefusalDelta() | LogprobsDelta() | NativeDelta() | ToolProgressed():
                pass
            case (
                updates.TurnBroke()
                | updates.ToolBegan()
                | updates.ToolEnded()
                | updates.QuestionAsked()
                | updates.QuestionClosed()
                | updates.Paused()
            ):
                pass
            case _:
                assert_never(update)

    def _withdraw(self) -> None:
        self._held = []
        if self._turn.pieces and not self._turn.withdrawn:
            self._turn.withdrawn = True
            self.withdrawn += self._turn.pieces

    def _rest(self, run: Run) -> list[Piece]:
        """What of the answer was not shown yet: all of it, where it was held or came in one piece."""
        if run.ended is not None and run.ended.reason == "tool_calls":
            return []
        final, shown = final_text(run), self.text
        if not final.startswith(shown) or self._turn.withdrawn:
            self._withdraw()
            self._turn, shown = _Turn(), ""
        rest = final[len(shown) :]
        pieces = self._held if "".join(self._held) == rest else [rest]
        return [Piece(piece, self._turn) for piece in pieces if piece]
