"""Pythons that are started before there is a session for them, so that its first call need not wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ronda.errors import RondaError
from ronda.tools.code.session import Session

_REFILL_SECONDS = 0.2  # after one was taken: the call that took it is done first

log = logging.getLogger("ronda.tools")


class Pool:
    """Keeps so many ready. Nothing is started before `fill` was called once."""

    def __init__(self, size: int, start: Callable[[], Awaitable[Session]]) -> None:
        self._size = size
        self._start = start
        self._ready: list[Session] = []
        self._filling: asyncio.Task[None] | None = None

    @property
    def ready(self) -> int:
        return len(self._ready)

    async def fill(self) -> None:
        """Those that have ended meanwhile are replaced."""
        self._refill()
        if self._filling is not None:
            await asyncio.shield(self._filling)

    async def _fill(self) -> None:
        dead = [session for session in self._ready if not session.is_warm]
        self._ready = [session for session in self._ready if session.is_warm]
        await asyncio.gather(*[session.close() for session in dead])
        while len(self._ready) < self._size:
            try:
                self._ready.append(await self._start())
            except (RondaError, OSError) as error:
                log.warning("no Python can be kept ready: %s", error)
                return

    def take(self) -> Session | None:
        """One that is ready; another is started in its place."""
        while self._ready:
            session = self._ready.pop(0)
            asyncio.get_running_loop().call_later(_REFILL_SECONDS, self._refill)
            if session.is_warm:
                return session
        return None

    def _refill(self) -> None:
        if self._size and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._fill())

    def give_back(self, session: Session) -> None:
        self._ready.append(session)

    async def empty(self) -> list[Session]:
        """All that were ready, for the code that closes them. None is started any more."""
        self._size = 0
        if self._filling is not None:
            await asyncio.gather(self._filling, return_exceptions=True)
        ready, self._ready = self._ready, []
        return ready
