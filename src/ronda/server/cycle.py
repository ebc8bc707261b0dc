"""One request on a connection and its answer, as uvicorn has them, with a short way out for what this server sends.

uvicorn looks at each header and each message of an answer as if anybody could have written them, which costs a tenth of a
plain request. Ours are made here. Whatever is out of the ordinary (HEAD, an old HTTP, a log of requests, a client that does not
read) goes uvicorn's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

Header = tuple[bytes, bytes]

EVENT_STREAM: Final = (b"content-type", b"text/event-stream; charset=utf-8")


class Cycle(RequestResponseCycle):
    # What uvicorn's `__init__` sets for every request, and most never change.
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0

    def answer(self, status: int, headers: Sequence[Header], body: bytes) -> bool:
        """Send a whole answer; False if it must go the usual way. `headers` say how long it is."""
        head = self._head(status, headers)
        if head is None:
            return False
        self.transport.write(b"%b\r\n%b" % (head, body))
        self._over()
        return True

    def _head(self, status: int, headers: Sequence[Header]) -> bytes | None:
        if (
            self.response_started
            or self.disconnected
            or self.access_log
            or self.default_headers
            or not self.keep_alive
            or self.flow.write_paused
            or self.scope["method"] == "HEAD"
        ):
            return None
        head = b"".join([STATUS_LINE[status], *[b"%b: %b\r\n" % header for header in headers]])
        if head.count(b"\n") != len(headers) + 1:  # a header that would be two
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
                if is_stream and (head := self._head(200, list(headers))) is not None:
                    self.chunked_encoding = True
                    self.transport.write(b"%btransfer-encoding: chunked\r\n\r\n" % head)
                    return
        elif self.chunked_encoding and message["type"] == "http.response.body":
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if not self.disconnected and not self.response_complete:
                if body := message["body"]:
                    self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
                if message["more_body"]:
                    return
                if self.keep_alive:
                    self.transport.write(b"0\r\n\r\n")
                    self._over()
                    return
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        await super().send(message)

    async def receive(self) -> ASGIReceiveEvent:
        if self.more_body or not self.body or self.waiting_for_100_continue or self.disconnected:
            return await super().receive()
        self.flow.resume_reading()  # or nobody would notice that the client leaves
        self.message_event.clear()  # the body is here, and all of it
        body, self.body = self.body, bytearray()
        return {"type": "http.request", "body": bytes(body), "more_body": False}
