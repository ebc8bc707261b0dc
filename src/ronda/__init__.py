"""Ronda runs the agent loop: it calls a model, runs the tools it asks for, and goes on until there is an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ronda._version import __version__

if TYPE_CHECKING:
    from ronda.agent import Agent as Agent
    from ronda.agent import Cancel as Cancel
    from ronda.agent import invoke_agent as invoke_agent
    from ronda.agent import invoke_agent_async as invoke_agent_async
    from ronda.agent import stream_agent as stream_agent
    from ronda.core.limits import Retry as Retry
    from ronda.core.limits import Timeouts as Timeouts
    from ronda.drive import ToolContext as ToolContext
    from ronda.drive import ToolOutput as ToolOutput
    from ronda.tools.function import tool as tool

# Where each public name lives. Names are imported when they are first used: `import ronda` itself costs nothing.
_HOMES = {
    "Agent": "ronda.agent",
    "Cancel": "ronda.agent",
    "Retry": "ronda.core.limits",
    "Timeouts": "ronda.core.limits",
    "ToolContext": "ronda.drive",
    "ToolOutput": "ronda.drive",
    "invoke_agent": "ronda.agent",
    "invoke_agent_async": "ronda.agent",
    "stream_agent": "ronda.agent",
    "tool": "ronda.tools.function",
}

__all__ = [*_HOMES, "__version__"]  # the table above is the list


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ronda' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
