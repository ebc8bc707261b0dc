"""GET /health: the process is alive. GET /ready: it is able to take requests, and if not, why.

    the database   as its probe sees it (`store.reach`); a journal in a file must still be where it was
    the disk       takes a small file, and has room for more
    the model      as its last call went, or as the local engine's process is; no call is made for it
    draining       the server is told to end

Both are for every client that can reach the server, so neither names an address or a path.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from ronda.drive import capabilities_of
from ronda.journal import Journal
from ronda.server.http.incoming import Incoming, Json, Whole
from ronda.server.services.models import Models
from ronda.server.services.other_processes import OtherProcesses
from ronda.server.services.runs import Runs
from ronda.wire.codec.json import encode

OK: Final = "ok"
FRESH_FOR: Final = 1.0  # seconds for which the disk is not looked at again: every client may ask
DISK_SECONDS: Final = 2.0  # that a disk may take: one behind a network may never answer
LEAST_FREE: Final = 8 << 20  # bytes: the log of a journal grows by so much between two checkpoints
RETRY_SECONDS: Final = 2
_PROBE: Final = bytes(4096)


class ReadinessDoor:
    def __init__(self, runs: Runs, models: Models, others: OtherProcesses, disk: Disk) -> None:
        self._runs = runs
        self._models = models
        self._others = others
        self.disk = disk

    async def health(self, incoming: Incoming) -> ASGIApp:
        return Whole(b"OK", headers=[(b"content-type", b"text/plain; charset=utf-8")])

    async def ready(self, incoming: Incoming) -> ASGIApp:
        checks = {
            "database": self._database(),
            "disk": await self.disk.problem() or OK,
            "model": self._model(),
            "draining": "the server is stopping" if self._runs.stopping else OK,
        }
        if all(found == OK for found in checks.values()):
            return Json(encode({"status": "ready", "checks": checks}))
        headers = [(b"retry-after", b"%d" % RETRY_SECONDS)]
        return Json(encode({"status": "not ready", "checks": checks}), 503, headers)

    def _database(self) -> str:
        if self._others.reach is not None and self._others.reach.is_lost:
            return f"it has not answered for {self._others.reach.seconds_away:.0f} seconds"
        return OK

    def _model(self) -> str:
        if (problem := capabilities_of(self._models.default.provider).problem) is not None and (why := problem()):
            return why
        state = self._runs.host.model
        return "its last call failed" if state is not None and state.is_failing else OK


class Disk:
    """The folders that the server writes to, looked at by one thread at a time."""

    def __init__(self, journal: Journal, data_folder: Path | None, file_store: str | None) -> None:
        self._journal = journal
        self._folders = [] if data_folder is None else [data_folder]
        if file_store is not None and "://" not in file_store:
            self._folders.append(Path(file_store))
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
