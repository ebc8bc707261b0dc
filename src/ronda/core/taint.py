"""Data that must not leave on a stranger's word. Three labels of tools say all that is looked at:

    untrusted   what it gives was written by strangers, and may tell the model what to do
    private     what it gives is not for everybody
    egress      it sends data out

A run that has read both kinds asks a person before it sends anything, whatever its tools are permitted. Nothing that a model
says changes that: what counts is which tools have run. A call is judged by what the model had read when it asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ronda.core.parts import AssistantTurn, ToolTurn, Turn
from ronda.core.plan import ToolSpec

UNTRUSTED: Final = "untrusted"
PRIVATE: Final = "private"
EGRESS: Final = "egress"

CLEAN: Final[frozenset[str]] = frozenset()
_READ: Final = frozenset({UNTRUSTED, PRIVATE})


def taint_labels(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """What an agent with these tools may do, as one tool of another."""
    return (_READ | {EGRESS}) & {label for tool in tools for label in tool.labels}


def may_leak(tools: Iterable[ToolSpec]) -> bool:
    """Whether there is a tool that could send anything out."""
    return any(tool.labels and EGRESS in tool.labels for tool in tools)


def marks_of(names: Iterable[str], tools: Mapping[str, ToolSpec]) -> frozenset[str]:
    """What a run has read by calls of these tools."""
    return _READ & {label for name in names if name in tools for label in tools[name].labels}


def marks_in(turns: Sequence[Turn], tools: Mapping[str, ToolSpec]) -> frozenset[str]:
    """The same of a conversation that a run begins with."""
    answered = {result.call_id for turn in turns if type(turn) is ToolTurn for result in turn.results}
    calls = [call for turn in turns if type(turn) is AssistantTurn for call in turn.calls]
    return marks_of([call.name for call in calls if call.id in answered], tools)


def leaking(marks: frozenset[str], tools: Iterable[ToolSpec], trusted: frozenset[str] = CLEAN) -> frozenset[str]:
    """The tools whose calls a person has to approve now; `trusted` are those that a person has approved for the whole run."""
    if not marks >= _READ:
        return CLEAN
    return frozenset([tool.name for tool in tools if EGRESS in tool.labels and tool.name not in trusted])
