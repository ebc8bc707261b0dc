"""HTTP at the edge of a run: bytes out as fast as the client takes them, and a client that goes away takes its runs with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.core.events import PREVIEWS, Asked, Event, ModelFinished, RunFinished, ToolFinished, ToolStarted
from ronda.host.log import FellBehind, Follower, OnNews, ring
from ronda.server.http.cycle import EVENT_STREAM, Cycle
from ronda.server.http.watch import Watch
from ronda.wire.failures import FELL_BEHIND, Failure

# How long a client waits for the head of a stream: until then a failure has its own status.
HEAD_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 10.0  # of silence
KEEP_ALIVE = b": keep-alive\n\n"

_SHOWN_EVENTS = PREVIEWS | {ModelFinished, ToolStarted, ToolFinished, Asked}


def _is_shown(event: Event) -> bool:
    """Whether a stream is opened for it. What comes before (a call begins, is tried again, fails) a status can still say."""
    return type(event) in _SHOWN_EVENTS or (
        type(event) is RunFinished and event.reason not in ("failed", "cancelled", "interrupted")
    )


class Following(Protocol):
    """Events to be written, as `host.log.Follower` gives them."""

    @property
    def is_over(self) -> bool: ...

    def pull(self) -> list[Event]: ...

    def on_news(self, call: OnNews) -> None: ...

    def close(self) -> None: ...


class StreamWriter(Protocol):
    """Its bytes are events of SSE, unless it has a `content_type` (a header) and a `keep_alive` of its own."""

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes: ...


class Writer(Protocol):
    """Events → a dialect's bytes. Both ways are folds of the same events, so a stream adds up to the plain answer. A stream is
    SSE, unless the writer has a `content_type` (a header) and a `keep_alive` (bytes) of its own."""

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        """The bytes of a stream for one batch of events of one of the runs; or for why there will be no more."""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer."""

    def body(self) -> bytes: ...


@runtime_checkable
class PausingWriter(Protocol):
    """A writer that can say that a run waits for people, and go on from there in another answer."""

    def skip(self, sibling: int, facts: Sequence[Event]) -> None:
        """These were told in the answer before: all but RunStarted."""


def _nobody_left() -> None:
    """Said to nobody: whoever cared has been told, and is let go of."""


def _all_is_well(sibling: int) -> None:
    return


