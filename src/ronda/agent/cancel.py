"""Stopping a run from anywhere, any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


class Cancel:
    """Stops a run from anywhere, any thread: `cancel()` once, and every run it was given to ends `cancelled`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []
        self._cancelled = False

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def _was_cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def _stop_with(self, stop: Callable[[], None]) -> None:
        with self._lock:
            if not self._cancelled:
                self._stops.append(stop)
                return
        stop()

    def _forget(self, stop: Callable[[], None]) -> None:
        with self._lock:
            if stop in self._stops:
                self._stops.remove(stop)


class Stop:
    """Ends one run, from any thread. Once that run is over it does nothing, however late it comes."""

    __slots__ = ("_cancel", "_landed", "_live", "_loop", "_task")

    def __init__(self, cancel: Cancel) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._cancel = cancel
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._live = True
        self._landed = False

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the run with it
            self._loop.call_soon_threadsafe(self._land)

    def _land(self) -> None:
        if self._live:
            self._landed = True
            self._task.cancel()

    def is_why(self) -> bool:
        """Whether the task is being cancelled for our sake only."""
        return self._cancel.is_cancelled and self._task.cancelling() <= self._landed

    def over(self) -> None:
        self._live = False
        if self._landed:
            self._task.uncancel()
