"""Where the pieces of an answer go: the body of an HTTP response, or the messages of a WebSocket.

A piece is what a door's writer wrote: whole frames. A sink knows how its transport carries them, whether there is room, and how
it ends. It knows nothing of runs, events or dialects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from starlette.types import Receive, Scope, Send

from ronda.server.http.cycle import EVENT_STREAM, Cycle
from ronda.server.http.failure import ErrorWriter, error_answer, run_error_answer
from ronda.server.http.incoming import Header
from ronda.wire.shared.failures import Failure

KEEP_ALIVE: Final = b": keep-alive\n\n"  # of SSE


class Sink(Protocol):
    @property
    def puts_at_once(self) -> bool:
        """Whether `put` is worth a try."""

    @property
    def keep_alive(self) -> bytes:
        """What is sent after a long silence; nothing, if it is empty."""

    def put(self, piece: bytes, *, is_last: bool = False) -> bool:
        """Send a piece without waiting; False if there is no room for it now. The first takes the head with it."""

    async def begin(self) -> None:
        """There will be pieces."""

    async def send(self, piece: bytes, *, is_last: bool) -> None:
        """Send a piece when there is room."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to send, after the last piece was put."""

    async def refuse(self, failure: Failure, *, may_be_repeated: bool) -> None:
        """There are no pieces and there will be none: why. A client may repeat its request, unless runs were begun for it."""


class HttpSink:
    """The body of a response: SSE, unless its writer has another `content_type` (a header) and `keep_alive` (bytes)."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        writer: object,
        headers: Sequence[Header],
        write_error: ErrorWriter | None,
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._writer = writer
        self._headers = headers
        self._write_error = write_error
        cycle = getattr(send, "__self__", None)
        self._cycle: Cycle | None = cycle if type(cycle) is Cycle else None
        self._has_begun = False
        self.puts_at_once = self._cycle is not None

    @property
    def keep_alive(self) -> bytes:
        return bytes(getattr(self._writer, "keep_alive", KEEP_ALIVE))

    @property
    def has_ended(self) -> bool:
        return self._cycle is not None and self._cycle.response_complete

    def put(self, piece: bytes, *, is_last: bool = False) -> bool:
        cycle = self._cycle
        if cycle is None:
            return False
        if self._has_begun:
            return cycle.push(piece, is_last=is_last)
        if not cycle.begin(self._head, piece):
            self._cycle = None  # the usual way, from here on
            return False
        self._has_begun = True
        if is_last:
            cycle.push(b"", is_last=True)  # if there is no room, it has not ended yet
        return True

    async def begin(self) -> None:
        self._has_begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": self._head})

    async def send(self, piece: bytes, *, is_last: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": not is_last})

    async def refuse(self, failure: Failure, *, may_be_repeated: bool) -> None:
        assert self._write_error is not None
        write = error_answer if may_be_repeated else run_error_answer
        answer = write(failure, self._write_error, tuple(self._headers))
        await answer(self._scope, self._receive, self._send)

    @property
    def _head(self) -> list[Header]:
        return [
            getattr(self._writer, "content_type", EVENT_STREAM),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            *self._headers,
        ]


class SocketSink:
    """The messages of a WebSocket: each line of a piece is one. The connection lives longer than an answer."""

    puts_at_once = False
    keep_alive = b""
    has_ended = False

    def __init__(self, say: Callable[[str], Awaitable[None]], refuse: Callable[[Failure], Awaitable[None]]) -> None:
        self._say = say
        self._refuse = refuse

    def put(self, piece: bytes, *, is_last: bool = False) -> bool:
        return False

    async def begin(self) -> None:
        """A socket has no head."""

    async def send(self, piece: bytes, *, is_last: bool) -> None:
        for line in piece.splitlines():
            await self._say(line.decode())

    async def refuse(self, failure: Failure, *, may_be_repeated: bool) -> None:
        await self._refuse(failure)
