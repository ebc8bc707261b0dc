"""A run that was resumed is driven, or released again: also where what comes in between fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ronda.journal import Journal


@contextmanager
def release_on_error(journal: Journal, run: str) -> Iterator[None]:
    """For what is done between `resume` and the moment in which something else holds the run, or has released it. A hold that
    nothing releases would keep this process, and all others, from ever driving the run."""
    try:
        yield
    except BaseException:
        journal.release(run)
        raise
