"""A program in a sandbox, as the server holds it: what it writes, the frames it exchanges, how it ends, and its end.

Everything it says is hostile: output is read at a bounded rate and handed on as it comes, a frame that is too long ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.sandbox.processes import tree
from ronda.sandbox.watchdog import Excess, WatchedSandbox, watchdog

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
Why = Literal["exited", "killed", "timeout"] | Excess

MAX_FRAME = 64 * 1024 * 1024  # of one message; images and files travel in them
FULL = "Until files are deleted and there is room, code in this folder can delete files and write none."
_PIECE = 64 * 1024
_TICK = 0.01  # seconds in which at most _PER_TICK bytes of a stream are read: a flood must not keep the event loop
_PER_TICK = 1024 * 1024
_OWN_END = 1.0  # seconds for a program that closed its channel to end by itself
_LAST_WORDS = 5.0  # seconds for what is still in a pipe once the last process is gone


class ExitStatus(Struct, frozen=True):
    """How it ended. A code from 128 on stands for a signal, as in a shell."""

    code: int
    why: Why


class Capture:
    """What a stream said, within a bound: its beginning and its end, and how much there was."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._half:
                del self._tail[: -self._half]

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        return bytes(self._tail[-self._half :])

    @property
    def is_cut(self) -> bool:
        return self.total > len(self._head) + len(self.tail)

    def text(self, where: str = "") -> str:
        """`where` says where what is left out can be found."""
        left_out = self.total - len(self.head) - len(self.tail)
        middle = f"\n… {left_out} of {self.total} bytes left out{where} …\n".encode() if left_out else b""
        return (self.head + middle + self.tail).decode(errors="replace")


