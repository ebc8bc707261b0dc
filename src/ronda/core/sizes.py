"""How large turns and events are, roughly, for code that bounds memory or time.

The one measure: the characters of all texts, and a little for every part, since there may be many that say nothing. Things are
looked at, never encoded, and facts are looked at once, when they are applied (`RunState.size`): most are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from ronda.core.events import (
    Answered,
    Asked,
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
    Recovered,
    RefusalDelta,
    Released,
    RunFinished,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from ronda.core.parts import (
    NULL,
    AssistantPart,
    Audio,
    File,
    Image,
    KnownTurns,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolTurn,
    Turn,
    UserPart,
    Video,
)

# An event without its text, for stores of many: a Struct, a str's head, and its place in a list.
EVENT_BYTES: Final = 96
LARGE: Final = 64 << 20  # what need not be counted any further
PART: Final = 256  # what a part counts besides its text: to write it down takes as long as this many characters


def turns_size(turns: Iterable[Turn], limit: int) -> int:
    """Of a conversation; counted until it is more than `limit`. In one piece, since it is asked of every turn."""
    size = 0
    if type(turns) is KnownTurns:
        size, turns = turns.size, turns[turns.known :]
    for turn in turns:
        if isinstance(turn, ToolTurn):
            for result in turn.results:
                size += PART + len(result.content)
                for attachment in result.attachments:
                    size += _part_size(attachment)
        else:
            if isinstance(turn, SystemTurn):
                size += PART + len(turn.text)
            else:
                for part in turn.parts:
                    if type(part) is Text:
                        size += PART + len(part.text)
                    elif type(part) is ToolCall and part.written is None:
                        size += PART + len(part.arguments)
                    else:
                        size += _part_size(part)
            if turn.native is not None:
                size += memoryview(turn.native.payload).nbytes
        if size > limit:
            break
    return size


def _part_size(part: UserPart | AssistantPart) -> int:
    match part:
        case ToolCall(arguments=arguments, written=written):
            return PART + len(arguments) + len(written or "")
        case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
            return PART + len(text)
        case Image(url=url) | Video(url=url):
            return PART + len(url)
        case Audio(data=data):
            return PART + len(data)
        case File(data=content, name=name):
            return PART + len(content or "") + len(name or "")
        case _:
            assert_never(part)


def start_size(start: RunStarted, limit: int) -> int:
    size = turns_size(start.turns, limit)
    for tool in start.plan.tools:
        size += memoryview(tool.parameters).nbytes
    if start.file is not None:
        size += sum(map(len, start.file.files.values()))
    return size


def result_size(event: ToolFinished) -> int:
    result = event.result
    size = PART + len(result.content)
    if event.details is not NULL:
        size += memoryview(event.details).nbytes
    if result.attachments or event.files:
        size += sum(map(_part_size, (*result.attachments, *event.files)))
    return size


def event_size(event: Event, limit: int) -> int:
    """Of an event; that of a conversation is counted until it is more than `limit`."""
    match event:
        case ModelFinished():
            return turns_size((event.turn,), limit)
        case ToolFinished():
            return result_size(event)
        case RunStarted():
            return start_size(event, limit)
        case ModelInterrupted(turn=turn) | Steered(turn=turn):
            return turns_size((turn,), limit)
        case TextDelta(text=text) | ReasoningDelta(text=text) | RefusalDelta(text=text) | ToolProgressed(text=text):
            return len(text)
        case CallDelta(arguments=arguments):
            return len(arguments)
        case LogprobsDelta(logprobs=payload) | NativeDelta(payload=payload):
            return memoryview(payload).nbytes
        case Checked(rewrite=rewrite):
            return turns_size(rewrite, limit) if isinstance(rewrite, tuple) else len(rewrite or "")
        case Compacted(summary=summary):
            return len(summary)
        case Asked(arguments=arguments, message=message, schema=schema):
            return len(arguments) + len(message) + memoryview(schema).nbytes
        case Answered(arguments=edit, message=reason):
            return len(edit or "") + len(reason or "")
        case ModelStarted() | ModelRetried() | ModelFailed() | ToolStarted() | Warned() | RunFinished():
            return 0
        case Released() | Recovered():
            return 0
        case _:
            assert_never(event)


def events_size(events: Iterable[Event], limit: int) -> int:
    """Of several events of a run that is not in memory."""
    return sum([event_size(event, limit) for event in events])


# Facts that are small, and many.
SMALL: Final = frozenset({ModelStarted, ToolStarted, Warned, RunFinished})
