"""Previews of an answer → whether one who watches was shown something, and what a broken-off answer had said so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from ronda.core.events import (
    CallDelta,
    LogprobsDelta,
    ModelStarted,
    NativeDelta,
    Preview,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolProgressed,
)
from ronda.core.live_calls import LiveCalls
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Refusal, Text
from ronda.core.plan import Plan


def was_shown(previews: Sequence[Preview], plan: Plan, start: ModelStarted) -> bool:
    """Whether one who watches has seen something of these. The plan decides that, and not whether a client does watch."""
    for preview in previews:
        match preview:
            case TextDelta(text=text):
                if text and not plan.holds_text:
                    return True
            case ReasoningDelta(text=text) | RefusalDelta(text=text):
                if text:
                    return True
            case CallDelta() | ToolProgressed():
                pass
            case LogprobsDelta():
                if not plan.holds_text:
                    return True
            case NativeDelta():
                return True
            case _:
                assert_never(preview)
    return announces(previews, plan, start)


def announces(previews: Iterable[Preview], plan: Plan, start: ModelStarted) -> bool:
    """Whether they announce a call to the caller, which cannot be taken back."""
    calls = LiveCalls(plan, start)
    return any(calls.add(preview) for preview in previews if type(preview) is CallDelta)


def fold(previews: Iterable[Preview]) -> AssistantTurn:
    """The turn that was shown so far. Calls are left out: an incomplete call must never look like one."""
    thought: list[str] = []
    texts: list[str] = []
    refused: list[str] = []
    for preview in previews:
        match preview:
            case TextDelta(text=text):
                texts.append(text)
            case ReasoningDelta(text=text):
                thought.append(text)
            case RefusalDelta(text=text):
                refused.append(text)
            case CallDelta() | LogprobsDelta() | NativeDelta() | ToolProgressed():
                pass
            case _:
                assert_never(preview)
    parts: list[AssistantPart] = []
    if thought:
        parts.append(Reasoning("".join(thought)))
    if texts:
        parts.append(Text("".join(texts)))
    if refused:
        parts.append(Refusal("".join(refused)))
    return AssistantTurn(tuple(parts), "interrupted")
