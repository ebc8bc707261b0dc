"""Requests whose heads have no end: answered with 431, not kept in memory. uvicorn bounds them only for another parser."""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ronda.wire.openai_chat.answer import write_error

MAX_HEAD: Final = 64 * 1024


class BoundedHeads(HttpToolsProtocol):
    _in_head = False
    _size = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._size += len(data)
            if self._size > MAX_HEAD and not self.transport.is_closing():
                self._refuse()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._size = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def _refuse(self) -> None:
        if self.cycle is None or self.cycle.response_complete:  # else it would stand in the middle of an answer
            message = f"the request's headers are larger than {MAX_HEAD} bytes"
            body = write_error(message, "invalid_request_error")
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
            )
        self.transport.close()
