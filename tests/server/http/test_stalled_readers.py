"""A reader that stalls holds its model back: the server neither reads nor keeps what no client takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.cli.commands import startup

SIZE = 50_000_000
PIECE = "Z" * 4_000  # a letter that nothing else of a frame has
READERS = 10


class Flood:
    """A model's server whose answer has 50 MB. It writes as fast as it is read."""

    def __init__(self) -> None:
        self.written = 0
        self.left = False
        self.url = ""
        self.news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Flood]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        frame = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % PIECE.encode()
        try:
            for _ in range(SIZE // len(PIECE)):
                writer.write(frame)
                await writer.drain()
                self.written += len(PIECE)
                self.news.set()
            writer.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):  # the second where the test is over
            self.left = True
            self.news.set()
        writer.close()

    async def until_it_is_held(self) -> None:
        """Until nothing more was taken for a moment."""
        while True:
            self.news.clear()
            try:
                async with asyncio.timeout(1.0):
                    await self.news.wait()
            except TimeoutError:
                return


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def asking(cls, port: int) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        body = json.dumps({"messages": [{"role": "user", "content": "go"}], "stream": True}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        await reader.readexactly(1)  # the answer has begun
        return cls(reader, writer)

    async def rest(self) -> int:
        """Read on to the end; how many characters of the answer there were."""
        count, tail = 0, b""
        while data := await self.reader.read(1_000_000):
            count += data.count(b"Z")
            tail = (tail + data)[-100:]
            if b"[DONE]" in tail:
                break
        return count


def memory(process: subprocess.Popen[str]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@contextlib.contextmanager
def serving(url: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`ronda serve` in a process of its own, and its port."""
    command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", ":memory:", "--base-url", url]
    command += ["--model", "openai-chat:m", "--max-answer-bytes", str(2 * SIZE), *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OPENAI_API_KEY": "k"})
    try:
        found = re.search(r":(\d+)/", "".join(startup(process)))
        assert found is not None
        yield process, int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_ten_readers_that_stall_hold_their_model_back_and_go_on_when_they_do() -> None:
    async with Flood().serving() as flood:
        with serving(flood.url) as (process, port):
            first = await Client.asking(port)  # for what is loaded once
            await flood.until_it_is_held()
            before, written = memory(process), flood.written
            clients = [await Client.asking(port) for _ in range(READERS)]
            await flood.until_it_is_held()
            grown, taken = memory(process) - before, flood.written - written
            async with asyncio.timeout(60):
                whole = await clients[0].rest()
            for client in (first, *clients):
                client.writer.transport.abort()

    assert taken < READERS * SIZE / 4  # sockets hold a few MB of it on either side
    assert grown < READERS * 5_000_000
    assert whole == SIZE


async def test_a_reader_that_takes_nothing_for_so_long_counts_as_gone() -> None:
    async with Flood().serving() as flood:
        with serving(flood.url, "--stall-seconds", "1") as (_, port):
            client = await Client.asking(port)
            async with asyncio.timeout(30):
                while not flood.left:
                    await flood.news.wait()
                    flood.news.clear()
            client.writer.transport.abort()

    assert flood.written < SIZE
