"""How large turns and events are, roughly, for those who bound memory or time.

The one measure: the characters of all texts, and a little for every part, since there may be many that say nothing. Things are
looked at, never encoded: this is asked of every turn and every event, and most are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from ronda.core.events import (
    CallDelta,
    Checked,
    Compacted,
    Event,
    LogprobsDelta,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.parts import (
    AssistantPart,
    Audio,
    File,
    Image,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    Video,
)

PART: Final = 256  # what a part counts beside its text: to write it down takes as long as this many characters
_MANY: Final = 1024  # parts that are looked at one by one; where there are more, their number says enough


def turns_size(turns: Iterable[Turn], most: int) -> int:
    """Of a conversation; counted until it is more than `most`."""
    size = 0
    for turn in turns:
        size += turn_size(turn)
        if size > most:
            break
    return size


def turn_size(turn: Turn) -> int:
    if isinstance(turn, ToolTurn):
        results = turn.results
        if len(results) > _MANY:
            return PART * len(results)
        size = 0
        for result in results:
            size += _result_size(result)
        return size
    if isinstance(turn, SystemTurn):
        size = PART + len(turn.text)
    else:
        size = _parts_size(turn.parts)
    return size if turn.native is None else size + memoryview(turn.native.payload).nbytes


def _result_size(result: ToolResult) -> int:
    size = PART + len(result.content)
    return size + _parts_size(result.attachments) if result.attachments else size


def _parts_size(parts: Sequence[UserPart | AssistantPart]) -> int:
    size = PART * len(parts)
    if len(parts) > _MANY:
        return size
    for part in parts:
        if isinstance(part, Text):  # nearly all of them
            size += len(part.text)
        elif isinstance(part, ToolCall):
            size += len(part.name) + len(part.arguments) + len(part.written or "")
        else:
            match part:
                case Reasoning(text=text) | Refusal(text=text):
                    size += len(text)
                case Image(url=url) | Video(url=url):
                    size += len(url)
                case Audio(data=data):
                    size += len(data)
                case File(data=content, name=name):
                    size += len(content or "") + len(name or "")
                case _:
                    assert_never(part)
    return size


def event_size(event: Event, most: int) -> int:
    """Of an event; that of a conversation is counted until it is more than `most`."""
    match event:
        case ModelFinished(turn=turn) | ModelInterrupted(turn=turn) | Steered(turn=turn):
            return turn_size(turn)
        case ToolFinished(result=result):
            return _result_size(result)
        case RunStarted(turns=turns, plan=plan):
            size = turns_size(turns, most)
            for tool in plan.tools:
                size += memoryview(tool.parameters).nbytes
            return size
        case TextDelta(text=text) | ReasoningDelta(text=text) | RefusalDelta(text=text):
            return len(text)
        case CallDelta(arguments=arguments):
            return len(arguments)
        case LogprobsDelta(logprobs=payload) | NativeDelta(payload=payload):
            return memoryview(payload).nbytes
        case Checked(rewrite=rewrite):
            return turns_size(rewrite, most) if isinstance(rewrite, tuple) else len(rewrite or "")
        case Compacted(summary=summary):
            return len(summary)
        case ModelStarted() | ModelRetried() | ModelFailed() | ToolStarted() | Warned() | RunFinished():
            return 0
        case _:
            assert_never(event)


# Facts that are always small, and many: not worth a look.
SMALL: Final = frozenset({ModelStarted, ToolStarted, Warned, RunFinished})
