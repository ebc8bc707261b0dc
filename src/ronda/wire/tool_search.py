"""A search for tools that ran here, as dialects tell of it: what was looked for, and the tools that were found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ronda.core.found_tools import FIND_TOOLS
from ronda.core.parts import ToolCall
from ronda.core.plan import ToolSpec


def searches_tools(call: ToolCall, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether a call is of ours: a caller may have a tool of that name."""
    spec = tools.get(call.name)
    return call.name == FIND_TOOLS and spec is not None and spec.kind == "builtin"


def found_in(details: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> list[ToolSpec]:
    """The tools that a search has found; none of one that was not run."""
    names = details.get("found_tools")
    return [tools[name] for name in names if name in tools] if isinstance(names, list) else []
