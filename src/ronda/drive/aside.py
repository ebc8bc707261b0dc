"""Work that grows with a conversation, done beside the event loop where the conversation is large.

One thread does it, one piece after the other: threads that compute share the interpreter's lock with the loop, and with
several of them the loop would wait for each in turn. A piece in C holds that lock for as long as it takes, so whoever comes
here has bounded what one piece may cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final, ParamSpec, TypeVar

from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolTurn, Turn, UserTurn
from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest

P = ParamSpec("P")
T = TypeVar("T")

# What is done at once: a turn costs some 15 µs to write down and to send, a megabyte some 10 ms.
LIGHT_TURNS: Final = 200
LIGHT_BYTES: Final = 256 * 1024
LIGHT_SCHEMAS: Final = 32 * 1024  # bytes of the tools' schemas: some providers take them in another form only

_SEEN: Final = "turns that were looked at"


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the work gives, done by the thread."""
    return await asyncio.get_running_loop().run_in_executor(thread(), partial(work, *args, **kwargs))


@cache
def thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "ronda-aside")


def is_heavy(turns: Sequence[Turn], tools: Sequence[ToolSpec] = ()) -> bool:
    """Whether writing these turns and tools down would hold the loop up."""
    if len(turns) > LIGHT_TURNS or len(tools) > LIGHT_TURNS:
        return True
    if tools and sum([memoryview(tool.parameters).nbytes for tool in tools]) > LIGHT_SCHEMAS:
        return True
    size = 0
    for turn in turns:
        size += _size(turn)
        if size > LIGHT_BYTES:
            return True
    return False


def _size(turn: Turn) -> int:
    """Roughly, in bytes. A part counts for a few, since there may be many that say nothing."""
    if type(turn) is SystemTurn:
        size = len(turn.text)
    elif type(turn) is UserTurn or type(turn) is AssistantTurn:
        parts = turn.parts
        if len(parts) > LIGHT_TURNS * 5:
            return LIGHT_BYTES + 1
        size = sum([100 + len(part.text) if type(part) is Text else _part_size(part) for part in parts])
    else:
        assert type(turn) is ToolTurn
        if len(turn.results) > LIGHT_TURNS:
            return LIGHT_BYTES + 1
        return sum([len(one.content) + sum([_part_size(part) for part in one.attachments]) for one in turn.results])
    return size if turn.native is None else size + memoryview(turn.native.payload).nbytes


def _part_size(part: Any) -> int:
    return 100 + sum([len(value) for name in part.__struct_fields__ if type(value := getattr(part, name)) is str])


async def written(request: ModelRequest, write: Callable[[], bytes]) -> bytes:
    """The bytes of a model call. What an earlier round has written is not looked at again."""
    turns, scratch = request.turns, request.scratch
    seen: int = scratch.get(_SEEN, 0)
    scratch[_SEEN] = len(turns)
    new = turns[seen:] if 0 < seen <= len(turns) else turns
    return await aside(write) if is_heavy(new, () if seen else request.tools) else write()
