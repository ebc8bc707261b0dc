"""The runs that are under way in this process: found by their ids, locked against each other, and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from ronda.host.log import Logs

if TYPE_CHECKING:
    from ronda.drive import ModelState
    from ronda.host.extension import Extension
    from ronda.host.run import LiveRun
    from ronda.store import StoreError
    from ronda.store.claims import Claims

LAST_SECONDS: Final = 0.4  # until runs that were stopped must have said so


class Host:
    """The runs that are under way in this process: found by their ids, and ended together."""

    def __init__(self, claims: Claims, logs: Logs | None = None) -> None:
        self._claims = claims
        self.live: dict[str, LiveRun] = {}
        self.logs = logs or Logs()
        self.model: ModelState | None = None  # of the model that most runs have
        self.extensions: tuple[Extension, ...] = ()  # of every run that begins, or is taken up, from now on
        self.is_stopping = False
        # Called with a run whose parent is over and which could not be ended; None: that is logged.
        self.left_child: Callable[[str, StoreError], None] | None = None
        self._left: set[asyncio.Task[Any]] = set()  # what did not care for being stopped
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold_key(self, owner: str, session: str, key: str) -> AsyncIterator[None]:
        """The lock of a key that tools name, in an owner's session."""
        from ronda.store.claims import hold_claim  # most tools name no key

        name = f"exclusive {(session, key)!r}"
        found = self._locks.get((owner, name))
        if found is None:
            found = self._locks[owner, name] = asyncio.Lock()
        # The lock is for those of this process, who are woken in turn; the claim for all.
        async with found, hold_claim(self._claims, owner, name):
            yield

    async def stop(self, seconds: float) -> None:
        """End what is under way, within `seconds` for those that a client waits for. What outlives this process is let go: its
        model calls at once, its tools when their time is up. Tools that do not care are left."""
        self.is_stopping = True
        for live in list(self.live.values()):
            if live.run.is_waiting or (live.run.outlives and live.run.model_is_running):
                live.stop()
        await self._until_over(seconds)
        for live in list(self.live.values()):
            live.stop()
        self._left = await self._until_over(LAST_SECONDS)

    async def _until_over(self, seconds: float) -> set[asyncio.Task[Any]]:
        """What is still under way then."""
        tasks = {live.task for live in self.live.values() if live.task is not None} - self._left
        return (await asyncio.wait(tasks, timeout=seconds))[1] if tasks and seconds > 0 else tasks
