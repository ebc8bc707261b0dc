"""Data that must not leave on a stranger's word. Three labels of tools say all that is looked at:

    untrusted   what it gives was written by strangers, and may tell the model what to do
    private     what it gives is confidential
    egress      it sends data out

The first two become marks of what a tool gave, and of the run that has read it. A run that has both asks a person before it
sends anything, whatever its tools are permitted. Nothing that a model says changes that: what counts is which tools have run. A
call is judged by what the model had read when it asked for it.

A mark is a fact. It stands with the result that brought it (`ToolResult.marks`), so wherever a turn is carried over to, its marks
are too, whether the tool is still there or not; what turns cannot carry, a run inherits in `RunStarted.marks`. Files count by
being there: what people attach is private, what was fetched from an address is a stranger's. What tools of the model's own
service give is never seen here: it is treated as read with the model's first answer. Of their calls no person can be asked, so
those that send data out are not offered any more once a run has both marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    KnownTurns,
    Text,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.core.plan import EGRESS as EGRESS
from ronda.core.plan import PRIVATE as PRIVATE
from ronda.core.plan import UNTRUSTED as UNTRUSTED
from ronda.core.plan import ToolSpec

CLEAN: Final[frozenset[str]] = frozenset()
_READ: Final = frozenset({UNTRUSTED, PRIVATE})

# Bytes of a call that is known again: databases find it by an index, whose entries have a bound.
LONGEST_KEY: Final = 1000


def taint_labels(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """What an agent with these tools may do, as one tool of another."""
    return (_READ | {EGRESS}) & {label for tool in tools for label in tool.labels}


def may_leak(tools: Iterable[ToolSpec]) -> bool:
    """Whether there is a tool that could send anything out."""
    return any(tool.labels and EGRESS in tool.labels for tool in tools)


def marks_of(labels: Iterable[str]) -> frozenset[str]:
    """What a model has read by something with these labels, or these marks."""
    return _READ.intersection(labels)


def marks_in(turns: Sequence[Turn]) -> frozenset[str]:
    """The marks of a reader of a conversation."""
    marks = CLEAN
    if type(turns) is KnownTurns:
        marks = turns.marks
        turns = turns[turns.known :]
    for turn in turns:
        if type(turn) is UserTurn:
            for part in turn.parts:
                if type(part) is not Text:
                    marks |= marks_of_file(part)
        elif type(turn) is ToolTurn:
            for result in turn.results:
                if result.marks:
                    marks |= marks_of(result.marks)
    return marks


def marks_of_file(part: UserPart) -> frozenset[str]:
    """Of something that is no text: it is private, unless it comes from an address, which is a stranger's."""
    match part:
        case Text():
            return CLEAN
        case File(marks=marks) if marks:
            return marks_of(marks)
        case File(data=source) | Audio(data=source) | Image(url=source) | Video(url=source):
            is_named = source is not None and source[:8].lower().startswith(("http://", "https://"))
            return frozenset({UNTRUSTED if is_named else PRIVATE})
        case _:
            assert_never(part)


def marks_by_name(turns: Sequence[Turn], labels: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Of a conversation whose results have no marks, since a client wrote them, or they were kept before there were any: the
    tools that they are said to be of had these labels. It can only add to what the results say themselves."""
    if ToolTurn not in map(type, turns):
        return CLEAN
    answered = {result.call_id for turn in turns if type(turn) is ToolTurn for result in turn.results}
    calls = [call for turn in turns if type(turn) is AssistantTurn for call in turn.calls]
    names = {call.name for call in calls if call.id in answered}
    return marks_of([label for name in names for label in labels.get(name, ())])


def marks_of_hosted(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """What a model may have read with each of its answers: its own service runs these tools within it, out of our sight."""
    return CLEAN.union(*[marks_of(tool.labels) for tool in tools if tool.is_hosted and tool.labels])


def may_not_send(marks: frozenset[str]) -> bool:
    """Whether a reader of this sends nothing out without a person's approval."""
    return marks >= _READ


def leaking(marks: frozenset[str], tools: Iterable[ToolSpec], trusted: frozenset[str] = CLEAN) -> frozenset[str]:
    """The tools whose calls a person has to approve now; `trusted` are those that a person has approved for the whole run."""
    if not may_not_send(marks):
        return CLEAN
    return frozenset([tool.name for tool in tools if EGRESS in tool.labels and tool.name not in trusted])


def unasked(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """Of tools that the model's own service runs, those that send data out: no person can be asked about their calls."""
    return frozenset([tool.name for tool in tools if tool.is_hosted and EGRESS in tool.labels])


def send_key(tool: str, arguments: str) -> str:
    """By which a call that a person has let send data out is known again: the same tool with the same arguments, however they
    are spaced and ordered. Empty for one that is not remembered, since it is too long or cannot be read."""
    try:
        key = msgspec.json.encode([tool, msgspec.json.decode(arguments)], order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ""
    return key.decode() if len(key) <= LONGEST_KEY else ""
