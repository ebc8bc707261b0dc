"""A model's server that writes its bytes by hand, and our HTTP client in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ronda.core.limits import Timeouts
from ronda.providers.http import Http

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Upstream:
    """`acts` has what is done with one connection after the other; what was asked over each is kept."""

    def __init__(self, *acts: Act) -> None:
        self._acts = list(acts)
        self.asked: list[list[bytes]] = []
        self.gone = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat?version=2"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append([])
        act = self._acts.pop(0)
        try:
            await act(reader, writer)
        except asyncio.CancelledError:
            pass  # the loop ends, and Python 3.11 would complain of a handler that did not end by itself
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Upstream]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()


async def request(reader: asyncio.StreamReader) -> bytes:
    """One request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return head + await reader.readexactly(length)


def cut(answer: bytes, step: int) -> list[bytes]:
    """Pieces of `step` bytes, of more where that would take forever; 0 is one piece."""
    step = max(step, len(answer) // 300) if step else len(answer)
    return [answer[start : start + step] for start in range(0, len(answer), step or 1)]


def says(*answers: bytes, step: int = 0) -> Act:
    """One answer after the other over one connection, in pieces of `step` bytes."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await request(reader)
            for piece in cut(answer, step):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        await reader.read()

    return act


def sized(body: bytes, *more: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join([*lines, b"", body])


def chunked(*pieces: bytes, more: tuple[bytes, ...] = (), trailer: bytes = b"") -> bytes:
    head = b"\r\n".join([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", *more, b"", b""])
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n%b\r\n" % trailer


def http(upstream: Upstream, **timeouts: float) -> Http:
    return Http(upstream.url, {"Authorization": "Bearer key"}, Timeouts(**timeouts))


async def read(endpoint: Http, body: bytes = b"{}") -> tuple[int, bytes]:
    async with endpoint.post(body) as answer:
        return answer.status, await answer.read()


async def pieces(endpoint: Http) -> bytes:
    """The same through the door of streams."""
    read = b""
    async with endpoint.post(b"{}") as answer:
        while piece := await answer.next():
            read += piece
    return read
