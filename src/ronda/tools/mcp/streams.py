"""Text frames, from a pipe or a WebSocket ⇄ the pair of streams that the SDK's session reads and writes.

The SDK has no WebSocket any more, and its own pipe knows no bound for a line and leaves a server's children behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

log = logging.getLogger("ronda.mcp")

MAX_MESSAGE: Final = 16 * 1024 * 1024  # a screenshot or two in base64; what is larger ends the connection
MAX_GARBAGE: Final = 100  # lines in a row that are no message: then it is no MCP server

Write = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def message_streams(frames: AsyncIterator[str | bytes], write: Write) -> AsyncGenerator[TransportStreams, None]:
    """Pump frames both ways until the body ends. The read stream ends with `frames`, or when a frame cannot be written."""
    arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leaving, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        garbage = 0
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with arriving:
                async for frame in frames:
                    if (message := _message(frame)) is None:
                        garbage += 1
                        if garbage >= MAX_GARBAGE:
                            log.warning("an MCP server wrote %d lines in a row that are no messages", garbage)
                            return
                        continue
                    garbage = 0
                    await arriving.send(message)

    async def send() -> None:
        try:
            async with to_send:
                async for message in to_send:
                    await write(message.message.model_dump_json(by_alias=True, exclude_unset=True))
        except (OSError, RuntimeError) as error:  # the other side is gone
            log.debug("a message could not be written", exc_info=error)
            await arriving.aclose()

    tasks = [asyncio.create_task(read()), asyncio.create_task(send())]
    try:
        yield received, leaving
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (arriving, received, leaving, to_send):
            stream.close()


def _message(frame: str | bytes) -> SessionMessage | None:
    """None for what is no message: a server that prints to its standard output, mostly."""
    if not frame.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False))
    except ValueError:
        log.debug("an MCP server wrote what is no message: %.200r", frame)
        return None


class Delivery:
    """How far a call got: how often it was handed to the transport, and what HTTP answered last."""

    __slots__ = ("rounds", "status")

    def __init__(self) -> None:
        self.rounds = 0
        self.status: int | None = None


# The SDK writes a request, and sends it over HTTP, in the context of whoever asked for it: there its Delivery is found.
delivery: ContextVar[Delivery | None] = ContextVar("delivery", default=None)


class WatchedWrites:
    """Notes each message that was handed over, with whoever sends it."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        note = delivery.get()
        if note is None or not isinstance(item.message, JSONRPCRequest):
            return await self._stream.send(item)
        note.rounds += 1  # before: over HTTP it may be answered before we are back
        try:
            await self._stream.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            note.rounds -= 1
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class WatchedReads:
    """A stream that tells when it has ended: the session itself only tells those who wait for an answer."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
