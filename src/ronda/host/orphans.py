"""Runs that were calls of a run which is over: nobody will answer what they wait for, so they end with it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ronda.core.events import RunFinished
from ronda.core.run import Run, rebuild
from ronda.journal import JournalConflict

if TYPE_CHECKING:
    from ronda.journal import Journal


def waiting_children(run: Run) -> frozenset[str]:
    """The runs that ask what this one asks in their place."""
    return frozenset([question.child for question in run.questions if question.child])


async def end_children(journal: Journal, children: Iterable[str]) -> None:
    """Those that have not ended, and theirs."""
    for id in children:
        try:
            events = await journal.resume(id)
        except JournalConflict:  # somebody drives it, and will find that it has no parent
            continue
        run = rebuild(events) if events else None
        if run is not None and run.ended is None:
            theirs = waiting_children(run)
            message = "the run that started it is over"
            journal.append(id, [*run.recover(), RunFinished("cancelled", message=message, at=time.time())])
            journal.release(id)
            await end_children(journal, theirs)
        else:
            journal.release(id)
