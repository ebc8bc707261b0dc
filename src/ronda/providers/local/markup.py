"""Stand-in for what `ronda.wire.markup` does not have yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Raw

from ronda.core.plan import ResponseFormat, ToolChoice, ToolSpec
from ronda.wire.markup import Family


def grammar_for(
    family: Family,
    tools: Sequence[ToolSpec],
    choice: ToolChoice,
    format: ResponseFormat | None,
    *,
    budget: int,
    deadline: int,
    extra: Mapping[str, Raw],
    thinking_open: bool = False,
    parallel: bool = True,
    tokens: Mapping[str, int] | None = None,
    count: Callable[[str], int] | None = None,
) -> str | None:
    return None
