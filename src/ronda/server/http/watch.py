"""A connection → a call when its client closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Receive

from ronda.server.http.cycle import Cycle

# Most answers are over before this; only longer ones are worth a task that listens for the client going away.
_WATCH_AFTER = 0.05


class Watch:
    """Calls `gone` when the client closes its connection: told by the connection, where it is one of ours."""

    __slots__ = ("_cycle", "_gone", "_receive", "_task", "_timer")

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        cycle = getattr(receive, "__self__", None)
        if type(cycle) is Cycle:
            self._cycle: Cycle | None = cycle
            if cycle.disconnected:
                gone()
            cycle.gone = gone
            return
        self._cycle = None
        self._receive = receive
        self._gone = gone
        self._task: asyncio.Future[Any] | None = None
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, self._listen)

    def _listen(self) -> None:
        self._task = asyncio.ensure_future(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def stop(self) -> None:
        if self._cycle is not None:
            self._cycle.gone = None
            return
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            self._task = None  # which knows us, by where it was cancelled: a cycle, with all that `gone` knows
