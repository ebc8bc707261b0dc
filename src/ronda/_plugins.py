"""What other installed packages add: entry points of a group, by their names.

    ronda.providers     PROVIDER of a model spec → (name, Where) → Provider
    ronda.tool_kinds    kind of a tool in a prompty file → its handler
    ronda.tools         NAME in `--tools NAME` → a module, or a list of tools

A package is loaded when something of it is asked for by name, and never before.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ronda.errors import BadConfig


@cache  # looking through all packages takes 20 ms
def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def plugin_names(group: str) -> list[str]:
    return sorted(_points(group))


def plugin(group: str, name: str) -> Any:
    """What a package offers under this name; None if none does."""
    point = _points(group).get(name)
    if point is None:
        return None
    try:
        return point.load()
    except Exception as error:  # another package's own trouble
        raise BadConfig(
            f"'{name}' of the installed package {_package(point)} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _package(point: EntryPoint) -> str:
    return f"'{point.dist.name}'" if point.dist is not None else f"that has {point.value}"
