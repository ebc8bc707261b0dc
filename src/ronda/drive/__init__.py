"""The one place that awaits for a run: does what `Run.todo` says and reports what happened as events.

    emit(batch)    takes events at once and never waits: journal and log are behind it. False: who follows is far behind
    room()         waits until that is no longer so; a provider awaits it before it reads on
    barrier()      waits until everything emitted is kept; before a tool starts, and before the end is shown

What it asks of others are two small protocols, `Provider` and `Tool`. It knows no vendor, no HTTP and no storage. Cancelling
the task that drives a run stops it: nothing keeps running, and what was shown is kept. The run ends `cancelled`, or
`interrupted`, or stays as it is for somebody else to drive on, as `why_stopped` says.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from ronda.core.guardrails import Guardrails
from ronda.core.request import Wait
from ronda.core.run import Run
from ronda.core.steering import Steering
from ronda.drive.contracts import (
    Barrier,
    Capabilities,
    Emit,
    Exclusive,
    LongResults,
    OpenLongResults,
    Provider,
    Show,
    StartChild,
    StopReason,
    Summarize,
    Tool,
    ToolContext,
    ToolOutput,
    capabilities_of,
    child_id,
)
from ronda.drive.driver import Driver
from ronda.drive.inbox import Inbox, Message, check_answer

__all__ = [
    "Barrier",
    "Capabilities",
    "Emit",
    "Exclusive",
    "Inbox",
    "LongResults",
    "Message",
    "OpenLongResults",
    "Provider",
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
    "drive",
]


def drive(
    run: Run,
    *,
    provider: Provider,
    tools: Mapping[str, Tool],
    emit: Emit,
    barrier: Barrier | None = None,
    exclusive: Exclusive | None = None,
    steering: Steering | None = None,
    inbox: Inbox | None = None,
    guardrails: Guardrails | None = None,
    summarize: Summarize | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    start_child: StartChild | None = None,
    room: Wait | None = None,
    why_stopped: Callable[[], StopReason] | None = None,
    workspace: str | None = None,
    at_once: bool = False,
    now: Callable[[], float] = time.time,
    jitter: Callable[[], float] = random.random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Coroutine[Any, Any, None]:
    """Drive a run to its end, or until it `is_waiting`: then it can be driven on when somebody has answered.

    Raises CancelledError after recording that the run was cancelled. What the run's plan asks for besides is given here:
    `guardrails`, who sums up (`summarize`; else an excerpt will do), what people say meanwhile (`steering`) and send to it
    (`inbox`: their answers), how tools start agents (`start_child`), and a folder for them (`workspace`). `is_cancelled` is
    asked before every step, for those who cannot wait for the next await. With `at_once` a model call is told of before it
    is made, also where nobody is shown previews.
    """
    driver = Driver(run, provider, tools, emit, barrier)
    driver.exclusive = exclusive
    driver.now, driver.jitter, driver.sleep = now, jitter, sleep
    driver.steering = steering
    driver.inbox = inbox
    driver.guardrails = guardrails
    driver.summarize = summarize
    driver.is_cancelled = is_cancelled
    driver.start_child = start_child
    driver.room = room
    driver.why_stopped = why_stopped
    driver.workspace = workspace
    driver.at_once = at_once
    return driver.drive()
