"""The event loop waits for threads that wait for a database. When its process must end, it goes on without them.

    await waits.do(work, threads)     in one of these threads
    waits.end_within(seconds)         from then on: an error for all that wait, or would

A thread that waits for a database which is away cannot be ended: a process that has given up on one ends by `os._exit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ronda.store import StoreError

_T = TypeVar("_T")


class ThreadWaits:
    def __init__(self, place: str) -> None:
        self._place = place
        self._pending: set[asyncio.Future[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False  # threads may be left behind

    async def do(self, work: Callable[[], _T], threads: ThreadPoolExecutor | None = None) -> _T:
        """None: those of the event loop."""
        if self.is_over:
            raise OutOfTime(self._place)
        future = asyncio.get_running_loop().run_in_executor(threads, work)
        self._pending.add(future)
        try:
            return await future
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.is_over or (task is not None and task.cancelling()):
                raise
            raise OutOfTime(self._place) from None
        finally:
            self._pending.discard(future)

    def end_within(self, seconds: float) -> None:
        """Of several calls, that counts which says the earliest time."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is None or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self.end)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.is_over = True
        for future in list(self._pending):
            future.cancel()


class OutOfTime(StoreError):
    """Of many that are told so, one tells people: the one that closes the store."""

    def __init__(self, place: str) -> None:
        super().__init__(place, "it could not be reached before this process had to end")
        self.is_logged = True
