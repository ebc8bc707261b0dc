"""Tasks next to requests: each has a name, what ends one is logged, and one that is to last is started again.

    keep(name, job)     job() is awaited for as long as the server runs; when it raises, it is called again after a pause
    do(name, work)      once; when it raises, that is logged

Time is passed in (`sleep`), so that no test waits for a pause.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from ronda.errors import RondaError
from ronda.store import is_logged
from ronda.store.thread_waits import OutOfTime

FIRST_PAUSE: Final = 1.0  # seconds before a task is started again, twice as many after each further failure …
LONGEST_PAUSE: Final = 60.0  # … up to these; a task that has lasted for as long begins with the first pause again
_CANCELS: Final = 2  # how often one is told to end that goes on, as code of others may …
_CANCEL_SECONDS: Final = 0.5  # … and how long it has for that

Sleep: TypeAlias = Callable[[float], Awaitable[object]]

log = logging.getLogger("ronda.server")


class Supervisor:
    def __init__(self, sleep: Sleep = asyncio.sleep, now: Callable[[], float] = time.monotonic) -> None:
        self.sleep = sleep
        self._now = now
        self._tasks: set[asyncio.Task[Any]] = set()

    def keep(self, name: str, job: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """A job that returns is done: only one that raises is started again."""
        return self._start(name, self._keep(name, job))

    def do(self, name: str, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        task = self._start(name, done_or_reported(name, work))
        task.add_done_callback(lambda _: work.close())  # which has not begun where the task was cancelled at once
        return task

    async def wait(self) -> None:
        """Until all of them have ended by themselves."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """End all of them, and wait until they have ended."""
        tasks = self._tasks - {asyncio.current_task()}
        for _ in range(_CANCELS):
            for task in tasks:
                task.cancel()
            if tasks:
                _, tasks = await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        pause = FIRST_PAUSE
        while True:
            began = self._now()
            if (problem := await problem_with(job())) is None:
                return
            if self._now() - began >= LONGEST_PAUSE:
                pause = FIRST_PAUSE
            report(f"{name} ended, and is started again in {pause:g} s", problem)
            await self.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


async def done_or_reported(name: str, work: Awaitable[object]) -> None:
    if (problem := await problem_with(work)) is not None:
        report(f"{name} was not done", problem)


async def problem_with(work: Awaitable[object]) -> BaseException | None:
    """What went wrong, if anything did. Raised is only that this task was told to end."""
    try:
        await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return error  # something that was waited for was cancelled
    except Exception as error:
        return error
    return None


def report(what: str, problem: BaseException) -> None:
    """Log what happened, and why: in a sentence where the error is one of ours, else with its traceback. An error that is in the
    log already is not told again; that a process has no time left, one line says for all."""
    if isinstance(problem, OutOfTime):
        return
    if is_logged(problem):
        log.warning("%s", what)
    elif isinstance(problem, RondaError):
        log.error("%s: %s", what, problem)
    else:
        log.error("%s", what, exc_info=problem)
