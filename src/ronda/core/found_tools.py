"""Tools that a model is not shown from the start, and finds when it looks for them: a tool of ours names them in its `details`.

They are added behind what it was shown before, and never taken away: a provider's cache of the request holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ronda.core.events import ToolFinished
from ronda.core.parts import NULL
from ronda.core.plan import ToolSpec


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
    known = {tool.name for tool in shown}
    found = [tools[name] for name in dict.fromkeys(names) if name in tools and name not in known]
    return (*shown, *found) if found else shown