class _Pump:
    """Reads a pipe as fast as the rate allows."""

    def __init__(self, fd: int, sink: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._spent = 0
        self._since = self._loop.time()
        self._resume: asyncio.TimerHandle | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(fd, self._read)

    def _read(self) -> bool:
        """Whether there was something."""
        now = self._loop.time()
        if now - self._since >= _TICK:
            self._since, self._spent = now, 0
        try:
            data = os.read(self._fd, _PIECE)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self._spent += len(data)
        self._sink(data)
        if self._spent >= _PER_TICK and not self.done.done():
            self._loop.remove_reader(self._fd)
            self._resume = self._loop.call_later(_TICK, self._loop.add_reader, self._fd, self._read)
        return True

    def drain(self) -> None:
        """Hands on what is in the pipe by now, at most what a pipe holds."""
        for _ in range(_PER_TICK // _PIECE):
            if self.done.done() or not self._read():
                return

    def close(self) -> None:
        if not self.done.done():
            if self._resume is not None:
                self._resume.cancel()
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self.done.set_result(None)


class Process:
    """One program and everything it starts. Made by `Sandbox.start`, in the event loop's thread."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        stdout: int,
        stderr: int,
        on_output: OnOutput | None,
        channel: socket.socket | None,
        soft_kill: bool,
    ) -> None:
        sink = on_output or (lambda stream, data: None)
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(popen.pid)
        self._init = -1  # a pidfd of the first process of a pid namespace
        self._lock = threading.Lock()  # of both: the watchdog's thread uses them, too
        self.may_write = True  # False: its files were too many when it began
        self._soft_kill = soft_kill  # whether it is a supervisor, which ends the others first
        self._channel = channel
        self._buffer = bytearray()
        self._is_receiving = False
        self._why: Why = "exited"
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._pumps = (
            _Pump(stdout, lambda data: sink("stdout", data)),
            _Pump(stderr, lambda data: sink("stderr", data)),
        )
        self._watched: WatchedSandbox | None = None
        self._cleanups: list[Callable[[], Awaitable[None]]] = []
        self._ended: asyncio.Task[ExitStatus] | None = None
        self._loop.add_reader(self._pidfd, self._exited)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended_for(self) -> Why:
        """Why it was ended; "exited" until it was."""
        return self._why

    @property
    def is_running(self) -> bool:
        return not self._exit.done() and self._why == "exited"

    def watch(self, watched: WatchedSandbox) -> None:
        """From now on as `watched` says, and not as another did before."""
        self.unwatch()
        self._watched = watched
        watchdog.watch(watched)

    def unwatch(self) -> None:
        if self._watched is not None:
            watchdog.forget(self._watched)
            self._watched = None

    def hold(self, pid: int) -> None:
        """The first process of its pid namespace: when that is gone, all are. bubblewrap's own end does not end it if it comes
        while the namespace is still being set up."""
        self._init = os.pidfd_open(pid)

    def when_ended(self, cleanup: Callable[[], Awaitable[None]]) -> None:
        """Done once, before `wait` returns."""
        self._cleanups.append(cleanup)

    def exceed(self, excess: Excess) -> None:
        """The watchdog's: too much of something. Called from its thread."""
        self.kill(excess)

    def kill(self, why: Why = "killed") -> None:
        """Ends it with everything it started; `wait` tells when that is done."""
        if self._exit.done():
            return
        self.blame(why)
        if not self._signal(self._init, signal.SIGKILL):
            self._signal(self._pidfd, signal.SIGTERM if self._soft_kill else signal.SIGKILL)
            return
        # bubblewrap's outer process ends by itself, and notes the end of the others, which no other process would in a container.
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(
                self._loop.call_later, _LAST_WORDS, self._signal, self._pidfd, signal.SIGKILL
            )

    def _signal(self, pidfd: int, number: int) -> bool:
        with self._lock:
            if pidfd < 0 or pidfd not in (self._init, self._pidfd):
                return False
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, number)
            return True

    def drain(self) -> None:
        """Hands on what it has written by now: a frame overtakes what was written before it."""
        for pump in self._pumps:
            pump.drain()

    def interrupt(self) -> None:
        """SIGINT to the program itself, as Ctrl-C would send it."""
        # Under both layers there is a first process that is not the program: bubblewrap's second one, or the supervisor.
        family = tree(self._popen.pid)
        program = family[1:] if self._soft_kill else family[2:]
        if program:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(program[0], signal.SIGINT)

    def blame(self, why: Why) -> None:
        """Says why it ended, where it is not said yet."""
        if self._why == "exited":
            self._why = why

    async def wait(self) -> ExitStatus:
        """Until the last of its processes is gone and all it wrote has been handed on."""
        if self._ended is None:
            self._ended = self._loop.create_task(self._finish())
        return await asyncio.shield(self._ended)

    async def end(self) -> ExitStatus:
        """Kills it, and waits."""
        self.kill()
        return await self.wait()

    async def _finish(self) -> ExitStatus:
        code = await self._exit
        if self._init >= 0:
            await self._all_gone()
        self.unwatch()
        await asyncio.wait([pump.done for pump in self._pumps], timeout=_LAST_WORDS)
        for pump in self._pumps:
            pump.close()
        self._close_channel()
        for cleanup in self._cleanups:
            await cleanup()
        if code == 128 + signal.SIGXCPU:
            self.blame("cpu")
        return ExitStatus(code, self._why)

    async def _all_gone(self) -> None:
        self._signal(self._init, signal.SIGKILL)
        gone = asyncio.Event()
        self._loop.add_reader(self._init, gone.set)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gone.wait(), _LAST_WORDS)
        self._loop.remove_reader(self._init)
        _take_note(self._init)
        with self._lock:
            os.close(self._init)
            self._init = -1

    def _exited(self) -> None:
        code = self._popen.wait()
        self._loop.remove_reader(self._pidfd)
        with self._lock:
            os.close(self._pidfd)
            self._pidfd = -1
        self._exit.set_result(128 - code if code < 0 else code)
        if self._ended is None:
            self._ended = self._loop.create_task(self._finish())

    # Frames: four bytes of length, and the bytes. Only for programs that were started with a channel.

    async def send(self, frame: bytes) -> None:
        await self.write(struct.pack("!I", len(frame)) + frame)

    async def receive(self, most: int = MAX_FRAME) -> bytes:
        (length,) = struct.unpack("!I", await self._exactly(4))
        if length > most:
            self.kill()
            raise ToolFailed(f"the sandboxed program sent a message of {length} bytes; {most} are allowed")
        return await self._exactly(length)

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += await self.read()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    # The same channel without frames: for programs that have a protocol of their own. ToolFailed where it is gone.

    async def write(self, data: bytes) -> None:
        if self._watched is not None:
            watchdog.hurry(self._watched)
        try:
            await self._loop.sock_sendall(self._open_channel(), data)
        except OSError as error:
            raise ToolFailed(await self._gone()) from error

    async def read(self) -> bytes:
        """What has come, and something has."""
        channel = self._open_channel()
        self._is_receiving = True
        try:
            data = await self._loop.sock_recv(channel, _PIECE)
        except OSError:
            data = b""
        finally:
            self._is_receiving = False
        if not data:
            raise ToolFailed(await self._gone())
        return data

    def _open_channel(self) -> socket.socket:
        if self._channel is None:
            raise ValueError("this program was started without a channel")
        return self._channel

    def _close_channel(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_RDWR)
            if not self._is_receiving:  # who waits for a socket that is closed under it waits for ever
                self._channel.close()

    async def _gone(self) -> str:
        """Why nothing comes any more. A program that only closed its channel is of no use: it is ended."""
        await asyncio.wait([self._exit], timeout=_OWN_END)
        ended = await self.end()
        self._close_channel()
        return f"the sandboxed program is gone: {tell(ended)}"


def _take_note(pidfd: int) -> None:
    """Of the end of a process that became ours, because this server is a container's first."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)


def tell(ended: ExitStatus) -> str:
    """A sentence for the model and for people."""
    match ended.why:
        case "exited" if ended.code >= 128:
            return f"it was ended by signal {ended.code - 128}"
        case "exited":
            return f"it exited with code {ended.code}"
        case "killed":
            return "it was ended"
        case "timeout":
            return "it ran out of time"
        case "watchdog":
            return "it could not be watched any more, so it was ended"
        case "disk":
            return f"it used more disk than the sandbox allows, so it was ended. {FULL}"
        case excess:
            return f"it used more {excess} than the sandbox allows, so it was ended"
