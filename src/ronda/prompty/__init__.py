"""A `.prompty` file is an agent: load it, fill in its inputs, render it, parse it into messages.

    load            a file → `Prompty`, every shorthand written out, references resolved; `check` lists all its problems
    validate_inputs defaults filled in, what is required is there
    schema          the front matter as a JSON Schema, for editors

    prepare         its template filled in and read as messages: `render`, then `parse`
    invoke          prepare, one model call, `process`: the answer; `turn` is the whole loop

The verbs that call a model are the agent's (`ronda.agent.pipeline`), and reached from here by their names. Nothing else in this
folder calls a model.
"""

from __future__ import annotations

from typing import Any

from ronda.prompty.check import check
from ronda.prompty.connections import clear_connections, get_connection, register_connection, resolve_connection
from ronda.prompty.discovery import ModelInfo, enrich, map_model, map_models, read_capabilities
from ronda.prompty.errors import BadPrompty, InvokerError, PromptyNotFound
from ronda.prompty.json_schema import schema
from ronda.prompty.load import load, load_async, loads
from ronda.prompty.model import Prompty, to_dict
from ronda.prompty.preparation import read_input
from ronda.prompty.registry import (
    bind_tools,
    clear_tool_handlers,
    clear_tools,
    get_tool,
    get_tool_handler,
    register_tool,
    register_tool_handler,
)
from ronda.prompty.report import Problem
from ronda.prompty.results import ModelRefused, StructuredResult, cast

# Verbs of files that are run, which is done further up; each is imported when it is first used.
_VERBS = {
    "PromptyStream": "ronda.agent.streams",
    "cast_async": "ronda.agent.pipeline",
    "clear_mcp_servers": "ronda.prompty.mcp",
    "invoke": "ronda.agent.pipeline",
    "invoke_async": "ronda.agent.pipeline",
    "list_models": "ronda.agent.pipeline",
    "list_models_async": "ronda.agent.pipeline",
    "parse": "ronda.agent.pipeline",
    "parse_async": "ronda.agent.pipeline",
    "prepare": "ronda.agent.pipeline",
    "prepare_async": "ronda.agent.pipeline",
    "process": "ronda.agent.pipeline",
    "process_async": "ronda.agent.pipeline",
    "register_mcp_servers": "ronda.prompty.mcp",
    "render": "ronda.agent.pipeline",
    "render_async": "ronda.agent.pipeline",
    "run": "ronda.agent.pipeline",
    "run_async": "ronda.agent.pipeline",
    "turn": "ronda.agent.turns",
    "turn_async": "ronda.agent.turns",
    "validate_inputs": "ronda.agent.pipeline",
    "validate_inputs_async": "ronda.agent.pipeline",
}

__all__ = [
    "BadPrompty",
    "InvokerError",
    "ModelInfo",
    "ModelRefused",
    "Problem",
    "Prompty",
    "PromptyNotFound",
    "PromptyStream",
    "StructuredResult",
    "bind_tools",
    "cast",
    "cast_async",
    "check",
    "clear_connections",
    "clear_mcp_servers",
    "clear_tool_handlers",
    "clear_tools",
    "enrich",
    "get_connection",
    "get_tool",
    "get_tool_handler",
    "invoke",
    "invoke_async",
    "list_models",
    "list_models_async",
    "load",
    "load_async",
    "loads",
    "map_model",
    "map_models",
    "parse",
    "parse_async",
    "prepare",
    "prepare_async",
    "process",
    "process_async",
    "read_capabilities",
    "read_input",
    "register_connection",
    "register_mcp_servers",
    "register_tool",
    "register_tool_handler",
    "render",
    "render_async",
    "resolve_connection",
    "run",
    "run_async",
    "schema",
    "to_dict",
    "turn",
    "turn_async",
    "validate_inputs",
    "validate_inputs_async",
]  # those of the table above are found by `__getattr__`


def __getattr__(name: str) -> Any:
    home = _VERBS.get(name)
    if home is None:
        raise AttributeError(f"module 'ronda.prompty' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
