"""How large an event is, roughly: the characters of the texts in it, for those who bound memory or time.

Looked at, never encoded: this is asked of every event, and most are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ronda.core.events import (
    CallDelta,
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelInterrupted,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    RunStarted,
    TextDelta,
    ToolFinished,
)
from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)


def text_size(event: Event) -> int:
    measure = _SIZES.get(type(event))
    return measure(event) if measure is not None else 0


def _turn_size(turn: Turn) -> int:
    if type(turn) is AssistantTurn:
        size = sum([len(part.arguments if isinstance(part, ToolCall) else part.text) for part in turn.parts])
        return size if turn.native is None else size + memoryview(turn.native.payload).nbytes
    if type(turn) is UserTurn:
        return _parts_size(turn.parts)
    if type(turn) is ToolTurn:
        return sum([_result_size(result) for result in turn.results])
    assert type(turn) is SystemTurn
    return len(turn.text)


def _result_size(result: ToolResult) -> int:
    return len(result.content) + (_parts_size(result.attachments) if result.attachments else 0)


def _parts_size(parts: Sequence[UserPart]) -> int:
    size = 0
    for part in parts:
        match part:
            case Text(text=text):
                size += len(text)
            case Image(url=url) | Video(url=url):
                size += len(url)
            case Audio(data=data) | File(data=data):
                size += len(data or "")
    return size


# By type, not by `match`: asked of every event, one class pattern after the other adds up.
_SIZES: Final[dict[type, Callable[[Any], int]]] = {
    TextDelta: lambda event: len(event.text),
    ReasoningDelta: lambda event: len(event.text),
    RefusalDelta: lambda event: len(event.text),
    CallDelta: lambda event: len(event.arguments),
    LogprobsDelta: lambda event: memoryview(event.logprobs).nbytes,
    NativeDelta: lambda event: memoryview(event.payload).nbytes,
    ModelFinished: lambda event: _turn_size(event.turn),
    ModelInterrupted: lambda event: _turn_size(event.turn),
    ToolFinished: lambda event: _result_size(event.result),
    RunStarted: lambda event: sum([_turn_size(turn) for turn in event.turns]),
}
