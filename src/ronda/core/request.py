"""One model call, as the loop words it and a wire writes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ronda.core.limits import ANSWER_BYTES
from ronda.core.parts import Turn
from ronda.core.plan import Options, ToolChoice, ToolSpec

Wait: TypeAlias = Callable[[], Awaitable[None]]


class ModelRequest(Struct, gc=False):
    """`scratch` lives as long as the run is driven: a wire may keep there what it wrote before. Dropping it changes nothing."""

    turns: Sequence[Turn]
    tools: tuple[ToolSpec, ...]
    choice: ToolChoice
    options: Options
    stream: bool  # a client watches: show deltas
    run: str
    round: int
    attempt: int
    scratch: dict[str, Any]
    max_bytes: int = ANSWER_BYTES  # of the answer, as it arrives
    is_heavy: bool | None = None  # so large that writing it down would hold others up; None: its writer looks
    room: Wait | None = None  # to be awaited before more is read, where `show` said that there is none
    left_out: frozenset[str] = frozenset()  # tools of the run that this call goes without
