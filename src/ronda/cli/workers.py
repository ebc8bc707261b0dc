"""`ronda serve --workers N`: N processes that take requests from one socket and share a data folder.

This one serves no requests: it starts the others, starts one again that died, and ends them all when it is told to. If it is
killed itself, they notice that the pipe it holds is closed, and end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final

from ronda.cli.reload import has_terminal
from ronda.errors import BadConfig
from ronda.server.config import ServerConfig
from ronda.server.features.models.settings import ModelSettings

# In a worker's environment: its number, its listeners, and the pipe that ends with its parent.
_WORKER: Final = "RONDA_WORKER"
_MOST: Final = 64
_LONGEST_PAUSE: Final = 5.0  # seconds before a worker that keeps dying is started again
NOT_STARTED: Final = 3  # how a server ends that could not start, as uvicorn's own command does
_LASTS: Final = 10.0  # seconds after which one that died is taken to have been well


class Worker:
    """What a worker is told by its parent."""

    def __init__(self, text: str) -> None:
        number, listeners, lifeline = text.split(":")
        self.number = int(number)
        self.listeners = [socket.socket(fileno=int(one)) for one in listeners.split(",")]
        self.lifeline = int(lifeline)

    def end_with_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        """When the pipe that the parent holds is closed, it is gone."""
        loop.add_reader(self.lifeline, self._end, loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.lifeline)
        signal.raise_signal(signal.SIGTERM)

    @classmethod
    def of_environment(cls) -> Worker | None:
        text = os.environ.pop(_WORKER, None)  # which is not for whatever a worker starts
        return None if text is None else cls(text)


def count_workers(config: ServerConfig) -> int:
    count = config.workers
    if count == "auto":
        from ronda._cores import count_cores

        count = count_cores()
    if not 1 <= count <= _MOST:
        raise BadConfig(f"--workers is {count}; it can be 1 to {_MOST}, or 'auto' for one for each core")
    if count > 1:
        if sys.platform == "win32":
            raise BadConfig("--workers needs a system whose processes can share a socket; here it can only be 1")
        if config.data_dir == ":memory:" and config.database is None:
            raise BadConfig("workers share the data folder; --workers does not go with --data-dir :memory:")
        named = [one.model for one in config.part(ModelSettings).named.values()]
        if local := next((model for model in (config.model, *named) if model.startswith("local:")), None):
            raise BadConfig(f"each worker would load {local}, which has all cores already; leave --workers out")
    return count


class Workers:
    """`died` is told the process id of each that has ended."""

    def __init__(
        self, count: int, listeners: Sequence[socket.socket], died: Callable[[int], None] = lambda pid: None
    ) -> None:
        self._died = died
        self._listeners = [listener.fileno() for listener in listeners]
        self._numbers = range(count)
        self._lifeline, self._lifeline_end = os.pipe()
        self._processes: dict[int, tuple[int, subprocess.Popen[bytes], float]] = {}  # by process id
        self._restarted: set[int] = set()  # numbers of workers that are not the first with their number
        self._received: signal.Signals | None = None
        self._had_terminal = has_terminal()

    def run(self) -> int:
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for which in ends:
            if signal.getsignal(which) is not signal.SIG_IGN:
                signal.signal(which, self._end)
        for number in self._numbers:
            self._start(number)
        pause, code = 0.0, 0
        while self._processes:
            pid, status = os.wait()
            if pid not in self._processes:
                continue
            number, process, started = self._processes.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            self._died(pid)
            if self._received is not None or code:
                continue
            # Nothing that another try would change; or the server as a whole has not come up yet.
            if process.returncode == 2 or (process.returncode == NOT_STARTED and number not in self._restarted):
                code = process.returncode
                self._end_all()
                continue
            pause = 0.1 if time.monotonic() - started > _LASTS else min(2 * pause + 0.1, _LONGEST_PAUSE)
            print(
                f"ronda: worker {number} ended ({process.returncode}); it is started again", file=sys.stderr, flush=True
            )
            time.sleep(pause)
            if self._received is None:
                self._restarted.add(number)
                self._start(number)
        if self._received is signal.SIGINT:
            return 130
        return code

    def _start(self, number: int) -> None:
        worker = f"{number}:{','.join(map(str, self._listeners))}:{self._lifeline}"
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ronda", *sys.argv[1:]],
            pass_fds=(*self._listeners, self._lifeline),
            env={**os.environ, _WORKER: worker},
        )
        self._processes[process.pid] = (number, process, time.monotonic())
        if self._received is not None:  # while it was being started
            self._end_all()

    def _end(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP and not (self._had_terminal and not has_terminal()):
            self._tell_all(signal.SIGHUP)  # each reads the settings again
            return
        self._received = signal.Signals(number)
        self._end_all()

    def _end_all(self) -> None:
        self._tell_all(signal.SIGTERM)

    def _tell_all(self, which: signal.Signals) -> None:
        for pid in list(self._processes):
            with suppress(ProcessLookupError):
                os.kill(pid, which)
