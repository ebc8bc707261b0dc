"""The server as a process: it says it is up when it is, and a signal ends it cleanly from its first moment on."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, Final

import uvicorn

from ronda.cli.memory import LargeMemory
from ronda.cli.reload import has_terminal
from ronda.errors import BadConfig

log = logging.getLogger("ronda.server")

_LOOKS_EVERY: Final = 5  # ticks of uvicorn's, a tenth of a second each
_WARNS_EVERY: Final = 60.0  # seconds

# The program that ends a server waits for it: with the three seconds for runs, all is over within five.
CONNECTION_SECONDS: Final = 1  # until what was written to clients must be sent
CANCEL_SECONDS: Final = 0.2  # until what is cancelled last must have ended
LAST_SECONDS: Final = 1.9  # after the time for runs, until the process is ended whatever it waits for


class NotStarted(BadConfig):
    """What keeps the server from starting, found when it was about to."""


class _Kept(logging.Filter):
    """Keeps what is logged, so that it is not printed."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            self.messages.append(record.getMessage())
        return False


class Process(uvicorn.Server):
    def __init__(self, settings: uvicorn.Config, up: Callable[[], None], before_end: Callable[[], Awaitable[None]]):
        super().__init__(settings)
        self._up = up
        self._before_end = before_end
        self._next_warning = 0.0
        self._memory = LargeMemory()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        said, uvicorn_log = _Kept(), logging.getLogger("uvicorn.error")
        uvicorn_log.addFilter(said)  # of a start that fails it says two lines: the app's reason, and that there is one
        try:
            await super().startup(sockets if sockets is None else [one for one in sockets if not _is_near(one)])
        except SystemExit as error:  # uvicorn's way to say that the app did not start
            raise NotStarted(said.messages[0] if said.messages else "the server could not start") from error
        finally:
            uvicorn_log.removeFilter(said)
        loop = asyncio.get_running_loop()
        for one in filter(_is_near, sockets or ()):  # other workers, who speak no TLS to each other
            self.servers.append(await loop.create_server(self._connection, sock=one, backlog=self.config.backlog))
        self._up()

    def _connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn calls it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def on_tick(self, counter: int) -> bool:
        if counter % _LOOKS_EVERY == 0:
            self.look_around(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def look_around(self, now: float) -> None:
        self._memory.look()
        for connection in list(self.server_state.connections):
            if (look := getattr(connection, "look", None)) is not None:  # a WebSocket may be silent
                look(now)
        if now >= self._next_warning and _no_descriptor_is_left():
            self._next_warning = now + _WARNS_EVERY
            log.error(
                "no file descriptor is left, so new connections are closed at once; start the server with a higher limit "
                "(ulimit -n), or let fewer clients connect"
            )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._before_end()  # runs are cancelled before connections are waited for: streams end properly
        await super().shutdown(sockets)

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()  # uvicorn's own come too late: what was sent while models were loaded would be a traceback


def _is_near(listener: socket.socket) -> bool:
    return listener.family == getattr(socket, "AF_UNIX", None)  # Windows has none


def _no_descriptor_is_left() -> bool:
    """libuv closes what it cannot accept and says nothing. So this tries to open something itself."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


class EndedBeforeStart(Exception):
    """A signal came before the server was up."""


class Signals:
    """SIGINT, SIGTERM and SIGHUP, from before the first slow step. `process` is the server as soon as there is one.
    `run_seconds`: those that it gives to its runs when it ends. SIGHUP ends a server whose terminal was closed; otherwise it
    means `reload`, which one that starts does once it is up."""

    def __init__(self, run_seconds: float = 0.0) -> None:
        self._run_seconds = run_seconds
        self.received: signal.Signals | None = None
        self.process: Process | None = None
        self.reload: Callable[[], None] | None = None
        self._loading: asyncio.Task[list[str]] | None = None
        self._had_terminal = has_terminal()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_reload_due = False

    def is_up(self) -> None:
        """On the event loop."""
        self._loop = asyncio.get_running_loop()
        if self._is_reload_due and self.reload is not None:
            self.reload()

    @contextmanager
    def handled(self) -> Iterator[None]:
        before = {which: signal.signal(which, self._handle) for which in _ends()}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    async def loaded(self, load: Coroutine[Any, Any, list[str]]) -> list[str]:
        """The slow step of starting up; a signal ends it at once."""
        self._loading = asyncio.create_task(load)
        try:
            return await self._loading
        except asyncio.CancelledError:
            self.check()
            raise
        finally:
            self._loading = None

    def check(self) -> None:
        if self.received is not None:
            raise EndedBeforeStart

    @property
    def exit_code(self) -> int:
        """0 for who asked us to end and got it; Ctrl-C is told on, so that a script around us ends too."""
        return 130 if self.received is signal.SIGINT else 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_hangup = number == getattr(signal, "SIGHUP", None)
        if is_hangup and not (self._had_terminal and not has_terminal()):
            if self._loop is None or self.reload is None:
                self._is_reload_due = True
            else:
                self._loop.call_soon_threadsafe(self.reload)
            return
        if self.received is None:
            self._end_in_time(LAST_SECONDS if self.process is None else self._run_seconds + LAST_SECONDS)
        self.received = signal.Signals(number)
        if self.process is not None:
            self.process.handle_exit(number, frame)
        elif self._loading is not None:
            self._loading.get_loop().call_soon_threadsafe(self._loading.cancel)

    def _end_in_time(self, seconds: float) -> None:
        """In a thread, since no other is sure to go on: one may wait for a database that is away, or for a disk."""
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        print("ronda: ended without what did not end in time", file=sys.stderr, flush=True)
        os._exit(self.exit_code)


def _ends() -> list[signal.Signals]:
    """What ends us. A terminal that is closed does, unless we were told (`nohup`) not to care."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none
    cares = hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([hangup] if hangup is not None and cares else [])]


async def end_all(code: int, timeout: float = CANCEL_SECONDS, *, leaves_threads: bool = False) -> None:
    """End what is still under way. A tool that does not end when it is cancelled would keep the process for ever, and so would
    threads that are not waited for."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    left = (await asyncio.wait(others, timeout=timeout))[1] if others else ()
    if left:
        print(f"ronda: ended without {len(left)} calls that did not end when they were cancelled", file=sys.stderr)
    if left or leaves_threads:
        sys.stderr.flush()
        os._exit(code)
