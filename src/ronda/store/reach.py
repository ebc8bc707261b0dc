"""Whether a database can be reached: what one probe asks, and what any transaction hears, become the seconds it has been away.

    reach.asked()             the probe asks, or a transaction found no connection
    reach.answered()          the probe has its answer              reach.heard()     a transaction has its own
    await reach.wait_for(…)   what a request waits for before its run begins: given up when the patience is over

A database that was asked nothing is not away. A probe may hang on a connection that is dead while transactions are answered on
others: then the database is not away, either. The first three may be called from any thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ronda.store import RemoteStoreError

PATIENCE: Final = 2.0  # seconds, unless the operator says otherwise
PROBES: Final = 4  # in that time
RETRY_SECONDS: Final = 2  # until a client that was refused should ask again

_AWAY: Final = "the server's database is out of reach; try again in a moment"
_T = TypeVar("_T")


class DatabaseAway(RemoteStoreError):
    """The database has not answered for longer than new requests are made to wait for it."""

    retry_after = RETRY_SECONDS

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem, _AWAY)


class Reach:
    """`patience`: for how many seconds the database may be away until new requests are refused."""

    def __init__(self, place: str, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self.patience = patience
        self._clock = clock
        self._asked: float | None = None  # the oldest question of the probe that has no answer yet
        self._heard = clock()
        self._limits: set[asyncio.Timeout] = set()
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    def asked(self) -> None:
        if self._asked is None:
            self._asked = self._clock()

    def answered(self) -> None:
        self._asked = None

    def heard(self) -> None:
        self._heard = self._clock()

    @property
    def seconds_away(self) -> float:
        asked = self._asked
        return 0.0 if asked is None else max(0.0, self._clock() - max(asked, self._heard))

    @property
    def is_lost(self) -> bool:
        return self._asked is not None and self.seconds_away >= self.patience

    def check(self) -> None:
        """For a request that has not begun anything yet."""
        if self.is_lost:
            raise self._away()

    def _away(self) -> DatabaseAway:
        error = DatabaseAway(self._place, f"it has not answered for {self.seconds_away:.1f} s")
        error.is_logged = True  # by the probe, once for the whole outage
        return error

    async def wait_for(self, work: Awaitable[_T]) -> _T:
        """The result of `work`, or DatabaseAway as soon as the patience is over. Only for work that may be cancelled anywhere."""
        try:
            async with asyncio.timeout(None) as limit:
                self._limits.add(limit)
                self._look_later()
                return await work
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self._away() from error
        finally:
            self._limits.discard(limit)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer[0] is not loop:
            self._timer = loop, loop.call_later(self.patience / PROBES, self._look)

    def _look(self) -> None:
        self._timer = None
        if self.is_lost:
            now = asyncio.get_running_loop().time()
            for limit in self._limits:
                if not limit.expired():
                    limit.reschedule(now)
        elif self._limits:
            self._look_later()
