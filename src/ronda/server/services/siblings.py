"""The runs of one answer, one per choice: kept with each of them, so that whoever finds one finds all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from ronda.core.events import RunStarted
from ronda.journal.tally import SIBLINGS as SIBLINGS
from ronda.wire.json import encode


def about_siblings(names: Sequence[str]) -> dict[str, Raw]:
    return {SIBLINGS: Raw(encode(names))} if len(names) > 1 else {}


def siblings_of(start: RunStarted) -> list[str]:
    """The runs of its answer, one per choice."""
    kept = start.about.get(SIBLINGS)
    return [start.run] if kept is None else msgspec.json.decode(kept, type=list[str])
