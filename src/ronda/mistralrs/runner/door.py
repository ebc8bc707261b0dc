"""The bytes of a request → the Chat door, in this process → the bytes of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ronda.errors import RunEnded
from ronda.host.run import look_at
from ronda.mistralrs.runner.response import Failed

if TYPE_CHECKING:
    from ronda.server.app import Server

Take = Callable[[bytes], Awaitable[None]]

read_failed = msgspec.json.Decoder(Failed).decode


class _Client:
    """One client, as the door sees it: a body, no key, and a connection that stays until `leave`."""

    def __init__(self, body: bytes, take: Take) -> None:
        self._body: bytes | None = body
        self._take = take
        self._left = asyncio.Event()
        self._status = 0
        self._refusal: list[bytes] = []

    @property
    def scope(self) -> dict[str, Any]:
        return {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif self._status == 200:
            await self._take(message.get("body", b""))
        else:
            self._refusal.append(message.get("body", b""))

    async def ask(self, server: Server) -> None:
        from ronda.server.features.doors.chat import Chat  # of an extra
        from ronda.server.http.incoming import Incoming

        chat = server.features.find(Chat.name)
        assert isinstance(chat, Chat)
        app = await chat.door.chat_completions(Incoming(self.scope, self.receive))
        await app(self.scope, self.receive, self.send)
        if self._status != 200:
            raise RunEnded(read_failed(b"".join(self._refusal)).error.message)

    def leave(self) -> None:
        self._left.set()


async def ask(server: Server, body: bytes, take: Take) -> None:
    """Give `take` the answer, piece by piece. Cancelling this is like a client that leaves: the door ends the run."""
    client = _Client(body, take)
    answer = asyncio.ensure_future(client.ask(server))
    answer.add_done_callback(look_at)
    try:
        await asyncio.shield(answer)
    except asyncio.CancelledError:
        client.leave()
        await asyncio.wait([answer])
        raise


async def collect(server: Server, body: bytes) -> bytes:
    """The answer in one piece."""
    pieces: list[bytes] = []

    async def take(data: bytes) -> None:
        pieces.append(data)

    await _Client(body, take).ask(server)
    return b"".join(pieces)
