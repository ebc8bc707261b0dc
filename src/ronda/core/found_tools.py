"""Tools that a model is not shown from the start, and finds when it looks for them: a tool of ours names them in its `details`.

They are added behind what it was shown before, and never taken away, also when a conversation goes on in another run: a
provider's cache of the request holds. A conversation has no details, so there the tool's own text names them, a line each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.core.events import ToolFinished
from ronda.core.parts import NULL, AssistantTurn, ToolCall, ToolTurn, Turn
from ronda.core.plan import ToolSpec

FIND_TOOLS: Final = "find_tools"
_ABOUT: Final = 300  # characters of a description that a model is shown of a tool it has found


class FoundTools(Struct, frozen=True):
    found_tools: list[str] = []


_decode = msgspec.json.Decoder(FoundTools).decode


def with_found(shown: tuple[ToolSpec, ...], event: ToolFinished, tools: Mapping[str, ToolSpec]) -> tuple[ToolSpec, ...]:
    """What the model is shown once this tool has answered."""
    finder = tools.get(event.name)
    if event.details == NULL or finder is None or finder.kind != "builtin":
        return shown
    try:
        names = _decode(event.details).found_tools
    except msgspec.DecodeError:  # a tool of another kind
        return shown
    return _behind(shown, names, tools)


def shown_in(shown: tuple[ToolSpec, ...], turns: Sequence[Turn], tools: Mapping[str, ToolSpec]) -> tuple[ToolSpec, ...]:
    """What the model is shown of a conversation that goes on: what it has found in it, and what it has called."""
    return _behind(shown, _names_in(turns), tools)


def _behind(shown: tuple[ToolSpec, ...], names: Iterable[str], tools: Mapping[str, ToolSpec]) -> tuple[ToolSpec, ...]:
    known = {tool.name for tool in shown}
    found = [tools[name] for name in dict.fromkeys(names) if name in tools and name not in known]
    return (*shown, *found) if found else shown


def _names_in(turns: Sequence[Turn]) -> Iterator[str]:
    searches: set[str] = set()
    for turn in turns:
        if type(turn) is AssistantTurn:
            yield from [call.name for call in turn.calls]
            searches |= {call.id for call in turn.calls if call.name == FIND_TOOLS}
        elif type(turn) is ToolTurn and searches:
            for result in turn.results:
                if result.call_id in searches:
                    yield from [line.partition(":")[0] for line in result.content.splitlines()]


def describe_found(found: Sequence[ToolSpec]) -> str:
    """What the model reads of them."""
    return "\n".join([f"{spec.name}: {spec.description.strip().partition(chr(10))[0][:_ABOUT]}" for spec in found])


# ---- as dialects show a search: -- what was looked for, and the tools that were found -------------------------------------


def searches_tools(call: ToolCall, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether a call is of ours: a caller may have a tool of that name."""
    spec = tools.get(call.name)
    return call.name == FIND_TOOLS and spec is not None and spec.kind == "builtin"


def found_in(details: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> list[ToolSpec]:
    """The tools that a search has found; none of one that was not run."""
    names = details.get("found_tools")
    return [tools[name] for name in names if name in tools] if isinstance(names, list) else []
