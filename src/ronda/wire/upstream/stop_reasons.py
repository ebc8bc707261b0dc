"""Why an answer ended, as its server has it and as it is."""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.parts import AssistantPart, Stop, ToolCall


def stop_with(stop: Stop, parts: Sequence[AssistantPart]) -> Stop:
    """A turn that was not cut ends in calls if it has some. Many servers say "stop" anyway, and a few the reverse."""
    if stop not in ("stop", "tool_calls"):
        return stop
    for part in parts:
        if type(part) is ToolCall:
            return "tool_calls"
    return "stop"
