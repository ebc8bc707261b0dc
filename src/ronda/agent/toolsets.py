"""Tools that are known only when a run begins (those of an MCP server), and lists of tools inside lists → one table of tools."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.tools.function import as_tool

if TYPE_CHECKING:
    from ronda.agent.value import Agent

OneTool: TypeAlias = "Tool | Callable[..., Any] | Agent"
AnyTool: TypeAlias = "OneTool | Toolset | Sequence[AnyTool]"
Tools: TypeAlias = Sequence[AnyTool] | Mapping[str, OneTool]
OpenTools: TypeAlias = Sequence[OneTool] | Mapping[str, OneTool]  # without toolsets, and without lists inside


@runtime_checkable
class Toolset(Protocol):
    """Tools that are known when a run begins. `labels` are those that any of them may have."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    async def open_tools(self, taken: Collection[str]) -> Sequence[Tool]:
        """The tools that there are now; `taken` are names that they must not have."""


def split_tools(tools: object) -> tuple[dict[str, Tool], tuple[Toolset, ...]]:
    """Tools by their names, and those that have to be opened. Raises BadConfig."""
    table: dict[str, Tool] = {}
    toolsets: list[Toolset] = []
    for item in _flat(tools):
        if isinstance(item, Toolset):
            toolsets.append(item)
            continue
        _add(table, as_tool(item))
    return table, tuple(toolsets)


def _flat(tools: object) -> Iterator[Any]:
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        name = getattr(tools, "__name__", None)
        raise BadConfig(f"tools are a list of functions{f'; write tools=[{name}]' if name else f', not {tools!r}'}")
    for item in tools:
        if isinstance(item, list | tuple):
            yield from _flat(item)
        else:
            yield item


def _add(table: dict[str, Tool], tool: Tool) -> None:
    if tool.spec.name in table:
        raise BadConfig(f"two tools are named '{tool.spec.name}'; give one of them another name")
    table[tool.spec.name] = tool


def has_toolsets(agent: Agent, tools: Tools | None) -> bool:
    """Whether something has to be opened before a run of the agent can begin."""
    if agent._toolsets:
        return True
    return tools is not None and not isinstance(tools, Mapping) and bool(split_tools(tools)[1])


async def open_agent(agent: Agent) -> Agent:
    """The agent with the tools that its toolsets have now. Most agents have no toolset."""
    toolsets = getattr(agent, "_toolsets", ())  # what is no agent is refused by name, further in
    if not toolsets:
        return agent
    opened = copy.copy(agent)
    object.__setattr__(opened, "_tools", await _open_toolsets(agent._tools, toolsets))
    object.__setattr__(opened, "_toolsets", ())
    return opened


async def open_overlay(tools: Tools | None) -> OpenTools | None:
    """The same of tools that are given for one run."""
    if tools is None or isinstance(tools, Mapping):
        return tools
    table, toolsets = split_tools(tools)
    if not toolsets:
        return [*_flat(tools)]
    opened = await _open_toolsets(table, toolsets)
    given = [one for one in _flat(tools) if not isinstance(one, Toolset)]
    return given + [tool for name, tool in opened.items() if name not in table]


async def _open_toolsets(table: Mapping[str, Tool], toolsets: Sequence[Toolset]) -> dict[str, Tool]:
    """One after another: each must know the names that are taken."""
    opened = dict(table)
    for toolset in toolsets:
        for tool in await toolset.open_tools(opened.keys()):
            _add(opened, tool)
    return opened
