"""The runs of one answer: one for each choice of a model, or for each variant of a page. Each run keeps the names of all.

Variants are a group, which has a name of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from ronda.core.events import RunStarted

SIBLINGS: Final = "siblings"  # under which a run keeps the names of all choices of its answer
_GROUP: Final = "group_"

_read_names = msgspec.json.Decoder(list[str]).decode


def about_siblings(names: Sequence[str]) -> dict[str, Raw]:
    """Kept with each run of an answer, one per choice, so that all are found where one is."""
    return {SIBLINGS: Raw(msgspec.json.encode(names))} if len(names) > 1 else {}


def siblings_of(start: RunStarted) -> list[str]:
    """The runs of its answer, one per choice."""
    kept = start.about.get(SIBLINGS)
    return [start.run] if kept is None else _read_names(kept)


def group_of(start: RunStarted) -> str | None:
    """The name of the group of variants that a run is one of; None for a run that is none."""
    kept = start.about.get(SIBLINGS)
    if kept is None:
        return None
    names = _read_names(kept)
    return group_name(names[0]) if len(names) > 1 else None


def group_name(first: str) -> str:
    """A group is named after its first run: `group_ab12` is that of `run_ab12`."""
    return _GROUP + first.removeprefix("run_")


def first_of_group(group: str) -> str | None:
    """The name of a group's first run; None for what is no name of a group."""
    return "run_" + group.removeprefix(_GROUP) if group.startswith(_GROUP) else None
