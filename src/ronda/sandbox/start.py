"""One program about to start in a sandbox: its pipes, its first steps under each layer, and what is closed if they fail.

`begin` returns once the program is watched, and under Landlock once every wall is up. Before that nothing of it has run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from ronda.errors import ToolFailed
from ronda.sandbox.bubblewrap import Descriptors, accounts
from ronda.sandbox.cgroup import Group
from ronda.sandbox.layers import become, data_file
from ronda.sandbox.policy import AllowedHosts
from ronda.sandbox.process import OnOutput, Process, Stream

if TYPE_CHECKING:
    from ronda.sandbox.box import Sandbox

CHANNEL_VARIABLE = "RONDA_CHANNEL"  # where a program finds the number of its channel's descriptor …
CHANNEL = 3  # … which is this one: some shells know only those of one digit
_START_SECONDS = 30.0
_EARLY_WORDS = 1000


class Start:
    """One program about to start: its descriptors, which are all closed again whatever happens."""

    def __init__(
        self,
        sandbox: Sandbox,
        argv: Sequence[str],
        environment: dict[str, str],
        on_output: OnOutput | None,
        channel: bool,
        *,
        in_place: bool,
        pipes: tuple[int, int] | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._pipes = pipes
        self._argv = argv
        self._environment = environment
        self._on_output = on_output
        self._in_place = in_place
        self._stderr = bytearray()  # its first words: what bubblewrap says when it cannot
        self._theirs: list[int] = []  # descriptors that the program gets; closed here once it has them
        self._ours: list[int] = []
        self._channel: socket.socket | None = None
        self._channel_end: int | None = None
        if channel:
            self._channel, self._channel_end = self._pair()
            self._environment[CHANNEL_VARIABLE] = str(CHANNEL)

    async def begin(self) -> Process:
        try:
            match self._sandbox.layer:
                case "bubblewrap":
                    return await self._begin_bubblewrap()
                case "landlock" | "off":
                    return await self._begin_supervisor()
                case _ as never:
                    assert_never(never)
        finally:
            for fd in (*self._theirs, *self._ours):
                os.close(fd)

    async def _begin_bubblewrap(self) -> Process:
        sandbox = self._sandbox
        told, info = self._pipe()
        block, unblock = self._pipe(ours="write")
        ready, go = self._pipe(ours="write")
        passwd, group_file = (self._give(data_file(data)) for data in accounts(sandbox.user))
        descriptors = Descriptors(self._give(data_file(sandbox.filter())), info, block, passwd, group_file)
        proxy, listening, listen = None, None, None
        if isinstance(sandbox.policy.network, AllowedHosts):
            proxy = sandbox.new_proxy(sandbox.policy.network)
            listening, listen = self._pair()
        command = sandbox.bubblewrapped(
            descriptors, ready, listen, self._channel_end, self._argv, in_place=self._in_place
        )
        process = self._popen(command, become(sandbox.user), env=self._environment, cwd="/", soft_kill=False)
        try:
            async with asyncio.timeout(_START_SECONDS):
                first = await self._first_process(told, process)
                process.hold(first)
                if (group := sandbox.new_group()) is not None:
                    process.when_ended(partial(_leave, group, process))
                    group.add(first)
                if proxy is not None:
                    process.when_ended(proxy.close)
                process.watch(sandbox.watched(process))
                os.write(unblock, b"!")
                os.write(go, b"!")
                if proxy is not None and listening is not None:
                    await proxy.serve(await _receive_listener(listening))
        except (OSError, TimeoutError, ValueError) as error:
            if process.ended_for != "exited":  # the watchdog was faster: `wait` says of what there was too much
                return process
            await process.end()
            raise ToolFailed(f"the sandbox did not start: {error or 'it took too long'}") from error
        except BaseException:
            process.kill()
            raise
        finally:
            if listening is not None:
                listening.close()
        return process

    async def _first_process(self, told: int, process: Process) -> int:
        text = await _read_all(told, until=b"}")
        if not text:
            ended = await process.wait()
            said = self._stderr.decode(errors="replace").strip()
            raise ValueError(said or f"bubblewrap ended with {ended.code}")
        return int(json.loads(text)["child-pid"])

    async def _begin_supervisor(self) -> Process:
        sandbox = self._sandbox
        told, status = self._pipe()
        control, hold = self._pipe(ours="write")
        plan = self._give(data_file(sandbox.supervised(self._argv, self._environment, self._channel_end)))
        supervisor = str(Path(__file__).with_name("supervisor.py"))
        command = [sys.executable, "-I", "-S", supervisor, str(plan), str(control), str(status)]
        process = self._popen(command, {}, env={}, cwd="/", soft_kill=True)
        self._ours.remove(hold)

        async def release() -> None:
            os.close(hold)

        process.when_ended(release)
        try:
            process.watch(sandbox.watched(process))
            async with asyncio.timeout(_START_SECONDS):
                problem = await _read_all(told)
        except BaseException:
            process.kill()
            raise
        if problem:
            await process.end()
            raise ToolFailed(f"the sandbox did not start: it {problem.decode(errors='replace')}")
        return process

    def _popen(
        self, command: list[str], identity: dict[str, Any], *, env: dict[str, str], cwd: str, soft_kill: bool
    ) -> Process:
        stdout, their_stdout = self._pipe()
        stderr, their_stderr = self._pipe()
        try:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if self._pipes is None else self._pipes[0],
                stdout=their_stdout if self._pipes is None else self._pipes[1],
                stderr=their_stderr,
                pass_fds=[fd for fd in self._theirs if fd not in (their_stdout, their_stderr)],
                start_new_session=True,
                env=env,
                cwd=cwd,
                **identity,
            )
        except OSError as error:
            raise ToolFailed(f"the sandbox did not start: {error.strerror}") from error
        for fd in self._theirs:
            os.close(fd)
        self._theirs.clear()
        self._ours.remove(stdout)
        self._ours.remove(stderr)
        channel = self._channel
        return Process(popen, stdout=stdout, stderr=stderr, on_output=self._take, channel=channel, soft_kill=soft_kill)

    def _take(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr" and len(self._stderr) < _EARLY_WORDS:
            self._stderr += data[:_EARLY_WORDS]
        if self._on_output is not None:
            self._on_output(stream, data)

    def _pipe(self, ours: str = "read") -> tuple[int, int]:
        read, write = os.pipe2(os.O_CLOEXEC)
        self._ours.append(read if ours == "read" else write)
        self._theirs.append(write if ours == "read" else read)
        return read, write

    def _pair(self) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        return ours, self._give(theirs.detach())

    def _give(self, fd: int) -> int:
        self._theirs.append(fd)
        return fd


async def _leave(group: Group, process: Process) -> None:
    if group.ran_out_of_memory():
        process.blame("memory")
    await asyncio.to_thread(group.remove)


async def _read_all(fd: int, until: bytes | None = None) -> bytes:
    """What comes through a pipe until its end, or until `until` is in it."""
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    data = b""
    while until is None or until not in data:
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(fd, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(fd)
        with contextlib.suppress(BlockingIOError):
            piece = os.read(fd, 4096)
            if not piece:
                break
            data += piece
    return data


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _receive_listener(server: socket.socket) -> socket.socket:
    """The port that was opened inside."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(server.fileno(), _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(server.fileno())
    _, fds, _, _ = socket.recv_fds(server, 64, 1)
    if not fds:
        raise ValueError("the port of the proxy was not opened")
    return socket.socket(fileno=fds[0])
