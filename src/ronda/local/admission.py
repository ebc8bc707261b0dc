"""Who may be decoded now: so many at once, and no more tokens than the cache holds, first come first served.

All slots share one cache, and one that is full fails every stream in it. So a request is let in when there is room for its prompt
and for all it may say. The waiting calls may be of different event loops and threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct


class _Waiting(Struct, eq=False):
    loop: asyncio.AbstractEventLoop
    place: asyncio.Future[None]
    tokens: int


class Room:
    """`slots` at once; `tokens` in all, of which no call may want more than there are."""

    def __init__(self, slots: int, tokens: int) -> None:
        self._slots = slots
        self._tokens = tokens
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncIterator[None]:
        await self.enter(tokens)
        try:
            yield
        finally:
            self.leave(tokens)

    async def enter(self, tokens: int) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._waiting and self._fits(tokens):
                self._take(tokens)
                return
            waiting = _Waiting(loop, loop.create_future(), tokens)
            self._waiting.append(waiting)
        try:
            await waiting.place
        except asyncio.CancelledError:
            with self._lock:
                was_waiting = waiting in self._waiting
                if was_waiting:
                    self._waiting.remove(waiting)
            if was_waiting:
                self._admit()  # a smaller one may have stood behind
            elif waiting.place.done() and not waiting.place.cancelled():  # it was given in the same moment
                self.leave(tokens)
            raise

    def leave(self, tokens: int) -> None:
        """From any thread."""
        with self._lock:
            self._slots += 1
            self._tokens += tokens
        self._admit()

    def _fits(self, tokens: int) -> bool:
        return self._slots > 0 and tokens <= self._tokens

    def _take(self, tokens: int) -> None:
        self._slots -= 1
        self._tokens -= tokens

    def _admit(self) -> None:
        with self._lock:
            while self._waiting and self._fits(self._waiting[0].tokens):
                first = self._waiting.popleft()
                try:
                    first.loop.call_soon_threadsafe(self._give, first)
                except RuntimeError:  # that loop is closed
                    continue
                self._take(first.tokens)

    def _give(self, waiting: _Waiting) -> None:
        if waiting.place.done():
            self.leave(waiting.tokens)  # the call that it was for has gone
        else:
            waiting.place.set_result(None)
