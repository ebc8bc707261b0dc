"""The operator's Python files, and modules of installed packages (`--tools`) → what they have for the runs of a server, or of a
terminal.

@tool def …            tools
tools = […]            tools of any sort: functions, agents, objects with `spec` and `run`
tool_callbacks = {}    name → function, for tools that a request declares
guardrails = …         a `Guardrails`, or a mapping of its members: looks at every run
compaction = …         who sums up what `context-budget` cuts: a function, or an agent
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from ronda._plugins import plugin, plugin_names
from ronda.agent.compaction import AnyCompaction
from ronda.core.guardrails import AnyGuardrails, Guardrails
from ronda.drive import Tool
from ronda.errors import BadConfig, quote_names
from ronda.tools.function import FunctionTool, as_tool


class ToolsFile(Struct, frozen=True):
    tools: Sequence[Tool] = ()
    callbacks: Mapping[str, Callable[..., Any]] = {}
    guardrails: AnyGuardrails | None = None
    compaction: AnyCompaction | None = None


def load_tools(paths: Sequence[str]) -> ToolsFile:
    """What these files have together."""
    tools: list[Tool] = []
    callbacks: dict[str, Callable[..., Any]] = {}
    only_once: dict[str, Any] = {}
    for path in paths:
        one = load_file(path)
        tools += one.tools
        callbacks |= one.callbacks
        for name in ("guardrails", "compaction"):
            if (found := getattr(one, name)) is not None:
                if name in only_once:
                    raise BadConfig(f"the tools file {path!r} has '{name}', and so has one before it")
                only_once[name] = found
    return ToolsFile(tools, callbacks, **only_once)


def load_file(path: str) -> ToolsFile:
    """A file; or what an installed package offers under this name, as an entry point."""
    found = plugin("ronda.tools", path) if is_package(path) else None
    if found is None and is_package(path):
        known = quote_names(plugin_names("ronda.tools")) or "none"
        raise BadConfig(
            f"no installed package has tools under the name '{path}' (there is {known}); a file ends in .py"
        )
    if isinstance(found, list | tuple):
        return ToolsFile([as_tool(one) for one in found])
    if isinstance(found, FunctionTool):
        return ToolsFile([found])
    return _all_of(_module(path) if found is None else found, path)


def is_package(name: str) -> bool:
    """Whether this names tools of an installed package, and no file."""
    return re.fullmatch(r"[\w.-]+", name) is not None and not name.endswith(".py") and not Path(name).exists()


def _all_of(module: Any, path: str) -> ToolsFile:
    listed = [as_tool(one) for one in getattr(module, "tools", ())]
    tools: list[Tool] = [value for value in vars(module).values() if isinstance(value, FunctionTool)]
    tools += [tool for tool in listed if tool not in tools]
    guardrails = getattr(module, "guardrails", None)
    if guardrails is not None and not isinstance(guardrails, Guardrails | Mapping):
        raise BadConfig(
            f"'guardrails' of the tools file {path!r} is {guardrails!r:.200}; it has to be a ronda.Guardrails"
        )
    loaded = ToolsFile(
        tools, dict(getattr(module, "tool_callbacks", {})), guardrails, getattr(module, "compaction", None)
    )
    if not (tools or loaded.callbacks or guardrails is not None or loaded.compaction is not None):
        raise BadConfig(f"the tools file {path!r} has no tools: decorate functions with @tool from ronda")
    return loaded


def _module(path: str) -> ModuleType:
    file = Path(path)
    if not file.is_file():
        raise BadConfig(f"there is no tools file {path!r}")
    name = f"ronda_tools_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadConfig(f"{path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of the file's functions are looked up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        where = _line_of(error, file)
        raise BadConfig(f"the tools file {where} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _line_of(error: BaseException, file: Path) -> str:
    """The file and the last of its lines that was running when this was raised."""
    names = {str(file), os.path.abspath(file)}  # Python keeps the second where the path that was given is relative
    lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename in names]
    if isinstance(error, SyntaxError) and error.filename in names and error.lineno is not None:
        lines.append(error.lineno)
    return repr(f"{file}:{lines[-1]}" if lines else str(file))
