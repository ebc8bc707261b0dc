"""What happens in a run that outlives its process is shown when its journal has it: what was seen, a crash does not take back.

    show, append ──► journal ──► some milliseconds, or the next barrier ──► Log

So a client that comes back after a crash with a position finds there what came before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from ronda.core.events import Event, Preview
from ronda.errors import RondaError
from ronda.host.log import Log
from ronda.journal import Journal

SHOWN_AFTER: Final = 0.02  # seconds in which what is shown is gathered for one commit


class DurableLog:
    """Stands before the log of a run, and takes what happens in it."""

    __slots__ = ("_count", "_journal", "_log", "_run", "_task", "_timer", "_unseen")

    def __init__(self, log: Log, journal: Journal, run: str) -> None:
        self._log = log
        self._journal = journal
        self._run = run
        self._unseen: deque[tuple[Sequence[Event], int | None]] = deque()
        self._count = 0  # of batches that came, seen or not
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def show(self, batch: Sequence[Preview]) -> bool:
        """The model of a run without clients is not held back."""
        self._journal.append(self._run, batch)
        self.append([*batch])
        return True

    def append(self, batch: Sequence[Event], size: int | None = None) -> bool:
        self._unseen.append((batch, size))
        self._count += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SHOWN_AFTER, self._start)
        return True

    async def keep(self) -> None:
        """Return once everything that happened so far is kept, and shown."""
        upto = self._count
        await self._journal.barrier(self._run)
        self._show_upto(upto)

    @property
    def is_behind(self) -> bool:
        """Whether something happened that is not shown yet."""
        return bool(self._unseen)

    def close(self, *, is_broken: bool) -> None:
        """Nothing more will come. Where nothing is wrong, the rest is shown: there is nothing to wait for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not is_broken:
            self._show_upto(self._count)
        self._log.close(is_broken=is_broken)

    def _start(self) -> None:
        self._timer = None
        self._task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        try:
            await self.keep()
        except RondaError:
            pass  # the run's driver hears of it
        finally:
            self._task = None  # which knows us

    def _show_upto(self, count: int) -> None:
        shown = self._count - len(self._unseen)
        while shown < count:
            self._log.append(*self._unseen.popleft())
            shown += 1
