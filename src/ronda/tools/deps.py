"""What a program gives to the tools of a run (`run_agent(…, deps=database)`), and what the model never sees.

A function takes it in a parameter that is annotated as `ToolContext[Database]`: `context.deps` is the database. A tool is given
it where it runs, and nowhere else: no journal keeps it.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.drive.contracts import NO_DEPS
from ronda.errors import BadRequest


class WantedContext(Struct, frozen=True):
    """The parameter that a function takes its context in, and the type of the deps that it names, as it is written."""

    parameter: str
    deps: Any = None  # None: it names none
    written: str = ""


def find_context(function: Callable[..., Any]) -> WantedContext | None:
    """A parameter annotated with ToolContext is told where the call runs; the model does not see it."""
    found = inspect.unwrap(function)
    try:
        hints: dict[str, Any] = inspect.get_annotations(found, eval_str=False)
    except TypeError:
        return None
    for name, hint in hints.items():
        if isinstance(hint, str):
            word, _, inside = hint.strip().removesuffix("]").partition("[")
            if word.split(".")[-1] == "ToolContext":
                return WantedContext(name, _deps_type(hint, found) if inside else None, inside)
        elif hint is ToolContext:
            return WantedContext(name)
        elif typing.get_origin(hint) is ToolContext:
            kind: Any = typing.get_args(hint)[0]
            return WantedContext(name, kind, getattr(kind, "__name__", str(kind)))
    return None


def _deps_type(hint: str, function: Callable[..., Any]) -> Any:
    """What the text of an annotation names, or Any: a name that only a type checker sees cannot be compared with a value."""
    holder = type("Holder", (), {"__annotations__": {"context": hint}})  # the function's other hints may not resolve
    names = vars(sys.modules.get(getattr(function, "__module__", ""), typing))
    try:
        return typing.get_args(typing.get_type_hints(holder, dict(names))["context"])[0]
    except Exception:  # whatever an annotation raises when it is read
        return Any


class ToolWithDeps:
    def __init__(self, tool: Tool, deps: object) -> None:
        self._tool = tool
        self._deps = deps
        self.spec = tool.spec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await self._tool.run(arguments, replace(context, deps=self._deps))


def give_deps(table: dict[str, Tool], deps: object) -> dict[str, Tool]:
    """The same tools, where those that want deps have them. Raises BadRequest, before a model is called."""
    found: dict[str, Tool] = {}
    for name, tool in table.items():
        if (wanted := wanted_deps(tool)) is not None:
            _check(name, wanted, deps)
            found[name] = ToolWithDeps(tool, deps)
    return {**table, **found} if found else table


def wanted_deps(tool: object) -> WantedContext | None:
    """None: the tool wants none."""
    wanted: WantedContext | None = getattr(tool, "wanted_context", None)
    return wanted if wanted is not None and wanted.written else None


def _check(name: str, wanted: WantedContext, deps: object) -> None:
    if deps is NO_DEPS:
        raise BadRequest(
            f"the tool '{name}' takes a ToolContext[{wanted.written}]; give the run its deps: "
            f"run_agent(…, deps={wanted.written}(…))",
            param="deps",
        )
    try:
        fits = isinstance(deps, typing.get_origin(wanted.deps) or wanted.deps)
    except TypeError:  # Any, a TypedDict, a Protocol: nothing that a value can be compared with
        return
    if not fits:
        raise BadRequest(
            f"deps is {deps!r:.200}; the tool '{name}' takes a ToolContext[{wanted.written}]",
            param="deps",
        )
