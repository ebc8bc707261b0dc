"""The engine's own door: HTTP over a socket that only this user can open.

It is a Unix socket in a folder of our own (on Windows a loopback port), and the engine wants a random key. Connections are not
kept: making one costs nothing here, and each would hold a thread of the engine's.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from ronda.errors import UpstreamBroken, UpstreamError
from ronda.providers.http.connection import Connection, ConnectionBroken

SECONDS = 60.0
_SILENCE = 24 * 3600.0  # seconds: whether an answer takes too long is for those to say who watch the process
_READ = 64 * 1024  # bytes that are taken at once
Broken: Final = (ConnectionBroken, OSError)
_PREFIX, _SOCKET = "ronda-engine-", "engine.sock"


class Door:
    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._folder: Path | None = None
        if hasattr(socket, "AF_UNIX"):
            _sweep()
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._port = 0

    @property
    def host(self) -> str:
        """What the engine is told to listen on."""
        return "127.0.0.1" if self._folder is None else str(self._folder / _SOCKET)

    def opened(self, address: str) -> None:
        """The engine listens, there."""
        if self._folder is None:
            self._port = int(address.rpartition(":")[2])

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self, path: str, body: Any) -> bytes:
        """One question, one answer. Waits: not for the event loop."""
        return b"".join(self._ask(path, body, SECONDS))

    def ask_in_pieces(self, path: str, body: Any) -> Iterator[bytes]:
        """An answer as it comes. Waits: not for the event loop."""
        return self._ask(path, body, _SILENCE)

    def _ask(self, path: str, body: Any, silence: float) -> Iterator[bytes]:
        connection = self._connect(silence)
        try:
            connection.request(
                "POST",
                path,
                msgspec.json.encode(body),
                {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            if answer.status != 200:
                raise UpstreamError(reason(answer.read()), status=answer.status)
            while data := answer.read1(_READ):
                yield data
        except (OSError, http.client.HTTPException) as error:
            raise UpstreamBroken(f"the local engine does not answer: {error}") from error
        finally:
            connection.close()

    @contextlib.asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[Connection]:
        """A question whose answer has begun. Left early, the connection is closed. Raises one of `Broken`."""
        loop = asyncio.get_running_loop()
        new = partial(Connection, loop, memoryview(bytearray(_READ)))
        if self._folder is None:
            _, connection = await loop.create_connection(new, "127.0.0.1", self._port)
        else:
            _, connection = await loop.create_unix_connection(new, self.host)
        try:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{self._headers()}Content-Length: "
            connection.ask(head.encode(), body, _SILENCE)
            await connection.head()
            yield connection
        finally:
            connection.abort()

    def _headers(self) -> str:
        return f"Authorization: Bearer {self.key}\r\nContent-Type: application/json\r\nConnection: close\r\n"

    def _connect(self, silence: float) -> http.client.HTTPConnection:
        if self._folder is None:
            return http.client.HTTPConnection("127.0.0.1", self._port, timeout=silence)
        return _Local(self.host, silence)


def _sweep() -> None:
    """Remove what processes that were killed left behind: a socket of some age that no process listens on."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_SOCKET}"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            if path.stat().st_uid != os.getuid() or time.time() - path.stat().st_mtime < 60:
                continue
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                shutil.rmtree(path.parent, ignore_errors=True)


class _Local(http.client.HTTPConnection):
    def __init__(self, path: str, silence: float) -> None:
        super().__init__("localhost", timeout=silence)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _ErrorFields(msgspec.Struct, frozen=True):
    message: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _ErrorFields = _ErrorFields()


def reason(text: bytes) -> str:
    try:
        return msgspec.json.decode(text, type=_Refusal).error.message or "no reason given"
    except (msgspec.DecodeError, UnicodeError):
        return text[:300].decode("utf-8", "replace")
