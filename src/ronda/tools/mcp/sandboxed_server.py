"""A server that is a program that is not trusted: the same pipes, with the walls of `sandbox` around it.

It works in a folder of its own, which is gone when it ends. Of this machine it sees what the policy lets it see and, where it is
a Python program, the Python that it is made for.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from mcp.client._transport import TransportStreams

from ronda.errors import BadConfig, ToolFailed
from ronda.sandbox.box import Sandbox, open_sandbox
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.process import Stream
from ronda.sandbox.temporary import temporary_prefix
from ronda.tools.mcp.bounds import MAX_MESSAGE
from ronda.tools.mcp.config import Process
from ronda.tools.mcp.process import GRACE_SECONDS, Complaints, lines, write_line
from ronda.tools.mcp.streams import message_streams

_FIRST_LINE: Final = 256  # bytes: more than a kernel reads of it


@asynccontextmanager
async def sandboxed_streams(source: Process, complaints: Complaints) -> AsyncGenerator[TransportStreams, None]:
    """Raises ToolFailed where the program cannot be started, or cannot be isolated."""
    async with AsyncExitStack() as stack:
        try:
            sandbox, program = await _open(source, stack)
            reader, writer = await _start(sandbox, [program, *source.args], source, complaints, stack)
        except (BadConfig, OSError) as error:
            raise ToolFailed(f"the program {source.command!r} cannot be started in a sandbox: {error}") from error
        async with message_streams(lines(reader), partial(write_line, writer)) as streams:
            yield streams


async def _open(source: Process, stack: AsyncExitStack) -> tuple[Sandbox, str]:
    assert source.sandbox is not None
    program = await asyncio.to_thread(_find, source.command)
    python = await asyncio.to_thread(_python_of, program)
    # Named as a sandbox's own, so that the next server removes what one that was killed leaves.
    workspace = await asyncio.to_thread(tempfile.mkdtemp, prefix=temporary_prefix())
    stack.push_async_callback(asyncio.to_thread, remove_tree, workspace)
    sandbox = await open_sandbox(source.sandbox, workspace, outside=os.environ, python=python or "python3")
    stack.push_async_callback(sandbox.close)
    if python is not None and python.startswith("/") and sandbox.interpreter.note is not None:
        raise BadConfig(sandbox.interpreter.note)  # another Python would not have the program's packages
    return sandbox, program


async def _start(
    sandbox: Sandbox, argv: list[str], source: Process, complaints: Complaints, stack: AsyncExitStack
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    def take(stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            complaints.add(data)

    loop = asyncio.get_running_loop()
    (their_input, our_input), (our_output, their_output) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    reader = asyncio.StreamReader(MAX_MESSAGE)
    protocol = asyncio.StreamReaderProtocol(reader)
    output, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(our_output, "rb", 0))
    stack.callback(output.close)
    sending, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(our_input, "wb", 0))
    stack.callback(sending.close)
    try:
        process = await sandbox.start(argv, env=source.env, on_output=take, pipes=(their_input, their_output))
    finally:
        os.close(their_input)
        os.close(their_output)

    async def end() -> None:
        """Its input is closed, it gets a moment, and then all of it is killed."""
        sending.close()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            await process.end()

    stack.push_async_callback(end)
    return reader, asyncio.StreamWriter(sending, flow, reader, loop)


def _find(command: str) -> str:
    found = shutil.which(command)
    if found is None:
        raise BadConfig("there is no such program")
    return os.path.abspath(found)


def _python_of(program: str) -> str | None:
    """The Python that a program is, or that its first line names."""
    if Path(program).name.startswith("python"):
        return program
    with open(program, "rb") as file:
        first = file.read(_FIRST_LINE).partition(b"\n")[0].decode("utf-8", "replace")
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    return words[0] if words and Path(words[0]).name.startswith("python") else None
