"""GET /health: the process is alive. GET /ready: it is able to take requests, and if not, why.

    the database   as its probe sees it (`store.reach`); a journal in a file must still be where it was
    the disk       takes a small file, and has room for more
    the model      as its last call went, or as the local engine's process is; no call is made for it
    draining       the server is told to end

Both are for everybody who can reach the server, so neither names an address or a path.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from ronda.drive import capabilities_of
from ronda.server.http.incoming import Incoming, Json, Whole
from ronda.wire.json import encode

if TYPE_CHECKING:
    from ronda.server.app import Server

OK: Final = "ok"
FRESH_FOR: Final = 1.0  # seconds for which the disk is not looked at again: everybody may ask
DISK_SECONDS: Final = 2.0  # that a disk may take: one behind a network may never answer
LEAST_FREE: Final = 8 << 20  # bytes: the log of a journal grows by so much between two checkpoints
RETRY_SECONDS: Final = 2
_PROBE: Final = bytes(4096)


async def health(server: Server, incoming: Incoming) -> ASGIApp:
    return Whole(b"OK", headers=[(b"content-type", b"text/plain; charset=utf-8")])


async def ready(server: Server, incoming: Incoming) -> ASGIApp:
    checks = {
        "database": _database(server),
        "disk": await server.disk.problem() or OK,
        "model": _model(server),
        "draining": "the server is stopping" if server.runs.stopping else OK,
    }
    if all(found == OK for found in checks.values()):
        return Json(encode({"status": "ready", "checks": checks}))
    headers = [(b"retry-after", b"%d" % RETRY_SECONDS)]
    return Json(encode({"status": "not ready", "checks": checks}), 503, headers)


def _database(server: Server) -> str:
    if server.reach is not None and server.reach.is_lost:
        return f"it has not answered for {server.reach.seconds_away:.0f} seconds"
    return OK


def _model(server: Server) -> str:
    if (problem := capabilities_of(server.models.default.provider).problem) is not None and (why := problem()):
        return why
    state = server.runs.host.model
    return "its last call failed" if state is not None and state.is_failing else OK


class Disk:
    """The folders that the server writes to, looked at by one thread at a time."""

    def __init__(self, server: Server) -> None:
        config, self._journal = server.config, server.runs.journal
        self._folders = [] if server.data_folder is None else [server.data_folder]
        if config.file_store is not None and "://" not in config.file_store:
            self._folders.append(Path(config.file_store))
        self._looking: asyncio.Task[str | None] | None = None
        self._found: str | None = None
        self._until = 0.0

    async def problem(self) -> str | None:
        if time.monotonic() >= self._until:
            if self._looking is None:
                self._looking = asyncio.create_task(asyncio.to_thread(self._look))
            await asyncio.wait([self._looking], timeout=DISK_SECONDS)
            if not self._looking.done():
                return "it does not answer"
            self._found, self._looking = self._looking.result(), None
            self._until = time.monotonic() + FRESH_FOR
        return self._found

    def _look(self) -> str | None:
        if not getattr(self._journal, "is_in_place", True):  # of a journal in a file
            return "the journal's file was deleted or moved"
        # A folder that is not there yet is made with the first file that is kept in it.
        return next((why for folder in self._folders if folder.exists() and (why := _problem_of(folder))), None)


def _problem_of(folder: Path) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_PROBE)
            file.flush()
        found = os.statvfs(folder)
    except OSError as error:
        return "it is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "it cannot be written to"
    free = found.f_bavail * found.f_frsize
    return f"it has {free >> 20} MiB left" if found.f_blocks and free < LEAST_FREE else None
