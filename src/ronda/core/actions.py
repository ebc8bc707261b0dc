"""What a run asks for next. Computed by `Run.todo`, carried out by `drive`."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ronda.core.events import CheckStage, EndCode, EndReason
from ronda.core.limits import LimitName
from ronda.core.parts import ToolCall


class CallModel(Struct, frozen=True, gc=False):
    """`last`: a limit was reached, so tools are off and whatever comes is the answer.

    `nudge` is said to the model behind the conversation, this once: its last answer was not what was asked for. `owes`: its
    answer must make the call that `choice` asks for.
    """

    round: int
    last: bool = False
    nudge: str | None = None
    owes: bool = False


class CallTool(Struct, frozen=True, gc=False):
    call: ToolCall


class Ask(Struct, frozen=True, gc=False):
    """A person has to approve this call before it is run. It has the arguments it would run with."""

    call: ToolCall


class Check(Struct, frozen=True, gc=False):
    """To be checked before the run continues: at the answer's form, at what the model is shown, at what it said, at a call."""

    stage: CheckStage
    text: str = ""
    call: ToolCall | None = None


class Compact(Struct, frozen=True, gc=False):
    """The conversation outgrew its budget: sum up the turns shown before `upto`, but for the instructions and those `kept`."""

    upto: int
    kept: tuple[int, ...] = ()


class Finish(Struct, frozen=True, gc=False):
    reason: EndReason
    limit: LimitName | None = None
    message: str | None = None
    answer: str | None = None
    code: EndCode | None = None


Action: TypeAlias = CallModel | Ask | CallTool | Check | Compact | Finish
