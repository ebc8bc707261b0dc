"""Work that grows with a conversation, done off the event loop where the conversation is large.

One thread does it, one piece after the other: threads that compute share the interpreter's lock with the loop, and with
several of them the loop would wait for each in turn. A piece in C holds that lock for as long as it takes, so the code that comes
here has bounded what one piece may cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Final, ParamSpec, TypeVar

from ronda.core.parts import Turn
from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.sizes import turns_size
from ronda.wire.codec.json import in_pieces

P = ParamSpec("P")
T = TypeVar("T")

# What is done at once: a turn costs some 15 µs to write down and to send, a megabyte some 10 ms.
LIGHT_TURNS: Final = 200
LIGHT_BYTES: Final = 256 * 1024
LIGHT: Final = 32 * 1024  # whatever is not larger than this, as `core.sizes` counts, is light in every way
LIGHT_SCHEMAS: Final = LIGHT  # bytes of the tools' schemas: some providers take them in another form only


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the work gives, done by the thread."""
    return await asyncio.get_running_loop().run_in_executor(thread(), partial(work, *args, **kwargs))


@cache
def thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "ronda-aside")


LOADED: Final[set[str]] = set()  # names of modules, once they are imported


async def load(*names: str) -> None:
    """Import modules that are slow to import, before code does that cannot wait. They are found in no time from then on.

    What cannot be imported is left to the code that needs it to report.
    """
    if LOADED.issuperset(names):  # `sys.modules` has a module from the beginning of its import on
        return
    await asyncio.to_thread(_import, names)
    LOADED.update(names)


def _import(names: Sequence[str]) -> None:
    for name in names:
        with suppress(ImportError):
            import_module(name)


def is_heavy(turns: Sequence[Turn], tools: Sequence[ToolSpec] = ()) -> bool:
    """Whether writing these turns and tools down would hold the loop up."""
    if len(turns) > LIGHT_TURNS or len(tools) > LIGHT_TURNS:
        return True
    schemas = 0
    for tool in tools:
        schemas += memoryview(tool.parameters).nbytes
    return schemas > LIGHT_SCHEMAS or turns_size(turns, LIGHT_BYTES) > LIGHT_BYTES


async def write_body(request: ModelRequest, write: Callable[[], bytes]) -> bytes:
    """The bytes of a model call."""
    heavy = request.is_heavy
    if heavy is None:
        heavy = is_heavy(request.turns, request.tools)
    return await aside(in_pieces, write) if heavy else write()
