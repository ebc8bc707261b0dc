"""Coroutines → values, for those who do not await: the synchronous doors, all of them through here."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def blocking(door: Callable[P, Coroutine[Any, Any, T]], name: str) -> Callable[P, T]:
    """A door for those who await → the same for those who do not: its arguments, its words, under another name."""

    @functools.wraps(door)
    def wait(*args: P.args, **kwargs: P.kwargs) -> T:
        return _runner()(door(*args, **kwargs))

    wait.__name__ = wait.__qualname__ = name
    return wait


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
    outcome: list[tuple[Any, BaseException | None]] = []
    context = contextvars.copy_context()  # so that spans stand inside the one that is open here

    def work() -> None:
        try:
            outcome.append((context.run(asyncio.run, call), None))
        except BaseException as error:  # raised again in the thread that asked
            outcome.append((None, error))

    thread = threading.Thread(target=work, name="ronda-invoke")
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]  # what the coroutine returned
