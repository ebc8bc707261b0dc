"""What a run asks for next. Computed by `Run.todo`, carried out by `drive`."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ronda.core.events import EndReason
from ronda.core.limits import LimitName
from ronda.core.parts import ToolCall


class CallModel(Struct, frozen=True, gc=False):
    """`last`: a limit was reached, so tools are off and whatever comes is the answer."""

    round: int
    last: bool = False


class CallTool(Struct, frozen=True, gc=False):
    call: ToolCall


class Finish(Struct, frozen=True, gc=False):
    reason: EndReason
    limit: LimitName | None = None
    message: str | None = None
    answer: str | None = None


Action: TypeAlias = CallModel | CallTool | Finish
