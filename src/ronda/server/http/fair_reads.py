"""What one read of a socket brings is looked at in pieces, and other clients have their turn between two of them.

A read brings up to 256 kB. That may be eight thousand requests, or forty thousand frames of a WebSocket: the next piece is looked
at when those of the last one have been taken, so that they need not all be kept.

A client that takes nothing of what waits for it, for `stall_seconds`, is treated as gone: its model is held back meanwhile.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

PIECE: Final = 16 * 1024  # bytes: three thousand frames, some 15 ms
STALL_SECONDS: Final = 60.0


class Pieces(asyncio.Protocol, ABC):
    """Stands before a protocol of uvicorn's, which gets its data by `take`."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    stall_seconds: float
    _rest = b""
    _is_scheduled = False
    _unsent = 0  # bytes that the client has not taken, when it was last looked …
    _unsent_since = 0.0  # … and since when it has taken none

    @abstractmethod
    def take(self, data: bytes) -> None:
        """Pass a piece on."""

    @property
    @abstractmethod
    def is_paused(self) -> bool:
        """The reader wants no more for now, and calls `go_on` later."""

    def data_received(self, data: bytes) -> None:
        if len(data) <= PIECE and not self._rest and not self.is_paused:
            self.take(data)
        else:
            self._rest += data
            self.transport.pause_reading()
            self.go_on()

    def go_on(self) -> None:
        """Look at the next piece soon, if there is one and it is wanted."""
        if self._rest and not self._is_scheduled and not self.is_paused:
            self._is_scheduled = True
            self.loop.call_soon(self._take_next)

    def _take_next(self) -> None:
        self._is_scheduled = False
        if self.transport.is_closing():
            self._rest = b""
            return
        protocol = self.transport.get_protocol()
        assert isinstance(protocol, asyncio.Protocol)
        if protocol is not self:  # what follows is for the WebSocket that this connection has become
            rest, self._rest = self._rest, b""
            self.transport.resume_reading()
            protocol.data_received(rest)
            return
        piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
        self.take(piece)
        if self._rest:
            self.go_on()
        elif not self.is_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def look(self, now: float) -> None:
        """Called once in a while: does the client take anything?"""
        unsent = self.transport.get_write_buffer_size()
        if unsent < self._unsent or not self._unsent:
            self._unsent_since = now
        self._unsent = unsent
        if unsent and now - self._unsent_since > self.stall_seconds:
            self.transport.abort()
