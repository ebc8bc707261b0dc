"""WebSockets as uvicorn reads them, without what one client could do to others: text is left to whoever reads it, off the loop,
and no message comes in fragments without end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from ronda.server.http.fair_reads import STALL_SECONDS, Pieces

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent

MAX_FRAGMENTS: Final = 10_000  # of one message


class BoundedSockets(Pieces, WebSocketsSansIOProtocol):
    def __init__(self, *args: Any, stall_seconds: float = STALL_SECONDS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stall_seconds = stall_seconds

    @property
    def is_paused(self) -> bool:
        return self.read_paused

    def take(self, data: bytes) -> None:
        WebSocketsSansIOProtocol.data_received(self, data)

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        self.go_on()
        return message

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
