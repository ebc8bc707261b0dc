"""WebSockets as uvicorn reads them, without what one client could do to others.

Text is left to its reader, off the loop; no message comes in fragments without end; and messages that are not taken yet
share the memory of all requests that are being read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from ronda.server.http.body_memory import UNBOUNDED, UNCOUNTED, BodyMemory, NoRoom
from ronda.server.http.fair_reads import PIECE, STALL_SECONDS, Pieces

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

MAX_FRAGMENTS: Final = 10_000  # of one message


class BoundedSockets(Pieces, WebSocketsSansIOProtocol):
    def __init__(
        self, *args: Any, stall_seconds: float = STALL_SECONDS, memory: BodyMemory = UNBOUNDED, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.stall_seconds = stall_seconds
        self._memory = memory
        self._unread = 0  # bytes that are not taken yet, at the most …
        self._counted = 0  # … of which so many are counted among those of all requests

    @property
    def is_paused(self) -> bool:
        return self.read_paused

    def take(self, data: bytes) -> None:
        self._unread += len(data)
        if self._unread > UNCOUNTED and not self._has_room():
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, "the server reads too many large messages")
            self.handle_parser_exception()
            return
        WebSocketsSansIOProtocol.data_received(self, data)

    def _has_room(self) -> bool:
        # Control frames were taken, and are no part of a message.
        self._unread = len(self.conn.reader.buffer) + sum(map(len, self.frames)) + PIECE
        if self._unread <= UNCOUNTED:
            return True
        try:
            self._counted = self._memory.grow(self._counted, self._unread)
        except NoRoom:
            return False
        return True

    def _release(self) -> None:
        self._memory.release(self._counted)
        self._unread = self._counted = 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._release()

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        if self._counted:
            self._release()
        self.go_on()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # else uvicorn reports an error of ours for each request that is refused

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # it spoke before it was let in: it gets no goodbye
            self.transport.abort()
        else:
            super().handle_parser_exception()

    def handle_ping(self) -> None:
        """Who takes none of the answers gets no more of them: the last one is enough (RFC 6455, 5.5.3)."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(CloseCode.POLICY_VIOLATION, f"more than {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        self.curr_msg_data_type = "bytes"  # text that is none is an error in the client's dialect, not a traceback here
        super().send_receive_event_to_app()
