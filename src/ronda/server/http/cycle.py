"""One request on a connection and its answer, as uvicorn has them, with a short way out for what this server sends.

uvicorn looks at each header and each message of an answer as if a stranger could have written them, which costs a tenth of a
plain request. Ours are made here. Whatever is out of the ordinary (HEAD, an old HTTP, a log of requests, a client that does not
read) goes uvicorn's way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPScope

Header = tuple[bytes, bytes]

EVENT_STREAM: Final = (b"content-type", b"text/event-stream; charset=utf-8")


class Bell(asyncio.Event):
    """An event that one task waits for at the most."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> Literal[True]:
        while not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return True


class Cycle(RequestResponseCycle):
    # As uvicorn has them, in each request, for a server that writes no access log: `features/request_log` does.
    logger = logging.getLogger("uvicorn.error")
    access_logger = logging.getLogger("uvicorn.access")
    access_log = False

    # As uvicorn has them at the beginning, and as nearly all stay.
    chunked_encoding: bool | None = None
    expected_content_length = 0

    gone: Callable[[], None] | None = None  # called when the connection is lost; its setter takes it back

    def __init__(
        self, scope: HTTPScope, connection: HttpToolsProtocol, keep_alive: bool, on_response: Callable[[], None]
    ) -> None:
        self.disconnected = self.response_started = self.response_complete = False
        self.more_body = True
        self.lingers = False  # the connection ends with the answer, although not all of the request is here
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.default_headers = connection.server_state.default_headers
        self.message_event = Bell()
        self.on_response = on_response
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.body = bytearray()
        self.is_usual = keep_alive and scope["method"] != "HEAD" and not self.default_headers

    def answer(self, status: int, headers: Sequence[Header], body: bytes) -> bool:
        """Send a whole answer; False if it must go the usual way. `headers` say how long it is."""
        head = self._head(status, headers)
        if head is None:
            return False
        self.transport.write(b"".join((head, b"\r\n", body)))
        self._over()
        return True

    def _head(self, status: int, headers: Sequence[Header]) -> bytes | None:
        is_usual = self.is_usual and self.keep_alive  # which a server that ends takes back
        if not is_usual or self.response_started or self.disconnected or self.flow.write_paused:
            return None
        head = b"%b%b\r\n" % (STATUS_LINE[status], b"\r\n".join(map(b": ".join, headers)))
        if head.count(b"\n") != len(headers) + 1:  # a header that would be two, or none at all
            return None
        self.response_started = True
        self.waiting_for_100_continue = False
        return head

    def _over(self) -> None:
        self.response_complete = True
        self.message_event.set()
        self.on_response()

    async def send(self, message: ASGISendEvent) -> None:
        if not self.response_started:
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = message["headers"]
                is_stream = isinstance(headers, list) and headers[0] == EVENT_STREAM
                if is_stream and self.begin(list(headers)):
                    return
        elif self.chunked_encoding and message["type"] == "http.response.body":
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if not self.disconnected and not self.response_complete:
                self._write_piece(message["body"], is_last=not message["more_body"])
                if message["more_body"] or self.response_complete:
                    return
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        if self.more_body and self.response_started and not self.keep_alive:
            self.lingers = self.keep_alive = (
                True  # or uvicorn would close the connection, with all that is still coming
            )
        await super().send(message)

    def begin(self, headers: Sequence[Header], piece: bytes = b"") -> bool:
        """Send the head of a stream, and its first piece with it; False if it must go the usual way."""
        head = self._head(200, headers)
        if head is None:
            return False
        self.chunked_encoding = True
        self.transport.write(b"%btransfer-encoding: chunked\r\n\r\n%b" % (head, _chunk(piece)))
        return True

    def push(self, piece: bytes, *, is_last: bool = False) -> bool:
        """Send a piece of a stream at once; False if the client does not take it just now. After the last one the answer is
        complete, unless its end must go the usual way."""
        if self.disconnected or self.flow.write_paused or not self.chunked_encoding or self.response_complete:
            return False
        if piece and not is_last:
            self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            self._write_piece(piece, is_last=is_last)
        return True

    def _write_piece(self, piece: bytes, *, is_last: bool) -> None:
        """In one write: each is a packet."""
        if is_last and self.is_usual and self.keep_alive:
            self.transport.write(b"%b0\r\n\r\n" % _chunk(piece))
            self._over()
        elif piece:
            self.transport.write(_chunk(piece))

    def take_body(self) -> bytes | None:
        """All of the request's body, if it is here."""
        if self.more_body or not self.body or self.waiting_for_100_continue or self.disconnected:
            return None
        self.flow.resume_reading()  # else it would not be noticed that the client leaves
        self.message_event.clear()
        body, self.body = self.body, bytearray()
        return bytes(body)


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""  # an empty one would end the answer
