"""Stand-in for what `ronda.wire.markup` does not have yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
) -> str | None:
    return None
