"""A way to a database that can be cut: nothing passes, neither side is told, as when a cable is pulled. Or the database leaves:
connections break, and there are no new ones; at any moment, or at the next statement of a kind.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

# A statement's kind: what it does to which table; of an UPDATE also the first column.
_KINDS: Final = re.compile(
    rb"(?P<change>(?:INSERT INTO|DELETE FROM)\s+[\w.\"]+|UPDATE\s+[\w.\"]+(?:\s+AS\s+\w+)?\s+SET\s+\w+)"
    rb"|(?P<look>SELECT)\b[^;]{0,2000}?\bFROM\s+(?P<table>[a-z][\w.\"]*)|(?P<word>\b(?:BEGIN|COMMIT|LISTEN)\b)"
)


def kinds_in(data: bytes) -> list[str]:
    """Of the statements that a client sends in these bytes."""
    found = []
    for match in _KINDS.finditer(data):
        words = match["change"] or match["word"] or b"SELECT " + match["table"]
        found.append(" ".join(words.decode("ascii", "replace").replace('"', "").split()))
    return found


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
        self.seen: Counter[str] = Counter()  # kinds of statements
        self.leaves_at: str | None = None  # the kind of statement at which the database leaves …
        self.passes_last = True  # … which it gets, or not
        self.has_left = threading.Event()
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

    def leave(self) -> None:
        """As when the database is stopped, until `come_back`."""
        self._loop.call_soon_threadsafe(self._leave)

    def come_back(self) -> None:
        self.has_left.clear()

    def reconnect(self) -> None:
        """Connections break once, and every client makes new ones."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def _leave(self) -> None:
        self.has_left.set()
        for task in self._tasks:
            task.cancel()

    def refuse(self) -> None:
        """As when the database is stopped: connections end, and no client gets a new one. There is no way back."""
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
        await asyncio.sleep(0)  # sockets are closed in the next turn of the loop

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                if self.has_left.is_set():
                    return
                await self._is_whole.wait()
                there_reader, there_writer = await asyncio.open_connection(*self._to)
                try:
                    await asyncio.gather(
                        self._pass(reader, there_writer, is_asking=True), self._pass(there_reader, writer)
                    )
                finally:
                    there_writer.transport.abort()
        finally:
            writer.transport.abort()  # what was not passed on is not waited for
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_asking: bool = False
    ) -> None:
        while data := await reader.read(65536):
            await self._is_whole.wait()
            if is_asking and self._ends_with(data):
                if self.passes_last:
                    writer.write(data)
                    await writer.drain()
                self._leave()
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
            if self.breaks_at is not None and self.breaks_at in data:
                self.breaks_at = None
                raise ConnectionResetError
        writer.close()

    def _ends_with(self, data: bytes) -> bool:
        """Whether the database leaves now."""
        kinds = kinds_in(data)
        self.seen.update(kinds)
        if self.leaves_at is None or self.leaves_at not in kinds:
            return False
        self.leaves_at = None
        return True
