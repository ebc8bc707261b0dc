"""A server that is a program: started in a group of its own, spoken to over its pipes, ended with all that it started.

The end is the specification's: its input is closed, it gets a moment, then the group is asked, then it is killed. Whatever
is left of the group is killed even where the program itself went in peace.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from mcp.client._transport import TransportStreams

from ronda.errors import ToolFailed
from ronda.tools.mcp.bounds import MAX_MESSAGE
from ronda.tools.mcp.config import Process
from ronda.tools.mcp.streams import message_streams

GRACE_SECONDS: Final = 1.0  # for each step: a server of ours that ends does so within five
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


class Complaints:
    """The last lines that a program wrote to its standard error: often the only word on why it ended."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=20)

    async def read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(8192):
            self.add(data)

    def add(self, data: bytes) -> None:
        self._lines.extend(line[:500] for line in data.decode("utf-8", "replace").splitlines() if line.strip())

    @property
    def last(self) -> str:
        return self._lines[-1] if self._lines else ""


@asynccontextmanager
async def process_streams(source: Process, complaints: Complaints) -> AsyncGenerator[TransportStreams, None]:
    """Raises ToolFailed where the program cannot be started."""
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | source.env
    try:
        process = await asyncio.create_subprocess_exec(
            source.command,
            *source.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=source.folder,
            start_new_session=True,
            limit=MAX_MESSAGE,
        )
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise ToolFailed(f"the program {source.command!r} cannot be started: {reason}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    listener = asyncio.create_task(complaints.read(process.stderr))
    try:
        async with message_streams(lines(process.stdout), partial(write_line, process.stdin)) as streams:
            yield streams
    finally:
        # In a task of its own: an end that is itself cancelled would leave the program behind.
        await asyncio.shield(asyncio.create_task(_end(process, listener)))


async def write_line(stdin: asyncio.StreamWriter, text: str) -> None:
    """Raises only where the line cannot have been read as a whole: then it has not run."""
    if not stdin.is_closing():
        stdin.write(text.encode() + b"\n")
    if stdin.is_closing():
        raise BrokenPipeError
    with contextlib.suppress(ConnectionError):  # it may have been read before: the end of its output tells the rest
        await stdin.drain()


async def lines(stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        try:
            line = await stdout.readline()
        except ValueError:  # longer than the limit
            return
        if not line:
            return
        yield line


async def _end(process: asyncio.subprocess.Process, listener: asyncio.Task[None]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    drain = asyncio.create_task(_discard(process))  # one that is stuck writing cannot read that its input has ended
    try:
        for blow in (None, signal.SIGTERM, signal.SIGKILL):
            if blow is not None:
                _signal_group(process.pid, blow)
            if await _has_exited(process, GRACE_SECONDS):
                break
        _signal_group(process.pid, signal.SIGKILL)  # the children of one that went in peace
    finally:
        for task in (drain, listener):
            task.cancel()
        await asyncio.gather(drain, listener, return_exceptions=True)
        # Its pipes may be held open by a grandchild that left the group: nothing waits for them.
        process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public word for it


async def _discard(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass


async def _has_exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Not `process.wait()`, which waits for the pipes, too, and these a grandchild may hold."""
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal_group(group: int, blow: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, blow)
