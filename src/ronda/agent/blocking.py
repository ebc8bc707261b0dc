"""The two colours of a door, each written once: coroutines → values for code that does not await, and the other way round."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def blocking(door: Callable[P, Coroutine[Any, Any, T]], name: str) -> Callable[P, T]:
    """A door for code that awaits → the same for code that does not: its arguments, its words, under another name."""

    @functools.wraps(door)
    def wait(*args: P.args, **kwargs: P.kwargs) -> T:
        return _runner()(door(*args, **kwargs))

    wait.__name__ = wait.__qualname__ = name
    return wait


def awaitable(door: Callable[P, T], name: str) -> Callable[P, Coroutine[Any, Any, T]]:
    """A door that waits for nothing → the same for code that awaits all doors."""

    @functools.wraps(door)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return door(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def wait_for(call: Coroutine[Any, Any, T]) -> T:
    return _runner()(call)


def _runner() -> Callable[[Coroutine[Any, Any, T]], T]:
    """What runs a coroutine to its end; inside a running event loop in a thread of its own, which is waited for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run
    return in_another_thread


def in_another_thread(call: Coroutine[Any, Any, T]) -> T:
    """From inside a running loop (a notebook): the run gets a loop of its own; this thread waits, as it was asked to."""
    context = contextvars.copy_context()  # so that spans stand inside the one that is open here
    with ThreadPoolExecutor(1, "ronda-invoke") as thread:
        return thread.submit(context.run, asyncio.run, call).result()
