"""What a request asks of the server, whatever dialect it is in: what every door's reader gives and the server works with."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw, Struct

from ronda.core.parts import Turn
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolChoice, ToolSpec
from ronda.wire.capabilities import Need


class Asked(Struct, frozen=True, kw_only=True):
    """A request that was found to make sense, as far as that can be said without knowing the server.

    A dialect that has more to remember for writing its answer extends this.
    """

    model: str
    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = AUTO
    options: Options = NO_OPTIONS
    stream: bool = False
    n: int = 1
    max_tool_rounds: int | None = None
    max_tool_calls: int | None = None
    truncates: bool = False  # what is too long for the model may be cut
    session: str | None = None
    parent: tuple[str, int] | None = None  # the run this one goes on from, where the dialect names it
    keep: Literal["stored", "memory"] = "stored"
    inputs: dict[str, Any] = {}  # for an agent that has some
    needs: tuple[Need, ...] = ()  # what the server must have for it
    about: dict[str, Raw] = {}  # kept with the run, for writing its answer again: metadata, what is echoed
