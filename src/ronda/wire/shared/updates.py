"""What a watcher of an answer is told about it: a closed union, `Update`, which every dialect writes in its own words.

`showing` makes updates from a run's events. Pieces of text are the previews of the run themselves: nearly all there is to show
is text, and an object for each piece would cost more than writing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ronda.core.events import (
    Answered,
    LogprobsDelta,
    ModelInterrupted,
    ModelStarted,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    TextDelta,
    ToolProgressed,
)
from ronda.core.live_calls import Piece
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult
from ronda.wire.shared.approvals import Approval
from ronda.wire.shared.failures import Failure
from ronda.wire.shared.preview import ArgumentPatches

Delta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | LogprobsDelta


class TurnBegan(Struct, frozen=True, gc=False):
    """`broken` is the attempt before: what was shown of it is not part of the answer."""

    start: ModelStarted
    broken: ModelInterrupted | None


class CallsGrew(Struct, frozen=True, gc=False):
    """Calls that are being written, and the pieces of the caller's that go out. The first of each announces its call.

    `previews` are of our tools' calls: what is new of the arguments that are worth watching.
    """

    pieces: Sequence[Piece] = ()
    previews: Sequence[ArgumentPatches] = ()


class TurnClosed(Struct, frozen=True, gc=False):
    """A turn is whole. `unseen` and `pieces` are what of it was not shown yet, in its order."""

    turn: AssistantTurn
    at: float
    unseen: Sequence[Delta]
    pieces: Sequence[Piece]
    previews: Sequence[ArgumentPatches] = ()  # where what runs is not what was shown of it
    denied: Sequence[ToolEnded] = ()  # its calls that are not permitted: they began, and ended, with it


class TurnBroke(Struct, frozen=True, gc=False):
    turn: AssistantTurn
    at: float
    unseen: Sequence[Delta]


class ToolBegan(Struct, frozen=True, gc=False):
    """`was_asked`: of a call that people have approved, and which was announced when they were asked."""

    call: ToolCall
    at: float
    was_asked: bool = False


class ToolEnded(Struct, frozen=True, gc=False):
    """`files` are those that it made, as `wire.shared.made_files` writes them."""

    call: ToolCall
    result: ToolResult
    at: float
    files: Sequence[dict[str, Any]] = ()


class QuestionAsked(Struct, frozen=True, gc=False):
    """A person has to decide about a call. `is_news`: the call was not announced before."""

    call: ToolCall
    approval: Approval
    at: float
    is_news: bool


class QuestionClosed(Struct, frozen=True, gc=False):
    """A person decided, or the time to decide is over. `ended` are the calls that do not run because of it."""

    approval: Approval
    answer: Answered
    ended: Sequence[ToolEnded] = ()
    rewritten: CallsGrew | None = None  # where the call is watched, and runs with other arguments


class Paused(Struct, frozen=True, gc=False):
    """The answer ends here for now: its run waits for people, and the client does not wait any longer."""

    approvals: Sequence[Approval]
    failure: Failure  # what is said where there are no words for it


class Withdrawn(Struct, frozen=True, gc=False):
    """What the turn said is not the answer, for doors that can take it back."""


class Ended(Struct, frozen=True, gc=False):
    """`text` is what no turn has shown: the loop's own words, or an answer that was held until it was checked.

    `calls` are the caller's, `late` those of them that have not gone out. `files` are those that were wanted and not made.
    """

    end: RunFinished
    text: str
    calls: Sequence[ToolCall]
    late: Sequence[ToolCall]
    failure: Failure | None
    files: Sequence[dict[str, Any]] = ()


Update: TypeAlias = (
    Delta
    | NativeDelta
    | ToolProgressed
    | CallsGrew
    | TurnBegan
    | TurnClosed
    | TurnBroke
    | ToolBegan
    | ToolEnded
    | QuestionAsked
    | QuestionClosed
    | Withdrawn
    | Paused
    | Ended
)


def ended_by(failure: Failure) -> Ended:
    """An answer of which nothing more is written, although its run has no end."""
    return Ended(RunFinished("failed", message=failure.message), "", (), (), failure)
