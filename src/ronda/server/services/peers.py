"""Servers that share a data folder: a request about a run that another one drives goes to that one, and its answer comes back.

    a request ──► here ── the run is driven elsewhere ──► that process's own socket, in the data folder ──► its answer, as it is

So every process can follow, steer, answer and end any run. One that is gone is not asked: then the journal says what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.errors import RondaError
from ronda.server.http.incoming import Header, Incoming, Watch

FORWARDED_HEADER: Final = b"x-ronda-forwarded"  # so that no request goes round in circles
_OF_THE_CONNECTION: Final = frozenset(
    [b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"upgrade", b"expect", FORWARDED_HEADER]
)
_HEAD_BYTES: Final = 64 * 1024
_LONGEST_ADDRESS: Final = 100  # bytes; of a socket's address systems take 104 and 108
_CONNECT_SECONDS: Final = 1.0


class SharedJournal(Protocol):
    """A journal that several processes write to."""

    @property
    def process(self) -> str:
        """This one's name."""

    def is_alive(self, process: str) -> bool: ...

    async def driver_of(self, run: str) -> str | None:
        """The process that drives a run, if it is another one, and alive."""


class Peers:
    """`path` is that of the journal, beside which each process has its socket."""

    def __init__(self, path: Path, journal: SharedJournal) -> None:
        self._path = path
        self._journal = journal
        self._folder: int | None = None  # open, where the address would be too long

    def listen(self) -> socket.socket:
        """This process's own socket, for the others."""
        self._clear_away_the_dead()
        own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own.bind(self._address(self._journal.process))
        own.listen(512)
        return own

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file(self._journal.process).unlink()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    async def answer(self, incoming: Incoming, run: str, limit: int) -> ASGIApp | None:
        """What the process that drives a run says to a request; None if no other process drives it."""
        if FORWARDED_HEADER in incoming.headers or (process := await self._journal.driver_of(run)) is None:
            return None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._address(process), limit=_HEAD_BYTES)
        except (OSError, TimeoutError):
            return None
        forwarded = _ForwardedRequest(incoming, reader, writer)
        try:
            await forwarded.ask(limit)
        except (OSError, EOFError, ValueError) as error:  # it has just ended
            writer.close()
            if incoming.method in ("GET", "HEAD"):
                return None
            raise JustEnded("the process that drove this run has just ended; ask again in a moment") from error
        return forwarded

    def _file(self, process: str) -> Path:
        return self._path.with_name(f"{self._path.name}-peer-{process}")

    def _address(self, process: str) -> str:
        file = self._file(process)
        if len(os.fsencode(file)) <= _LONGEST_ADDRESS or not os.path.isdir("/proc/self/fd"):
            return str(file)
        if self._folder is None:
            self._folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{file.name}"

    def _clear_away_the_dead(self) -> None:
        for file in self._path.parent.glob(f"{self._path.name}-peer-*"):
            process = file.name.removeprefix(f"{self._path.name}-peer-")
            if process == self._journal.process or not self._journal.is_alive(process):
                with contextlib.suppress(OSError):
                    file.unlink()


class JustEnded(RondaError):
    status_hint = 503


class _ForwardedRequest:
    """A request that another process answers."""

    def __init__(self, incoming: Incoming, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._incoming = incoming
        self._reader = reader
        self._writer = writer
        self._status = 0
        self._headers: list[Header] = []

    async def ask(self, limit: int) -> None:
        """Until the answer begins."""
        incoming = self._incoming
        body = b"" if incoming.method in ("GET", "HEAD") else await incoming.body(limit)
        lines = [b"%b %b HTTP/1.1" % (incoming.method.encode(), incoming.target)]
        lines += [b"%b: %b" % header for header in incoming.headers.items() if header[0] not in _OF_THE_CONNECTION]
        lines += [b"content-length: %d" % len(body), b"connection: close", FORWARDED_HEADER + b": 1"]
        self._writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        self._status = int(head[0].split()[1])
        self._headers = [_header(line) for line in head[1:] if line]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = Watch(receive, self._writer.close)
        try:
            await self._pass_on(send)
        except (OSError, EOFError, ValueError):
            pass  # the client has left, or the process has ended: what was sent is all there is
        finally:
            watch.stop()
            self._writer.close()

    async def _pass_on(self, send: Send) -> None:
        headers = self._headers
        kept = [header for header in headers if header[0] not in _OF_THE_CONNECTION or header[0] == b"content-length"]
        await send({"type": "http.response.start", "status": self._status, "headers": kept})
        async for piece in self._pieces(dict(headers)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
        if headers.get(b"transfer-encoding") == b"chunked":
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                yield await self._reader.readexactly(size)
                await self._reader.readexactly(2)
        elif left := int(headers.get(b"content-length", b"0")):
            yield await self._reader.readexactly(left)


def _header(line: bytes) -> Header:
    name, _, value = line.partition(b":")
    return name.strip().lower(), value.strip()
