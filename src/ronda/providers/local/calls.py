"""One completion on its way from a thread of the engine's to an event loop, and the gate all of them go through.

What the engine says in one thread is decoded there, gathered, and handed over in batches: a loop that is busy is woken
once for everything that came in the meantime. Stopping goes the other way, by what the callback returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ronda.errors import UpstreamBroken, UpstreamError

# ---- what it says -----------------------------------------------------------------------------------------------------


class TopLogprob(Struct, frozen=True, gc=False):
    token: str
    logprob: float
    bytes: list[int] = []


class TokenLogprob(TopLogprob, frozen=True, gc=False):
    top_logprobs: list[TopLogprob] = []


class _Logprobs(Struct, frozen=True, gc=False):
    content: list[TokenLogprob] = []


class _Choice(Struct, frozen=True, gc=False):
    text: str = ""
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Timings(Struct, frozen=True, gc=False):
    cache_n: int = 0
    prompt_n: int = 0
    prompt_ms: float = 0.0
    predicted_n: int = 0
    predicted_ms: float = 0.0


class _Error(Struct, frozen=True, gc=False):
    message: str = ""
    code: int = 500


class _Chunk(Struct, frozen=True, gc=False):
    choices: list[_Choice] = []
    timings: _Timings | None = None
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Piece(Struct, frozen=True, gc=False):
    """What one token added: its text may be empty, while half a character or half a stop string is held back."""

    text: str
    logprobs: list[TokenLogprob] = []


class Completion(Struct, frozen=True, gc=False):
    """How it ended, and what it cost. `cached` of the prompt's tokens were there already."""

    stop: Literal["stop", "length"]
    prompt: int
    cached: int
    completion: int
    prompt_seconds: float
    completion_seconds: float

    def then(self, more: Completion) -> Completion:
        """This one and another that went on from it: what that one read again was not asked for again."""
        return Completion(
            more.stop,
            self.prompt,
            self.cached,
            self.completion + more.completion,
            self.prompt_seconds + more.prompt_seconds,
            self.completion_seconds + more.completion_seconds,
        )


Take: TypeAlias = Callable[[list[Piece]], None]


# ---- one completion ---------------------------------------------------------------------------------------------------


class Call:
    """One completion: filled by a thread of the engine's, emptied by an event loop."""

    __slots__ = ("_finish", "_lock", "_loop", "_pieces", "_take", "_timings", "_woken", "ended", "failure", "stopped")

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        self.ended: asyncio.Future[Completion] = loop.create_future()
        self.stopped = False
        self.failure: Exception | None = None
        self._loop = loop
        self._take = take
        self._lock = threading.Lock()
        self._pieces: list[Piece] = []
        self._woken = False
        self._finish = ""
        self._timings: _Timings | None = None

    # ---- in the engine's thread ----

    def on_chunk(self, raw: bytes) -> bool:
        """The engine swallows what is raised in here, so nothing may be."""
        if self.stopped:
            return True
        try:
            chunk = _decode(raw)
        except (msgspec.DecodeError, UnicodeError) as error:
            self.failure = UpstreamBroken(f"the local engine said something unreadable: {error}")
            return True
        if chunk.error is not None:
            self.failure = UpstreamError(f"the local engine refused: {chunk.error.message}", status=chunk.error.code)
            return True
        if chunk.timings is not None:
            self._timings = chunk.timings
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                self._finish = choice.finish_reason
            if choice.text or choice.logprobs is not None:
                self._put(Piece(choice.text, choice.logprobs.content if choice.logprobs is not None else []))
        return self.stopped

    def _put(self, piece: Piece) -> None:
        with self._lock:
            self._pieces.append(piece)
            if self._woken:
                return
            self._woken = True
        self._call_soon(self._drain)

    def wake(self) -> None:
        """The engine is done with it."""
        self._call_soon(self._end)

    def _call_soon(self, work: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self.stopped = True

    # ---- in the event loop ----

    def _drain(self) -> None:
        with self._lock:
            pieces, self._pieces = self._pieces, []
            self._woken = False
        if not pieces or self.ended.done():
            return
        try:
            self._take(pieces)
        except Exception as error:
            self.stopped = True
            self.ended.set_exception(error)

    def _end(self) -> None:
        self._drain()
        if self.ended.done():
            return
        timings = self._timings
        if self.failure is not None:
            self.ended.set_exception(self.failure)
        elif timings is None or not self._finish:
            self.ended.set_exception(UpstreamBroken("the local engine broke off without a reason"))
        else:
            self.ended.set_result(
                Completion(
                    stop="length" if self._finish == "length" else "stop",
                    prompt=timings.cache_n + timings.prompt_n,
                    cached=timings.cache_n,
                    completion=timings.predicted_n,
                    prompt_seconds=timings.prompt_ms / 1000,
                    completion_seconds=timings.predicted_ms / 1000,
                )
            )


# ---- and all of them --------------------------------------------------------------------------------------------------


class Gate:
    """So many at once, first come first served, whichever event loop they come from. Left from any thread."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def enter(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, place))
        try:
            await place
        except asyncio.CancelledError:
            with self._lock:
                if (loop, place) in self._waiting:
                    self._waiting.remove((loop, place))
            if place.done() and not place.cancelled():  # it was given in the same moment
                self.leave()
            raise

    def leave(self) -> None:
        with self._lock:
            while self._waiting:
                loop, place = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(self._give, place)
                    return
                except RuntimeError:  # that loop is closed
                    continue
            self._free += 1

    def _give(self, place: asyncio.Future[None]) -> None:
        if place.done():
            self.leave()  # whoever it was for has gone
        else:
            place.set_result(None)
