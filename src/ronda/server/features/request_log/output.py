"""Where the lines go: to the logging of a program that has some, else to standard error, from a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import queue
import sys
from contextlib import suppress
from typing import Final

LOGGER: Final = "ronda.access"

_MAX_WAITING: Final = 10_000  # lines, a few megabytes, while what reads standard error does not
_LAST_SECONDS: Final = 1.0  # for lines that wait when the server ends

log = logging.getLogger("ronda.server")


class _Waiting(logging.handlers.QueueHandler):
    """A line that finds no room is counted, and not waited for: standard error may be a pipe that is not read."""

    queue: queue.Queue[logging.LogRecord]
    lost = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


class LineOutput:
    def __init__(self) -> None:
        self._logger = logging.getLogger(LOGGER)
        if self._logger.level == logging.NOTSET:
            self._logger.setLevel(logging.INFO)
        self._waiting: _Waiting | None = None
        self._thread: logging.handlers.QueueListener | None = None

    def open(self) -> None:
        if self._logger.hasHandlers():  # those of a program that our app is mounted in
            return
        lines: queue.Queue[logging.LogRecord] = queue.Queue(_MAX_WAITING)
        self._waiting = _Waiting(lines)
        self._thread = logging.handlers.QueueListener(lines, logging.StreamHandler(sys.stderr))
        self._thread.start()

    def write(self, line: str) -> None:
        if self._waiting is None:
            self._logger.info("%s", line)
        else:
            self._waiting.handle(logging.LogRecord(LOGGER, logging.INFO, "", 0, line, None, None))

    async def close(self) -> None:
        if self._thread is None or self._waiting is None:
            return
        with suppress(TimeoutError, queue.Full):
            await asyncio.wait_for(asyncio.to_thread(self._thread.stop), _LAST_SECONDS)
        if self._waiting.lost:
            log.warning("%d lines of the request log were lost: standard error was not read", self._waiting.lost)
