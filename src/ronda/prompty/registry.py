"""Who runs the tools that files declare: handlers under a tool's name, and under a kind of tools.

    register_tool("get_weather", get_weather)          called with the arguments, by their names
    register_tool_handler("my_kind", handler)          called with (tool, arguments, agent, inputs)

An installed package may bring the handler of a kind along, as an entry point (`docs/plugins.md`).

Process-wide and safe from any thread. A name comes before a kind, and what is given to a run comes before both.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.prompty.errors import BadPrompty
from ronda.prompty.model import FunctionTool, Prompty
from ronda.tools.agent import AgentTool

if TYPE_CHECKING:
    from ronda.tools.mcp.servers import McpServers

Handler: TypeAlias = Callable[..., Any] | Tool
KindHandler: TypeAlias = Callable[..., Any]  # (tool, arguments, agent, inputs) → a result, or something to await for it


class AgentNames(Protocol):
    """Finds the agents of a server by their names, as one of its owners may use them."""

    def path(self, name: str) -> str | None:
        """Where the file of this name is, or would be; None where there are no files."""

    async def stored(self, name: str) -> AgentTool | None:
        """The agent of this name that is no file, but was made by a client."""

    def agents_of(self, path: str | None) -> Sequence[str]:
        """The names that the operator adds to those that the file at this path has itself."""


class Lent(dict[str, Handler]):
    """Handlers that a run lends to the files it starts: each runs what such a file declares under its name, and adds nothing.

    `otherwise` makes a tool of the name of a declared function that has no other handler. `mcp` are the MCP servers that a file
    may name, and `agents` knows the agents that it may; without, these are the files next to it.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler] | None = None,
        otherwise: Callable[[str], Tool] | None = None,
        mcp: McpServers | None = None,
        agents: AgentNames | None = None,
    ) -> None:
        super().__init__(handlers or {})
        self.otherwise = otherwise
        self.mcp = mcp
        self.agents = agents


_lock = threading.Lock()
_by_name: dict[str, Handler] = {}
_by_kind: dict[str, KindHandler] = {}


def register_tool(name: str, handler: Handler) -> None:
    """Let a function run every declared tool of this name; what was there before is replaced."""
    if not callable(handler) and not hasattr(handler, "run"):
        raise BadConfig(f"the handler of tool '{name}' cannot be called: {handler!r}")
    with _lock:
        _by_name[name] = handler


def get_tool(name: str) -> Handler | None:
    """The function that was registered for tools of this name."""
    with _lock:
        return _by_name.get(name)


def clear_tools() -> None:
    """Forget what was registered."""
    with _lock:
        _by_name.clear()


def register_tool_handler(kind: str, handler: Any) -> None:
    """Let a function run every tool of a kind, a built-in one too; `"*"` stands for every unknown kind.

    It is called with the tool as its file declares it, the arguments, the agent and its inputs; plain or async. An object
    with `execute_tool` or `execute_tool_async` is taken for these methods.
    """
    called = _as_handler(kind, handler)
    with _lock:
        _by_kind[kind] = called


def _as_handler(kind: str, handler: Any) -> KindHandler:
    for method in ("execute_tool_async", "execute_tool"):
        if callable(getattr(handler, method, None)):
            return getattr(handler, method)  # type: ignore[no-any-return]  # it was just looked at
    if not callable(handler):
        raise BadConfig(f"the handler of kind '{kind}' cannot be called: {handler!r}")
    return handler  # type: ignore[no-any-return]  # the same


def get_tool_handler(kind: str) -> KindHandler | None:
    """The function that was registered for tools of this kind."""
    with _lock:
        return _by_kind.get(kind)


def installed_tool_handler(kind: str) -> KindHandler | None:
    """Who runs the tools of a kind that is neither built in nor registered: an installed package may."""
    from ronda._plugins import plugin

    found = plugin("ronda.tool_kinds", kind)
    return None if found is None else _as_handler(kind, found)


def clear_tool_handlers() -> None:
    """Forget what was registered; the built-in kinds work as before."""
    with _lock:
        _by_kind.clear()


def bind_tools(agent: Prompty, functions: Sequence[Handler] | Mapping[str, Handler]) -> dict[str, Handler]:
    """Functions → name → handler, for `tools=`, checked against what the agent declares. Nothing is changed or registered.

    A declared function without a handler is only warned about: it may be registered, or never be called.
    """
    handlers: dict[str, Handler] = {}
    for name, function in _with_names(functions):
        if name in handlers:
            raise BadPrompty(f"Duplicate tool handler: {name}", path=agent.path)
        handlers[name] = function
    declared = [tool.name for tool in agent.tools if isinstance(tool, FunctionTool)]
    for name in handlers:
        if name not in declared:
            raise BadPrompty(
                f"Tool handler '{name}' has no matching declaration in agent.tools. "
                f"Declared function tools: {', '.join(sorted(declared)) or '(none)'}",
                path=agent.path,
            )
    for name in declared:
        if name not in handlers:
            warnings.warn(f"Tool '{name}' is declared in agent.tools but has no handler here", stacklevel=2)
    return handlers


def _with_names(functions: Sequence[Handler] | Mapping[str, Handler]) -> list[tuple[str, Handler]]:
    if isinstance(functions, Mapping):
        return list(functions.items())
    return [(name_of(function), function) for function in functions]


def name_of(handler: Handler) -> str:
    """What a tool made of this function is called."""
    spec = getattr(handler, "spec", None)
    name = getattr(spec, "name", None) or getattr(handler, "__name__", None)
    if not isinstance(name, str) or (not name.isidentifier() and spec is None):
        raise BadConfig(f"{handler!r} has no name to be called by; give it as name → handler")
    return name
