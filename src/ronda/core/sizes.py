"""How large an event is, roughly: the characters of the texts in it, for those who bound memory or time.

Looked at, never encoded: this is asked of every event, and most are small.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    match event:
        case TextDelta(text=text) | ReasoningDelta(text=text) | RefusalDelta(text=text):
            return len(text)
        case CallDelta(arguments=arguments):
            return len(arguments)
        case LogprobsDelta(logprobs=raw) | NativeDelta(payload=raw):
            return memoryview(raw).nbytes
        case ModelFinished(turn=turn) | ModelInterrupted(turn=turn):
            return _turn_size(turn)
        case ToolFinished(result=result):
            return _result_size(result)
        case RunStarted(turns=turns):
            return sum([_turn_size(turn) for turn in turns])
        case _:
            return 0


def _turn_size(turn: Turn) -> int:
    match turn:
        case AssistantTurn(parts=parts, native=native):
            size = sum([len(part.arguments if isinstance(part, ToolCall) else part.text) for part in parts])
            return size if native is None else size + memoryview(native.payload).nbytes
        case UserTurn(parts=parts):
            return _parts_size(parts)
        case ToolTurn(results=results):
            return sum([_result_size(result) for result in results])
        case SystemTurn(text=text):
            return len(text)


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
