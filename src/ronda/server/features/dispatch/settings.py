"""Settings of dispatch: where calls of tools are sent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import Struct

from ronda.core.plan import Approval
from ronda.core.taint import EGRESS
from ronda.server.setting import AGENTS, Setting

_agents = partial(Setting, AGENTS)


class ToolAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the calls of one tool are sent. With `parameters` (a JSON Schema) the tool is the server's own, and every request
    has it; without, a request declares it."""

    url: str
    secret: str | None = None  # signs each call
    timeout: float | None = None  # None: as `tool_dispatch_timeout`
    repeatable: bool = False  # may be sent again, although it may have run
    description: str = ""
    parameters: dict[str, Any] | None = None
    approval: Approval = "auto"
    labels: tuple[str, ...] = (EGRESS,)

    def __repr__(self) -> str:
        """Without secrets: this may end up in logs and tracebacks."""
        return "ToolAddress(…)"


class DispatchSettings(Struct, frozen=True):
    tool_dispatch_url: Annotated[
        str | None,
        _agents("--tool-dispatch-url URL", "POST calls of declared tools that nothing here runs to this address"),
    ] = None
    tool_dispatch_timeout: Annotated[
        float, _agents("--tool-dispatch-timeout SECONDS", "how long it may take", unit="seconds", above=0)
    ] = 30.0
    tool_dispatch_secret: Annotated[
        str | None, _agents("", "signs the calls that are sent to tool_dispatch_url", reads="secret")
    ] = None
    dispatch: Annotated[
        Mapping[str, ToolAddress], _agents("", "tools whose calls are sent to an address of their own, by their names")
    ] = {}

    def __repr__(self) -> str:
        """Without secrets, as above."""
        return "DispatchSettings(…)"
