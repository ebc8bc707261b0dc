"""What an event loop has open for tools that runs share (MCP servers that files and requests name), to be closed with it.

It imports nothing of theirs, so that a server closes them without loading what it never used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar, cast
from weakref import WeakKeyDictionary


class Pool(Protocol):
    async def close(self) -> None: ...


P = TypeVar("P", bound=Pool)

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def pool_here(make: Callable[[], P]) -> P:
    """The pool of the running loop; all callers have pools of one kind."""
    loop = asyncio.get_running_loop()
    if (pool := _pools.get(loop)) is None:
        pool = _pools[loop] = make()
    return cast("P", pool)


async def close_shared() -> None:
    if (pool := _pools.get(asyncio.get_running_loop())) is not None:
        await pool.close()