class EventStream:
    """What happens in some runs, written as a client reads it: events are pulled when the bytes before them are taken.

    Its head waits for something to show, but not for ever. Where the runs are over before that, `instead` may give another
    answer, whose status says what went wrong. `before_head` is awaited last before it; what that gives is the answer instead.
    `why_unended` tells of a run whose log is over what keeps it from having an end; None if it has one.
    """

    def __init__(
        self,
        followers: Sequence[Following],
        writer: StreamWriter,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        is_open: bool = False,
        before_head: Callable[[], Awaitable[ASGIApp | None]] | None = None,
        instead: Callable[[], ASGIApp | None] | None = None,
        gone: Callable[[], None] = _nobody_left,
        why_unended: Callable[[int], Failure | None] = _all_is_well,
    ) -> None:
        self._followers: list[Following | None] = list(followers)  # None: over
        self._writer = writer
        self._headers = headers
        self._before_head = before_head
        self._instead = instead
        self._gone = gone
        self._why_unended = why_unended
        self._wake: asyncio.Future[None] | None = None
        self._sent_at = 0.0  # when something was sent last
        self._is_silent = False  # for so long that the client is given a sign of life
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = is_open  # there is something to show, or whoever waits has waited long enough
        self._has_head = False  # it is out
        self._has_ended = False  # the last piece is out
        self._unsent: list[bytes] = []  # written while nothing could be sent
        self._loop_time: Callable[[], float] = time.monotonic
        self._cycle: Cycle | None = None  # of a stream that may be written to at once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = Watch(receive, self._leave)
        loop = asyncio.get_running_loop()
        self._loop_time = loop.time
        self._timer = loop.call_later(HEAD_SECONDS, self._tick, loop)
        cycle = getattr(send, "__self__", None)
        alone = self._followers[0] if len(self._followers) == 1 else None
        if type(cycle) is Cycle and type(alone) is Follower and self._before_head is None:
            self._cycle = cycle
        try:
            await self._first(loop)
            if not self._has_head:
                answer = None if self._is_open or self._instead is None else self._instead()
                if answer is None and self._before_head is not None:
                    answer = await self._before_head()
                if answer is not None:
                    await answer(scope, receive, send)
                    return
                self._is_open = self._has_head = True
                self._sent_at = loop.time()
                await send(
                    {"type": "http.response.start", "status": 200, "headers": _head(self._writer, self._headers)}
                )
                if type(cycle) is Cycle and type(alone) is Follower:
                    self._cycle = cycle
            while not self._has_ended:
                body = await self._next(loop)
                if not self._has_ended:
                    self._has_ended = self._is_over
                    await send({"type": "http.response.body", "body": body, "more_body": not self._has_ended})
                    self._sent_at = loop.time()
        finally:
            self._timer.cancel()
            self._cycle = None
            watch.stop()
            self._leave()

    def _leave(self) -> None:
        """There is nobody to write for, or nothing to write."""
        for follower in self._followers:
            if follower is not None:
                follower.close()
        self._followers = []
        self._ring()
        gone, self._gone = self._gone, _nobody_left
        gone()

    async def _first(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until the head is out, or may go out, or the runs are over."""
        while True:
            self._unsent.append(self._write())
            if self._is_open or self._is_over:
                return
            await self._news(loop)

    async def _next(self, loop: asyncio.AbstractEventLoop) -> bytes:
        """What is sent next; nothing at the end."""
        while True:
            data = self._write()
            if self._unsent:
                data = b"".join([*self._unsent, data])
                self._unsent = []
            if data or self._is_over:
                return data
            if self._is_silent:
                self._is_silent = False
                return bytes(getattr(self._writer, "keep_alive", KEEP_ALIVE))
            await self._news(loop)

    def _news(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        self._wake = waiter = loop.create_future()
        call = self._ring if self._cycle is None else self._push
        for follower in self._followers:
            if type(follower) is Follower:
                follower.on_news(call, passes_starts=not self._is_open)  # for which no head goes out
            elif follower is not None:
                follower.on_news(call)
        return waiter

    def _push(self) -> None:
        """There is news for the one follower, whose client keeps up: it is written to at once, since waking a task for every
        piece costs as much as writing it. What cannot be sent at once is left to the task that waits."""
        cycle, follower = self._cycle, self._followers[0] if self._followers else None
        if cycle is None or type(follower) is not Follower or cycle.flow.write_paused:
            self._ring()
            return
        try:
            piece = self._write_of(0, follower)
        except Exception as error:  # ours: for whoever waits, not for the run
            if self._wake is not None and not self._wake.done():
                self._wake.set_exception(error)
            return
        is_over = self._followers[0] is None
        if piece and self._has_head and not self._unsent and not is_over and cycle.push(piece):  # nearly always
            self._sent_at = self._loop_time()
            is_sent = True
        else:
            self._unsent.append(piece)
            is_sent = not self._is_open or self._send(cycle, is_last=is_over)
        if is_over or not is_sent or follower.has_more:
            self._ring()
        else:
            follower.on_news(self._push)

    def _send(self, cycle: Cycle, *, is_last: bool) -> bool:
        """Send what is written, at once; False if that cannot be."""
        piece = b"".join(self._unsent)
        if not self._has_head:
            if not cycle.begin(_head(self._writer, self._headers), piece):
                self._cycle = None
                return False
            self._has_head = True
            piece = b""
        if (piece or is_last) and not cycle.push(piece, is_last=is_last):
            return False
        self._unsent = []
        self._sent_at = self._loop_time()
        self._has_ended = cycle.response_complete
        return True

    @property
    def _is_over(self) -> bool:
        return not any(self._followers)

    def _write(self) -> bytes:
        """What has happened since the last time, as much as is pulled at once."""
        if len(self._followers) == 1:  # nearly always
            alone = self._followers[0]
            return b"" if alone is None else self._write_of(0, alone)
        there = [(sibling, follower) for sibling, follower in enumerate(self._followers) if follower is not None]
        return b"".join([self._write_of(sibling, follower) for sibling, follower in there])

    def _write_of(self, sibling: int, follower: Following) -> bytes:
        data = b""
        try:
            # A pull is a part of what there is: one of which nothing is told must not end in waiting for news.
            while not data and (events := follower.pull()):
                data = self._writer.feed(sibling, events)
                if not self._is_open and any(map(_is_shown, events)):
                    self._is_open = True
        except FellBehind as error:
            self._end(sibling, follower)
            failure = Failure(error.status_hint, "server_error", str(error), code=FELL_BEHIND)
            return self._writer.feed(sibling, [failure])
        if follower.is_over:
            if (why := self._why_unended(sibling)) is not None:
                data += self._writer.feed(sibling, [why])
            self._end(sibling, follower)
        return data

    def _end(self, sibling: int, follower: Following) -> None:
        follower.close()
        self._followers[sibling] = None

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """The one timer: the head, when it has waited long enough, and then a sign of life after every long silence."""
        silence = loop.time() - self._sent_at if self._sent_at else 0.0
        if not self._is_open:
            self._is_open = True
            self._ring()
        elif silence >= KEEP_ALIVE_SECONDS:
            self._is_silent = True
            self._ring()
            silence = 0.0
        self._timer = loop.call_later(max(KEEP_ALIVE_SECONDS - silence, 0.001), self._tick, loop)

    def _ring(self) -> None:
        if self._wake is not None:
            ring(self._wake)


def _head(writer: StreamWriter, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [
        getattr(writer, "content_type", EVENT_STREAM),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        *headers,
    ]
