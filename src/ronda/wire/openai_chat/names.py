"""What tools are called on OpenAI's wires (`[A-Za-z0-9_-]`, 64 of them at most), and the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ronda.core.plan import ToolSpec

NO_NAMES: Final[Mapping[str, str]] = {}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def wire_names(tools: tuple[ToolSpec, ...]) -> Mapping[str, str]:
    """A tool's own name → what it is called here, where they differ."""
    if all(_NAME.fullmatch(tool.name) for tool in tools):
        return NO_NAMES
    from ronda.schema.lower_names import allowed_names

    names = allowed_names([tool.name for tool in tools], _NAME.pattern)
    return {own: wire for own, wire in names.items() if own != wire}


def own_names(tools: tuple[ToolSpec, ...]) -> Mapping[str, str]:
    """The other way round: for the reader of the answer."""
    return {wire: own for own, wire in wire_names(tools).items()}


def wire_name(name: str, names: Mapping[str, str]) -> str:
    """What a tool is called here. A history may hold calls of tools that are not there any more."""
    if name in names:
        return names[name]
    if _NAME.fullmatch(name):
        return name
    from ronda.schema.lower_names import allowed_names

    return allowed_names([name], _NAME.pattern)[name]
