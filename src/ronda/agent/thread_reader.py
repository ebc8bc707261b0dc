"""A coroutine that gives items as they come → a reader for code that does not await, in any thread.

The coroutine runs on an event loop in a thread of its own. It waits while its reader is behind, so that a model whose reader
stalls is held back.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_AHEAD: Final = 16  # items that may wait for the reader


class ThreadReader(Generic[T]):
    """`produce` is given an async `put`. `run` runs a coroutine to its end: on a loop of its own, or on one that stays."""

    def __init__(
        self,
        produce: Callable[[Callable[[T], Awaitable[None]]], Coroutine[Any, Any, None]],
        run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
    ) -> None:
        self._items: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()  # None is the end
        self._lock = threading.Lock()
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any], asyncio.Event] | None = None
        self._is_closed = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run, produce, run), name="ronda-stream", daemon=True
        )
        self._thread.start()

    def _run(
        self,
        produce: Callable[[Callable[[T], Awaitable[None]]], Coroutine[Any, Any, None]],
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        try:
            run(self._produce(produce))
        except asyncio.CancelledError:
            pass  # the code that closed the reader knows
        except BaseException as error:  # raised again in the thread that reads
            self._items.put(error)
        self._items.put(None)

    async def _produce(self, produce: Callable[[Callable[[T], Awaitable[None]]], Coroutine[Any, Any, None]]) -> None:
        task, room = asyncio.current_task(), asyncio.Event()
        assert task is not None
        with self._lock:
            if self._is_closed:
                return
            self._task = asyncio.get_running_loop(), task, room

        async def put(item: T) -> None:
            if self._is_closed:
                return
            self._items.put(item)
            room.clear()
            while self._items.qsize() >= _AHEAD and not self._is_closed:  # `room` may be set for an item read long ago
                await room.wait()
                room.clear()

        try:
            await produce(put)
        finally:
            with self._lock:
                self._task = None

    def next(self) -> T | None:
        """The next item; None if there are no more, ever. Raises what the coroutine raised, once."""
        item = self._items.get()
        if item is None:
            self._items.put(None)  # over stays over
            self._thread.join()
            return None
        if isinstance(item, BaseException):
            raise item
        self._make_room()
        return item

    def _make_room(self) -> None:
        with self._lock:
            if self._task is not None:
                loop, _, room = self._task
                loop.call_soon_threadsafe(room.set)

    def close(self) -> None:
        """End the coroutine, and wait until nothing of it is running. What was not read is dropped."""
        self.let_go()
        self._thread.join()
        while not self._items.empty():
            self._items.get()
        self._items.put(None)

    def let_go(self) -> None:
        """End the coroutine, without waiting for it."""
        with self._lock:
            self._is_closed = True
            if self._task is not None:
                loop, task, room = self._task
                loop.call_soon_threadsafe(room.set)  # whatever it still puts is not read
                loop.call_soon_threadsafe(task.cancel)
