"""Runs that were calls of a run which is over: what they wait for will not be answered, so they end with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ronda.core.events import RunFinished
from ronda.core.run import Run, rebuild
from ronda.journal import JournalConflict
from ronda.journal.holds import release_on_error
from ronda.store import StoreError

if TYPE_CHECKING:
    from ronda.journal import Journal

log = logging.getLogger(__name__)


def waiting_children(run: Run) -> frozenset[str]:
    """The runs that ask what this one asks in their place."""
    return frozenset([question.child for question in run.questions if question.child])


async def end_children(
    journal: Journal, children: Iterable[str], left: Callable[[str, StoreError], None] | None = None
) -> None:
    """Those that have not ended, and theirs. `left` is called with one that cannot be ended now: the run that started it is
    over in any case."""
    for run_id in children:
        try:
            await _end_child(journal, run_id, left)
        except JournalConflict:  # it is driven, and its driver will find that it has no parent
            continue
        except StoreError as error:
            if left is None:
                log.error("run %s, whose parent is over, could not be ended: %s", run_id, error)
            else:
                left(run_id, error)


async def _end_child(journal: Journal, run_id: str, left: Callable[[str, StoreError], None] | None) -> None:
    events = await journal.resume(run_id)
    with release_on_error(journal, run_id):
        run = rebuild(events) if events else None
        theirs: frozenset[str] = frozenset()
        if run is not None and run.ended is None:
            theirs = waiting_children(run)
            message = "the run that started it is over"
            journal.append(run_id, [*run.recover(), RunFinished("cancelled", message=message, at=time.time())])
            await journal.barrier(run_id)
        journal.release(run_id)
    await end_children(journal, theirs, left)
