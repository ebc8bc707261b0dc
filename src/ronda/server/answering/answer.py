"""Some runs, each from a fact on, and a writer → an answer: pieces of bytes in a sink, as fast as the client takes them.

New runs, runs that resume, that are stored, that wait in the background or that another process drives are told in this one way.
They differ in who follows them (`Following`) and in what is behind the answer (`Source`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from starlette.types import Receive, Scope, Send

from ronda.core.events import (
    PREVIEWS,
    WITHOUT_ANSWER,
    Asked,
    Event,
    ModelFinished,
    RunFinished,
    ToolFinished,
    ToolStarted,
)
from ronda.host.log import FellBehind, Follower, OnNews, ring
from ronda.server.answering.sinks import HttpSink, Sink
from ronda.server.http.failure import ErrorWriter
from ronda.server.http.incoming import Header, Watch
from ronda.wire.shared.failures import FELL_BEHIND, Failure

# How long a client waits for the head of a stream: until then a failure has its own status.
HEAD_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 10.0  # of silence

_SHOWN_EVENTS = PREVIEWS | {ModelFinished, ToolStarted, ToolFinished, Asked}


def _is_shown(event: Event) -> bool:
    """Whether a stream is opened for it. What comes before (a call begins, is tried again, fails) a status can still say."""
    return type(event) in _SHOWN_EVENTS or (type(event) is RunFinished and event.reason not in WITHOUT_ANSWER)


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
    """A writer that can say that a run waits for people, and resume from there in another answer."""

    def skip(self, sibling: int, facts: Sequence[Event]) -> None:
        """These were told in the answer before: all but RunStarted."""


class Source:
    """What is behind an answer: runs of which it asks what their events do not say."""

    def why_unended(self, sibling: int) -> Failure | None:
        """What keeps a run, whose log is over, from having an end; None if it has one."""
        return None

    def failure(self) -> Failure | None:
        """Why there is nothing to show, of runs that are over before anything was shown; None: the stream says it."""
        return None

    def client_left(self) -> None:
        """Told once, when the client has gone or has everything."""


NO_SOURCE: Final = Source()


class Answer:
    """Events are pulled when the bytes before them are taken.

    Its head waits for something to show, but not for ever; `is_open` does not wait. Where the runs are over before that, the
    source may have a failure, which the sink says otherwise. `before_head` is awaited last before the head: a failure that it
    returns is the answer instead. As an ASGI app it tells itself over HTTP.
    """

    def __init__(
        self,
        followers: Sequence[Following],
        writer: StreamWriter,
        source: Source = NO_SOURCE,
        *,
        headers: Sequence[Header] = (),
        write_error: ErrorWriter | None = None,
        is_open: bool = False,
        before_head: Callable[[], Awaitable[Failure | None]] | None = None,
    ) -> None:
        self._followers: list[Following | None] = list(followers)  # None: over
        self._writer = writer
        self._source = source
        self._headers = headers
        self._write_error = write_error
        self._before_head = before_head
        self._sink: Sink
        self._pushes = False  # to a sink that may be written to at once
        self._wake: asyncio.Future[None] | None = None
        self._sent_at = 0.0  # when something was sent last
        self._is_silent = False  # for so long that the client is given a sign of life
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = is_open  # there is something to show, or the client has waited long enough
        self._has_head = False  # it is out
        self._has_ended = False  # the last piece is out
        self._unsent: list[bytes] = []  # written while nothing could be sent
        self._loop_time: Callable[[], float] = time.monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = Watch(receive, self.leave)
        try:
            await self.tell(HttpSink(scope, receive, send, self._writer, self._headers, self._write_error))
        finally:
            watch.stop()

    async def tell(self, sink: Sink) -> None:
        """All of it, until it is over or the client has left."""
        loop = asyncio.get_running_loop()
        self._sink = sink
        self._loop_time = loop.time
        self._timer = loop.call_later(HEAD_SECONDS, self._tick, loop)
        can_push = sink.puts_at_once and len(self._followers) == 1 and type(self._followers[0]) is Follower
        self._pushes = can_push and self._before_head is None
        try:
            await self._first(loop)
            if not self._has_head:
                if not self._is_open and (failure := self._source.failure()) is not None:
                    await sink.refuse(failure, may_be_repeated=False)
                    return
                if self._before_head is not None and (failure := await self._before_head()) is not None:
                    await sink.refuse(failure, may_be_repeated=True)
                    return
                self._is_open = self._has_head = True
                self._sent_at = loop.time()
                await sink.begin()
                self._pushes = can_push
            while not self._has_ended:
                body = await self._next(loop)
                if not self._has_ended:
                    self._has_ended = self._is_over
                    await sink.send(body, is_last=self._has_ended)
                    self._sent_at = loop.time()
        finally:
            self._timer.cancel()
            self._pushes = False
            self.leave()

    def leave(self) -> None:
        """There is no client to write for, or nothing to write."""
        for follower in self._followers:
            if follower is not None:
                follower.close()
        self._followers = []
        self._ring()
        source, self._source = self._source, NO_SOURCE
        source.client_left()

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
                return self._sink.keep_alive
            await self._news(loop)

    def _news(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        self._wake = waiter = loop.create_future()
        call = self._push if self._pushes else self._ring
        for follower in self._followers:
            if type(follower) is Follower:
                follower.on_news(call, passes_starts=not self._is_open)  # for which no head goes out
            elif follower is not None:
                follower.on_news(call)
        return waiter

    def _push(self) -> None:
        """There is news for the one follower, whose client keeps up: it is written to at once, since waking a task for every
        piece costs as much as writing it. What cannot be sent at once is left to the task that waits."""
        follower = self._followers[0] if self._followers else None
        if not self._pushes or type(follower) is not Follower:
            self._ring()
            return
        try:
            piece = self._write_of(0, follower)
        except Exception as error:  # ours: for the task that waits, not for the run
            if self._wake is not None and not self._wake.done():
                self._wake.set_exception(error)
            return
        is_over = self._followers[0] is None
        if piece and self._has_head and not self._unsent and not is_over and self._sink.put(piece):  # nearly always
            self._sent_at = self._loop_time()
            is_sent = True
        else:
            self._unsent.append(piece)
            is_sent = not self._is_open or self._put_all(is_last=is_over)
        if is_over or not is_sent or follower.has_more:
            self._ring()
        else:
            follower.on_news(self._push)

    def _put_all(self, *, is_last: bool) -> bool:
        """Send what is written, at once; False if that cannot be."""
        piece = b"".join(self._unsent)
        if (piece or is_last or not self._has_head) and not self._sink.put(piece, is_last=is_last):
            return False
        self._has_head = True
        self._unsent = []
        self._sent_at = self._loop_time()
        self._has_ended = self._sink.has_ended
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
            if (why := self._source.why_unended(sibling)) is not None:
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
