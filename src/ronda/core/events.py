"""What happened in a run: facts in the past tense, and previews.

A durable event changes the run's state and is journaled. A preview shows something early (a delta); dropping all of them
changes nothing: not the result, not the durable events, not the transcript.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Raw, Struct

from ronda.core.limits import LimitName
from ronda.core.parts import NO_USAGE, NULL, AssistantTurn, ToolResult, Turn, Usage
from ronda.core.plan import Plan

# ---- previews ---------------------------------------------------------------------------------------------------------


class TextDelta(Struct, frozen=True, gc=False, tag="text_delta"):
    text: str


class ReasoningDelta(Struct, frozen=True, gc=False, tag="reasoning_delta"):
    text: str


class RefusalDelta(Struct, frozen=True, gc=False, tag="refusal_delta"):
    text: str


class CallDelta(Struct, frozen=True, gc=False, tag="call_delta"):
    """A tool call grows. `index` counts the calls of this turn; `id` and `name` are what is known of them so far."""

    index: int
    id: str
    name: str
    arguments: str


class LogprobsDelta(Struct, frozen=True, gc=False, tag="logprobs_delta"):
    """Token probabilities of the text just shown, in the provider's JSON."""

    logprobs: Raw


# ---- facts ------------------------------------------------------------------------------------------------------------


class RunStarted(Struct, frozen=True, gc=False, tag="run_started", omit_defaults=True):
    """The input is the first event. `parent` is the run, and the number of its event, that this one goes on from."""

    run: str
    plan: Plan
    turns: tuple[Turn, ...]
    at: float = 0.0
    parent: tuple[str, int] | None = None
    session: str = ""
    owner: str = ""  # whose key started it: nobody else may see it
    sibling: int = 0  # which of several choices this is
    about: dict[str, Raw] = {}  # what a door wants to know again when it writes the answer anew


class ModelStarted(Struct, frozen=True, gc=False, tag="model_started", omit_defaults=True):
    round: int
    last: bool = False  # the last one: a limit was reached, tools are off
    nudge: str | None = None  # said to the model because its answer before was not what was asked for
    at: float = 0.0


class ModelRetried(Struct, frozen=True, gc=False, tag="model_retried", omit_defaults=True):
    """A try failed before anything was shown; the next one comes after `wait` seconds."""

    attempt: int
    tries: int
    reason: str
    wait: float = 0.0
    at: float = 0.0


class ModelFinished(Struct, frozen=True, gc=False, tag="model_finished", omit_defaults=True):
    turn: AssistantTurn
    usage: Usage = NO_USAGE
    logprobs: Raw = NULL
    at: float = 0.0


class ModelInterrupted(Struct, frozen=True, gc=False, tag="model_interrupted", omit_defaults=True):
    """The answer broke off after part of it was shown. The next attempt is a new item, never a silent repeat."""

    turn: AssistantTurn
    reason: str
    at: float = 0.0


class ModelFailed(Struct, frozen=True, gc=False, tag="model_failed", omit_defaults=True):
    """All tries are used up, or trying again would not help."""

    reason: str
    status: int | None = None
    tries: int = 1
    at: float = 0.0


class ToolStarted(Struct, frozen=True, gc=False, tag="tool_started", omit_defaults=True):
    """Journaled before the tool starts, so that a crash never leaves a call that may have run unrecorded."""

    call_id: str
    at: float = 0.0


class ToolFinished(Struct, frozen=True, gc=False, tag="tool_finished", omit_defaults=True):
    """A tool answered, or failed trying. The model reads `result` either way."""

    result: ToolResult
    at: float = 0.0


class Checked(Struct, frozen=True, gc=False, tag="checked", omit_defaults=True):
    """The answer was looked at. A `problem` names the place and what is wrong there."""

    problem: str | None = None
    at: float = 0.0


class Warned(Struct, frozen=True, gc=False, tag="warned", omit_defaults=True):
    """Something the caller should hear of that did not stop the run."""

    message: str
    at: float = 0.0


EndReason: TypeAlias = Literal["stop", "length", "content_filter", "tool_calls", "limit", "failed", "cancelled"]


class RunFinished(Struct, frozen=True, gc=False, tag="run_finished", omit_defaults=True):
    """`tool_calls`: the caller's turn. `limit` names what was reached; `answer` is said where the model said nothing."""

    reason: EndReason
    limit: LimitName | None = None
    message: str | None = None
    answer: str | None = None
    at: float = 0.0


Preview: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | CallDelta | LogprobsDelta
Fact: TypeAlias = (
    RunStarted
    | ModelStarted
    | ModelRetried
    | ModelFinished
    | ModelInterrupted
    | ModelFailed
    | ToolStarted
    | ToolFinished
    | Checked
    | Warned
    | RunFinished
)
Event: TypeAlias = Preview | Fact

PREVIEWS = frozenset({TextDelta, ReasoningDelta, RefusalDelta, CallDelta, LogprobsDelta})
