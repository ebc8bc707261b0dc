"""HTTP at the edge of a run: bytes out as they come, and a client that goes away takes its runs with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

# How long a client waits for the head of a stream: until then a failure has its own status.
HEAD_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 10.0  # of silence
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
            self._task = None  # which knows us, by where it was cancelled: a cycle, with all that `gone` knows


def _nobody_left() -> None:
    """Said to nobody: whoever cared has been told, and is let go of."""


class EventStream:
    """A stream that is written while it is read: `put` takes bytes from wherever, `end` closes it.

    Its head waits for something to show (`open`), but not for ever: until then the answer may be another one (`replace`),
    whose status says what went wrong. `before_head` is awaited last before it; what that gives is the answer instead.
    """

    def __init__(
        self,
        headers: Sequence[tuple[bytes, bytes]] = (),
        keep_alive: bytes = KEEP_ALIVE,
        before_head: Callable[[], Awaitable[ASGIApp | None]] | None = None,
    ) -> None:
        self._keep_alive_bytes = keep_alive  # sent while there is nothing else
        self._before_head = before_head
        self._pending: list[bytes] = []
        self._ended = False
        self._instead: ASGIApp | None = None
        self._wake: asyncio.Future[None] | None = None
        self._sent_at = 0.0  # when something was sent last
        self._timer: asyncio.TimerHandle | None = None
        self._head = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            *headers,
        ]
        self.is_open = False
        self.gone: Callable[[], None] = _nobody_left

    def put(self, data: bytes) -> None:
        self._pending.append(data)
        if self.is_open:
            self._ring()

    def open(self) -> None:
        """There is something to show: the head goes out, and all that was put."""
        self.is_open = True
        self._ring()

    def replace(self, answer: ASGIApp) -> None:
        """Answer with this instead; nothing was shown yet."""
        assert not self.is_open
        self._instead = answer
        self.end()

    def end(self) -> None:
        self._ended = True
        self.open()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = Watch(receive, self.gone)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HEAD_SECONDS, self._tick, loop)
        try:
            while not self.is_open:
                self._wake = loop.create_future()
                await self._wake
            if self._instead is None and self._before_head is not None:
                self._instead = await self._before_head()
            if self._instead is not None:
                await self._instead(scope, receive, send)
                return
            self._sent_at = loop.time()
            await send({"type": "http.response.start", "status": 200, "headers": self._head})
            while True:
                if pending := self._pending:
                    self._pending = []
                    body = pending[0] if len(pending) == 1 else b"".join(pending)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    self._sent_at = loop.time()
                elif self._ended:
                    break
                else:
                    self._wake = loop.create_future()
                    await self._wake
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._ended = True
            self._timer.cancel()
            watch.stop()
            gone, self.gone = self.gone, _nobody_left
            gone()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """The one timer: the head, when it has waited long enough, and then a sign of life after every long silence."""
        if self._ended:
            return
        silence = loop.time() - self._sent_at if self.is_open else 0.0
        if not self.is_open:
            self.open()
        elif silence >= KEEP_ALIVE_SECONDS:
            self.put(self._keep_alive_bytes)
            silence = 0.0
        self._timer = loop.call_later(max(KEEP_ALIVE_SECONDS - silence, 0.001), self._tick, loop)
