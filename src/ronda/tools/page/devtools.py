"""The DevTools protocol over the channel of a sandboxed browser: commands out, their answers and events in.

Messages are JSON with a zero byte after each (`--remote-debugging-pipe`). By hand, for it is this little: a client library would
bring a second process (Playwright's is Node) or want a port, and the browser has no network.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.sandbox.process import Process
from ronda.wire.codec.json import UNREADABLE

MAX_MESSAGE: Final = 64 * 1024 * 1024  # a picture of a long page, in base64

OnEvent: TypeAlias = "Callable[[Message], None]"


class _Error(Struct, frozen=True):
    message: str = ""


class Message(Struct, frozen=True, rename="camel"):
    """An answer has an `id`, an event a `method`. All of it was said by a browser that shows a hostile page."""

    id: int = 0
    method: str = ""
    session_id: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: _Error | None = None


_decode = msgspec.json.Decoder(Message).decode


class Devtools:
    """A connection. `on_event` is called for every event, in order."""

    def __init__(self, process: Process, on_event: OnEvent) -> None:
        self._process = process
        self._on_event = on_event
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._count = 0
        self._writing = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._failure: ToolFailed | None = None

    async def __aenter__(self) -> Devtools:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._reading is not None
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self._end(ToolFailed("the browser was closed"))

    async def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """The answer to a command. ToolFailed where the browser refuses it, or is gone."""
        if self._failure is not None:
            raise ToolFailed(str(self._failure))
        self._count += 1
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[self._count] = answer
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        async with self._writing:
            await self._process.write(msgspec.json.encode(message) + b"\0")
        got = await answer
        if got.error is not None:
            raise ToolFailed(f"the browser refuses {method}: {got.error.message[:200]}")
        return got.result

    async def _read(self) -> None:
        buffer = bytearray()
        seen = 0  # bytes of it that have no zero in them
        try:
            while True:
                buffer += await self._process.read()
                while (end := buffer.find(b"\0", seen)) >= 0:
                    self._take(bytes(buffer[:end]))
                    del buffer[: end + 1]
                    seen = 0
                seen = len(buffer)
                if seen > MAX_MESSAGE:
                    raise ToolFailed("the browser sent more than was asked for")
        except ToolFailed as error:
            self._end(error)
        except UNREADABLE:
            self._end(ToolFailed("the browser sent something that is no message"))

    def _take(self, data: bytes) -> None:
        message = _decode(data)
        if message.method:
            self._on_event(message)
        elif (answer := self._answers.pop(message.id, None)) is not None and not answer.done():
            answer.set_result(message)

    def _end(self, error: ToolFailed) -> None:
        self._failure = self._failure or error
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ToolFailed(str(error)))
                answer.exception()  # its awaiter gets it, if there is one
        self._answers.clear()
