"""One connection to a model's server: the bytes of a request go out, the head and the body of its answer come in.

By hand, for speed: aiohttp's client cost more CPU in each call than the rest of a round, and its import more time than
all of our own. What is hard is not by hand: httptools parses, asyncio does TLS, aiohappyeyeballs finds the address.

Silence is bounded by one timer per connection that looks at a deadline every few seconds: one for each read would cost
half as much again on a stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final, TypeAlias, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

IDLE: Final = 15.0  # seconds an unused connection is kept; servers seldom keep theirs much longer
_TICK: Final = 15.0
_MANY: Final = 256 * 1024  # bytes that may wait to be read before the server is made to wait
_LONGEST_HEAD: Final = 256 * 1024  # bytes, hints before it included
_LARGE: Final = 64 * 1024  # a request that is not out in one go

Take: TypeAlias = Callable[[bytes], bool]  # False: no more for now


class ConnectionBroken(Exception):
    """What came is no answer, or its end is missing."""


class Connection(asyncio.BufferedProtocol):
    """`ask`, then `head`, then `some` until it is empty, or `pour`. One request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, buffer: memoryview) -> None:
        self._loop = loop
        self._buffer = buffer  # where the event loop puts what arrives
        self._transport: asyncio.Transport
        self._pieces: list[bytes] = []
        # The parser calls it for every piece: of a stream with each of its frames. So it is the list's own, not one of ours.
        self.on_body = self._pieces.append
        self._parser = HttpResponseParser(self)
        # What other clients let pass, too: a model's server may be a stranger's, and nothing is passed on from here.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._waiter: asyncio.Future[None] | None = None
        self._take: Take | None = None  # who is given what arrives, at once …
        self._context: Context  # … and where
        self._watch: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._timeout = 0.0
        self._waiting = 0  # bytes that came since some were taken
        self._paused = False
        self._is_busy = False
        self._large = False  # what was asked
        self._head_size = 0  # bytes until the answer's head was complete
        self._lasts = False  # the answer is complete, and another may follow
        self._broken: Exception | None = None
        self.closed = False
        self.home: list[Connection] | None = None  # where it waits to be used again
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False

    # ---- for callers --------------------------------------------------------------------------------------------------

    @property
    def fresh(self) -> bool:
        """It can be asked something: it was not ended, and it has not been idle for too long."""
        return not self.closed and self._loop.time() < self._deadline

    @property
    def has_answered(self) -> bool:
        """Something of an answer has come, be it the first byte."""
        return self._head_size > 0

    def ask(self, head: bytes, body: bytes, timeout: float) -> None:
        self._is_busy = True
        self._head_size = 0
        self.status = 0
        self.headers = {}
        self.complete = False
        self._lasts = False
        self.expect(timeout)
        self._large = len(body) > _LARGE
        if not self._large:
            self._transport.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        else:
            self._transport.write(b"%b%d\r\n\r\n" % (head, len(body)))
            self._transport.write(body)

    def expect(self, timeout: float) -> None:
        """From now on the server may be silent for so long."""
        now = self._loop.time()
        self._timeout = timeout
        self._deadline = now + timeout
        if self._watch is not None and self._watch.when() > self._deadline:
            self._watch.cancel()
            self._watch = None
        if self._watch is None:
            self._watch = self._loop.call_at(min(self._deadline, now + _TICK), self._look)

    async def head(self) -> None:
        """Until status and headers are here."""
        while self.status == 0:
            await self._more()

    async def some(self) -> bytes:
        """What has arrived since the last time; empty at the end."""
        while not self._pieces:
            if self.complete:
                return b""
            await self._more()
        return self.taken()

    async def pour(self, take: Take) -> bool:
        """Give `take`, which must not raise, everything that arrives, where it arrives: of a stream that would be a task to be
        woken for every piece. Returns at the end (True), or when `take` wants no more for now (False)."""
        self._context = copy_context()  # of this task, for those whom `take` tells
        while True:
            if self._pieces and not take(self.taken()):
                return False
            if self.complete:
                return True
            self._take = take
            try:
                await self._more()
                if self._take is None:
                    return False
            finally:
                self._take = None

    def taken(self) -> bytes:
        """What is here, and was not taken before."""
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._waiting = 0
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()
            self.expect(self._timeout)
        return data

    def done(self) -> bool:
        """The answer is read; may the connection be used again?"""
        self._is_busy = False
        self._pieces.clear()
        self._waiting = 0
        if not self._lasts or self.closed or self._paused or self._transport.get_write_buffer_size():
            return False
        if self._large and self.status >= 400:  # perhaps said before all was sent: under TLS it is unknown how much was
            return False
        self._deadline = self._loop.time() + IDLE
        return True

    def abort(self) -> None:
        """At once, without waiting for what is under way."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if not self.closed:
            self.closed = True
            if self.home is not None:
                self.home.remove(self)
            self._transport.abort()
            # Both know us: cycles would leave every closed connection, and the answer it holds, to the collector.
            del self._transport, self._parser

    async def _more(self) -> None:
        """Until something has come; what came before the connection broke is read first."""
        if (broken := self._broken) is not None:
            # What is raised knows this frame, and through it us: it must not be known by either.
            self._broken = ConnectionBroken("the connection was closed")
            try:
                raise broken
            finally:
                del broken
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _break(self, why: Exception) -> None:
        self._broken = self._broken or why
        self._wake()
        self.abort()

    def _look(self) -> None:
        self._watch = None
        now = self._loop.time()
        if self._paused:  # it is we who keep the server waiting; `some` starts anew
            self._watch = self._loop.call_at(now + _TICK, self._look)
        elif now < self._deadline:
            self._watch = self._loop.call_at(min(self._deadline, now + _TICK), self._look)
        elif self._is_busy:
            self._break(TimeoutError(f"nothing came for {self._timeout:g} seconds"))
        else:
            self.abort()

    # ---- what the event loop says ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, and does not say so

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_busy or self.closed:  # an answer to no request, or to one that was given up
            self.abort()
            return
        self._deadline = self._loop.time() + self._timeout
        if self.status == 0:
            self._head_size += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.complete:  # else it is behind the answer, and only the connection is of no more use
                self._break(ConnectionBroken(f"what it sent is not HTTP: {error}"))
                return
            self.abort()
        if self._take is not None and not self.closed:
            if self._pieces and not self._context.run(self._take, self.taken()):
                self._take = None
            elif not self.complete:
                return  # no task has to wake up for it
        self._waiting += nbytes
        if self._waiting > _MANY and self._pieces and not (self._paused or self.closed):
            self._paused = True
            self._transport.pause_reading()
        if self.status == 0 and self._head_size > _LONGEST_HEAD:
            self._break(ConnectionBroken("its head is too long"))
        self._wake()

    def eof_received(self) -> bool:
        # At once: the transport would first send the rest of a request to a server that has left.
        self.connection_lost(None)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_busy and not self.complete:
            if error is None and self.status and self._ends_with_connection:
                self.complete = True
            elif self._broken is None:
                self._broken = error or ConnectionBroken("the connection was closed")
        self._wake()
        self.abort()

    @property
    def _ends_with_connection(self) -> bool:
        coding = self.headers.get(b"transfer-encoding")
        return b"content-length" not in self.headers if coding is None else b"chunked" not in coding.lower()

    # ---- what the parser says ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise ConnectionBroken("it answers a request that was not sent")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status == 0:  # else it is behind the body
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # "go on", "wait": the answer is yet to come
            self.headers = {}
        else:
            self.status = status

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True
            self._lasts = self._parser.should_keep_alive()  # it knows this now and no later
