"""Servers that files and requests name → connections, one for all on an event loop who name the same server in the same words.

They are opened when they are needed, sleep when there was no call for a while, and end with their loop. A call wakes one up.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec
from msgspec.structs import replace

from ronda.tools.loop_pools import pool_here
from ronda.tools.mcp.config import AUTO, McpServer
from ronda.tools.mcp.connection import Connection

IDLE_SECONDS: Final = 300.0
MAX_AWAKE: Final = 64  # on one loop; beyond that, those sleep first that were called longest ago
MAX_KNOWN: Final = 1_000  # a run that waits for a person holds on to its connection anyway


class _Pool:
    def __init__(self) -> None:
        self._connections: dict[bytes, Connection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self, server: McpServer, scope: str) -> Connection:
        # What only decides which of its tools are offered, and how, is no part of a connection.
        plain = replace(
            server, prefix=None, description="", allowed_tools=None, approvals=AUTO, labels=(), offered=True
        )
        key = msgspec.json.encode((scope, plain))
        found = self._connections.pop(key, None) or Connection(plain, _nothing)
        self._connections[key] = found  # the last is the one that was used last
        while len(self._connections) > MAX_KNOWN:
            self._lull(self._connections.pop(next(iter(self._connections))))
        awake = [one for one in self._connections.values() if one.is_open and one is not found]
        for one in awake[: max(0, len(awake) + 1 - MAX_AWAKE)]:
            self._lull(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._look)
        return found

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*[one.close() for one in self._connections.values()], *self._tasks)
        self._connections.clear()

    def _look(self) -> None:
        self._timer = None
        awake = [one for one in self._connections.values() if one.is_open]
        idle = [one for one in awake if time.monotonic() - one.last_call > IDLE_SECONDS]
        for one in idle:
            self._lull(one)
        if len(awake) > len(idle):
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._look)

    def _lull(self, connection: Connection) -> None:
        if connection.is_open and not connection.is_busy:
            task = asyncio.get_running_loop().create_task(connection.sleep())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _nothing() -> None:
    """Code that offers tools of such a connection looks at it each time."""


async def shared_connection(server: McpServer, scope: str = "") -> Connection:
    """Connected, or failed for the first time. No caller outside of `scope` gets the same: a session may remember things."""
    connection = pool_here(_Pool).connection(server, scope)
    connection.open()
    await connection.settled()
    return connection
