"""An event loop that stays, in a thread of its own: for what one call of a program begins, and another continues."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Started when it is made; ended with `close`, with this object, or with the program."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="ronda-loop", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _stop, self._loop)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Waits for it; a caller that is interrupted while it waits ends it."""
        if not self._thread.is_alive():
            call.close()
            raise RuntimeError("this was closed, or made before this process was forked; make one in the child")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self._end()
        self._thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon_threadsafe(loop.stop)
