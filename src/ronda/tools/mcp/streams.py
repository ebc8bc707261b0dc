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
from typing import Any, Final, Self, TypeAlias

import anyio
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from ronda.tools.mcp.bounds import cut_lists, id_in, is_too_much

log = logging.getLogger("ronda.mcp")

UNREADABLE: Final = 2  # besides NOT_ANSWERED: outside what JSON-RPC reserves
MAX_GARBAGE: Final = 100  # lines in a row that are no message: then it is no MCP server

Write: TypeAlias = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def message_streams(frames: AsyncIterator[str | bytes], write: Write) -> AsyncGenerator[TransportStreams, None]:
    """The read stream ends with `frames`. What raises as it is written was not delivered, and its sender is told so."""
    arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)

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

    reader = asyncio.create_task(read())
    try:
        yield received, _Writes(write)
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        arriving.close()
        received.close()


class _Closing:
    """What the SDK asks of both kinds of streams."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writes(_Closing):
    """Each message is written by its sender: a failure is the sender's only."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = asyncio.Lock()
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            async with self._lock:
                await self._write(text)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._closed = True


def _message(frame: str | bytes) -> SessionMessage | None:
    """None for what is no message: a server that prints to its standard output, mostly."""
    if not frame.strip():
        return None
    data = frame.encode() if isinstance(frame, str) else frame
    try:
        if not is_too_much(data):
            return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError:
        pass
    log.debug("an MCP server wrote what is no message: %.200r", frame)
    if not data.lstrip().startswith(b"{") or (message_id := id_in(data)) is None:
        return None
    # The waiting caller is told at once.
    error = ErrorData(code=UNREADABLE, message="its answer is too large, too deep, or no JSON")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message_id, error=error))


class Delivery:
    """How far a call got: how often it was handed to the transport, and what HTTP answered last."""

    __slots__ = ("rounds", "status")

    def __init__(self) -> None:
        self.rounds = 0
        self.status: int | None = None

    @property
    def refusal(self) -> str:
        """The status of a refusal, to be put behind a sentence."""
        return f" (HTTP {self.status})" if self.status is not None and self.status >= 400 else ""


# The SDK writes a request, and sends it over HTTP, in the context of the caller that asked for it: there its Delivery is found.
delivery: ContextVar[Delivery | None] = ContextVar("delivery", default=None)


class WatchedWrites(_Closing):
    """Notes each message that was handed over, with its sender."""

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


class WatchedReads(_Closing):
    """A stream that tells when it has ended: the session itself only tells callers that wait for an answer."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            cut_lists(item.message.result)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
