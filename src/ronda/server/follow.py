"""HTTP at the edge of a run: bytes out as they come, and a client that goes away takes its runs with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import Receive, Scope, Send

KEEP_ALIVE_SECONDS = 10.0
KEEP_ALIVE = b": keep-alive\n\n"
# Most answers are over before this; only longer ones are worth a task that listens for the client going away.
_WATCH_AFTER = 0.05


class Watch:
    """Calls `gone` when the client closes its connection."""

    __slots__ = ("_gone", "_receive", "_task", "_timer")

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        self._receive = receive
        self._gone = gone
        self._task: asyncio.Future[Any] | None = None
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, self._listen)

    def _listen(self) -> None:
        self._task = asyncio.ensure_future(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def stop(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


def _nobody_left() -> None:
    """Said to nobody: whoever cared has been told, and is let go of."""


class EventStream:
    """A stream that is written while it is read: `put` takes bytes from wherever, `end` closes it."""

    def __init__(self, headers: Sequence[tuple[bytes, bytes]] = (), keep_alive: bytes = KEEP_ALIVE) -> None:
        self._keep_alive_bytes = keep_alive  # sent while there is nothing else
        self._pending: list[bytes] = []
        self._ended = False
        self._wake: asyncio.Future[None] | None = None
        self._head = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            *headers,
        ]
        self.gone: Callable[[], None] = _nobody_left

    def put(self, data: bytes) -> None:
        self._pending.append(data)
        self._ring()

    def end(self) -> None:
        self._ended = True
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = Watch(receive, self.gone)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(KEEP_ALIVE_SECONDS, self._keep_alive, loop)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._head})
            while True:
                if pending := self._pending:
                    self._pending = []
                    body = pending[0] if len(pending) == 1 else b"".join(pending)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                elif self._ended:
                    break
                else:
                    self._wake = loop.create_future()
                    await self._wake
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._ended = True
            timer.cancel()
            watch.stop()
            gone, self.gone = self.gone, _nobody_left
            gone()

    def _keep_alive(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._ended:
            return
        self.put(self._keep_alive_bytes)
        loop.call_later(KEEP_ALIVE_SECONDS, self._keep_alive, loop)
