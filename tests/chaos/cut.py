"""A way to a database that can be cut: nothing passes, and nobody is told, as when a cable is pulled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Cut:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._is_whole = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.breaks_at: bytes | None = None  # what a client says last: it is passed on, and the connection is lost
        self.url = ""

    @contextmanager
    def open(self) -> Iterator[Cut]:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        self.url = self._url.replace(f":{self._to[1]}/", f":{port}/")
        self.mend()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._is_whole.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._is_whole.set)

    def refuse(self) -> None:
        """As when the database is stopped: connections end, and nobody gets a new one. There is no way back."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)

    async def _start(self) -> int:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._is_whole.wait()
                there_reader, there_writer = await asyncio.open_connection(*self._to)
                try:
                    await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
                finally:
                    there_writer.close()
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._is_whole.wait()
            writer.write(data)
            await writer.drain()
            if self.breaks_at is not None and self.breaks_at in data:
                self.breaks_at = None
                raise ConnectionResetError
        writer.close()
