"""Pages → their text, in a process of their own: behind walls where this machine has some, within limits everywhere.

What reads HTML and PDF is made for pages of good will. A hostile one can hold a core for minutes, in C, where no thread can be
ended and its lock stops every other; a process can be ended, and is. One that is ready reads page after page (`page_program`);
it is ended when it is done, or when nothing was read for `linger` seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.drive.offload import load
from ronda.errors import BadConfig, RondaError, ToolFailed

if TYPE_CHECKING:
    from ronda.sandbox.layers import Layers
    from ronda.sandbox.policy import Policy
    from ronda.sandbox.process import Process

SECONDS: Final = 10.0  # for one page; ordinary ones take a tenth of one
_START_SECONDS: Final = 30.0  # what is imported takes a second, and more where many wait for the disk
_MEMORY_MB: Final = 1024
_LONGEST: Final = 16 * 1024 * 1024  # bytes of an answer: two million characters, escaped
AT_ONCE: Final = 2  # pages that are read side by side: it is all CPU

TOO_MUCH: Final = "it takes too much time or memory to read"


class PageText(Struct, frozen=True):
    title: str = ""
    text: str = ""
    problem: str = ""  # why there is none


class PageWorkers:
    """Of one event loop. `policy` is the operator's, None is the usual one; `layers` is what this machine has, None finds out."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        linger: float = 0.0,
        seconds: float = SECONDS,
        layers: Layers | None = None,
    ) -> None:
        self._policy = policy
        self._layers = layers
        self._linger = linger
        self._seconds = seconds
        self._room = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0  # for one of them, or at work
        self._ready: list[_Worker] = []
        self._end: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def read(self, kind: Literal["html", "pdf"], url: str, data: bytes) -> PageText:
        """Raises ToolFailed where no process can be had."""
        self._waiting += 1
        try:
            async with self._room, self._worker() as worker:
                return await worker.read(kind, url, data, self._seconds)
        finally:
            self._waiting -= 1
            if not self._waiting:
                await self._rest()

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[_Worker]:
        worker = self._ready.pop() if self._ready else await _Worker.start(self._policy, self._layers)
        try:
            yield worker
        except BaseException:
            await worker.close()
            raise
        if worker.is_ready:
            self._ready.append(worker)
        else:
            await worker.close()

    async def _rest(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if not self._linger:
            await self.close()
        elif self._ready:
            self._end = asyncio.get_running_loop().call_later(self._linger, self._close_soon)

    def _close_soon(self) -> None:
        if not self._waiting:
            task = asyncio.get_running_loop().create_task(self.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        ready, self._ready = self._ready, []
        await asyncio.gather(*[worker.close() for worker in ready])


class _Worker:
    """A process that reads pages, one after the other."""

    def __init__(self, process: Process, holding: AsyncExitStack) -> None:
        self._process = process
        self._holding = holding
        self.is_ready = True

    @classmethod
    async def start(cls, policy: Policy | None, layers: Layers | None) -> _Worker:
        """In the strongest sandbox in which our own Python can be used; where there is none, as a process within limits."""
        await load("ronda.sandbox.box")
        from ronda.sandbox.policy import NoNetwork, Policy  # only for runs that read pages

        given = Policy() if policy is None else policy
        within = replace(
            given,
            network=NoNetwork(),
            profile="restricted",
            max_memory_mb=_MEMORY_MB,
            max_cpu_secs=86400,  # each page has a limit of its own
            max_procs=min(given.max_procs, 16),
        )
        try:
            return await cls._start(within, layers)
        except RondaError:
            if given.mode == "off":
                raise
            return await cls._start(replace(within, mode="off"), layers)

    @classmethod
    async def _start(cls, policy: Policy, layers: Layers | None) -> _Worker:
        from ronda.sandbox.box import open_sandbox
        from ronda.sandbox.folders import remove_tree
        from ronda.sandbox.temporary import temporary_prefix

        async with AsyncExitStack() as stack:
            folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=temporary_prefix())
            stack.push_async_callback(asyncio.to_thread, remove_tree, folder)
            sandbox = await stack.enter_async_context(
                await open_sandbox(policy, folder, outside=os.environ, python=sys.executable, layers=layers)
            )
            if sandbox.interpreter.note is not None:  # the system's Python does not have what reads pages
                raise BadConfig(sandbox.interpreter.note)
            process = await sandbox.start_python(_program(), channel=True)
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await process.receive(0)
            except TimeoutError as error:
                raise ToolFailed("what reads pages does not start") from error
            return cls(process, stack.pop_all())
        raise AssertionError  # unreachable: the stack raises, or there is a worker

    async def read(self, kind: str, url: str, data: bytes, seconds: float) -> PageText:
        self.is_ready = False
        head = msgspec.json.encode({"kind": kind, "url": url, "seconds": max(1, int(seconds))})
        try:
            async with asyncio.timeout(seconds):
                await self._process.send(b"%b\n%b" % (head, data))
                answer = await self._process.receive(_LONGEST)
        except (TimeoutError, ToolFailed):
            return PageText(problem=TOO_MUCH)
        try:
            page = msgspec.json.decode(answer, type=PageText)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return PageText(problem=TOO_MUCH)
        self.is_ready = True
        return replace(page, problem=TOO_MUCH) if page.problem == "ended" else page

    async def close(self) -> None:
        self.is_ready = False
        await self._holding.aclose()


@cache
def _program() -> str:
    return Path(__file__).with_name("page_program.py").read_text(encoding="utf-8")
