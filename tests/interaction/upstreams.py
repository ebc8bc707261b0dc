"""Scripted servers behind ours: each request that comes is answered by the next act of a script."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from types import EllipsisType
from typing import Any, TypeAlias

from tests.interaction.doors import Json

Frame: TypeAlias = Json | str | EllipsisType  # `...` waits until the client has seen what came before


class Exchange:
    """One request to a scripted server, and the means to answer it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Json, body: bytes, shown: asyncio.Event
    ) -> None:
        self.head = head
        self.body = body
        self.shown = shown
        self._reader = reader
        self._writer = writer

    @property
    def json(self) -> Json:
        said: Json = json.loads(self.body)
        return said

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        more = "".join(f"{name.replace('_', '-')}: {said}\r\n" for name, said in headers.items())
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        await self.write(f"{head}{more}\r\n".encode() + body)

    async def begin_stream(self) -> None:
        await self.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        )

    async def send(self, *frames: Frame) -> None:
        for frame in frames:
            if isinstance(frame, EllipsisType):
                await self.shown.wait()
                continue
            data = f"data: {frame if isinstance(frame, str) else json.dumps(frame)}\n\n".encode()
            await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.write(b"0\r\n\r\n")

    async def until_gone(self) -> None:
        """Wait until the other side has closed its connection."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read()


Act: TypeAlias = Callable[[Exchange], Awaitable[None]]


class Upstream:
    """A server that answers each request with the next act, and remembers what it was asked."""

    def __init__(self, *acts: Act) -> None:
        self._acts = list(acts)
        self._server: asyncio.Server
        self._handlers: set[asyncio.Task[None]] = set()
        self.heads: list[Json] = []
        self.bodies: list[bytes] = []
        self.shown = asyncio.Event()  # set by a test when its client has seen the beginning
        self.url = ""

    @property
    def requests(self) -> list[Json]:
        return [json.loads(body) for body in self.bodies]

    async def __aenter__(self) -> Upstream:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._handlers):
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            head = {name.lower(): said for name, said in (line.split(": ", 1) for line in lines[1:] if line)}
            body = await reader.readexactly(int(head.get("content-length", "0")))
            at = len(self.bodies)
            self.heads.append(head)
            self.bodies.append(body)
            act = self._acts[at] if at < len(self._acts) else refuses(500, "the script of this upstream is over")
            await act(Exchange(reader, writer, head, body, self.shown))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the other side is gone, or the test is over
        finally:
            self._handlers.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def call(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def completes(text: str | None = None, *calls: Json, tokens: tuple[int, int] = (10, 5), **message: Any) -> Act:
    """A good answer, streamed or plain as the request wants it."""
    finish = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}

    async def act(exchange: Exchange) -> None:
        if not exchange.json.get("stream"):
            whole: Json = {"role": "assistant", "content": text, **message}
            if calls:
                whole["tool_calls"] = list(calls)
            choice = {"index": 0, "message": whole, "finish_reason": finish}
            body = {"id": "up", "object": "chat.completion", "choices": [choice], "usage": usage}
            await exchange.answer(json.dumps(body).encode())
            return
        await exchange.begin_stream()
        await exchange.send(delta(role="assistant", content=text, **message))
        for at, asked in enumerate(calls):
            await exchange.send(delta(tool_calls=[{"index": at, **asked}]))
        await exchange.send(delta(finish=finish), {"choices": [], "usage": usage}, "[DONE]")
        await exchange.end_stream()

    return act


def delta(finish: str | None = None, **said: Any) -> Json:
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return {"id": "up", "object": "chat.completion.chunk", "choices": [choice]}


def refuses(status: int, message: str, code: str | None = None, **headers: str) -> Act:
    """An error in OpenAI's shape."""
    body = {"error": {"message": message, "type": "some_error", "param": None, "code": code}}

    async def act(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(body).encode(), status, **headers)

    return act


def answers(body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> Act:
    """These bytes, whatever they mean."""

    async def act(exchange: Exchange) -> None:
        await exchange.answer(body, status, kind, **headers)

    return act


def streams(*frames: Frame, ended: bool = True) -> Act:
    """These frames; not `ended`, the connection is cut behind them."""

    async def act(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send(*frames)
        if ended:
            await exchange.end_stream()

    return act
