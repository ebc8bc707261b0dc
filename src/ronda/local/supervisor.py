"""The engine's process in all its lives: started when it is needed, again after it died, and not for a while if it dies often."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable

from ronda.errors import UpstreamError
from ronda.local.process import EngineProcess, log

MAX_DEATHS = 3
WITHIN = 60.0  # seconds
PAUSE = 30.0


class EngineDown(UpstreamError):
    """It died too often just now."""

    status_hint = 503


class Supervisor:
    """`pauses`: not where deaths are what the process is there for."""

    def __init__(
        self, make: Callable[[], EngineProcess], now: Callable[[], float] = time.monotonic, *, pauses: bool = True
    ) -> None:
        self._make = make
        self._pauses = pauses
        self._now = now
        self._lock = threading.Lock()
        self._process: EngineProcess | None = None
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self._down_until = 0.0
        self._why = ""

    def live(self) -> EngineProcess:
        """One that is there or on its way."""
        with self._lock:
            if self._process is None or self._process.is_over:
                self.check()
                if self._process is None:
                    atexit.register(self.close)
                self._process = process = self._make()
                process.ended.add_done_callback(lambda ended: self._note(process, ended.result()))
                process.start()
            return self._process

    @property
    def is_up(self) -> bool:
        """Whether the process is there, with its model loaded."""
        process = self._process
        return process is not None and not process.is_over and process.ready.done()

    @property
    def is_busy(self) -> bool:
        process = self._process
        return process is not None and not process.is_over and process.is_busy

    def check(self) -> None:
        """Raises EngineDown while it is not to be started."""
        left = self._down_until - self._now()
        if left > 0:
            raise EngineDown(
                f"the local engine ended {MAX_DEATHS} times within a minute; it can be asked again in {left:.0f} seconds",
                status=503,
                retry_after=left,
            )

    def _note(self, process: EngineProcess, why: str) -> None:
        if not self._pauses or process.is_closing or process.ready.exception() is not None:
            return
        now = self._now()
        self._deaths.append(now)
        if len(self._deaths) == MAX_DEATHS and now - self._deaths[0] < WITHIN:
            self._deaths.clear()
            self._down_until = now + PAUSE
            log.error("the local engine ended %d times within a minute, at last because: %s", MAX_DEATHS, why)

    def close(self) -> None:
        process = self._process
        if process is not None:
            process.close()
