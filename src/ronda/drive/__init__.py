"""The one place that awaits for a run: does what `Run.todo` says and reports what happened as events.

    emit(batch)    takes events at once and never waits: journal and log are behind it. False: who follows is far behind
    room()         waits until that is no longer so; a provider awaits it before it reads on
    barrier()      waits until everything emitted is kept; before a tool starts, and before the end is shown

What it asks of others are two small protocols, `Provider` and `Tool`. It knows no vendor, no HTTP and no storage. Cancelling
the task that drives a run stops it: nothing keeps running, and what was shown is kept. The run ends `cancelled`, or
`interrupted`, or stays as it is for another driver, as `why_stopped` says.
"""

from __future__ import annotations

from ronda.drive.contracts import (
    Barrier,
    Emit,
    Exclusive,
    LongResults,
    OpenLongResults,
    StartChild,
    StopReason,
    Summarize,
    Tool,
    ToolContext,
    ToolOutput,
    child_id,
)
from ronda.drive.driver import Driver
from ronda.drive.inbox import Inbox, Message, Receipt, check_answer
from ronda.drive.model_state import ModelState
from ronda.drive.provider import Capabilities, Provider, Show, capabilities_of

__all__ = [
    "Barrier",
    "Capabilities",
    "Driver",
    "Emit",
    "Exclusive",
    "Inbox",
    "LongResults",
    "Message",
    "ModelState",
    "OpenLongResults",
    "Provider",
    "Receipt",
    "Show",
    "StartChild",
    "StopReason",
    "Summarize",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "capabilities_of",
    "check_answer",
    "child_id",
]
