"""Ronda runs the agent loop: it calls a model, runs the tools it asks for, and goes on until there is an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ronda._version import __version__

if TYPE_CHECKING:
    from ronda.agent import Agent as Agent
    from ronda.agent import Cancel as Cancel
    from ronda.agent import invoke_agent as invoke_agent
    from ronda.agent import invoke_agent_async as invoke_agent_async
    from ronda.agent import run_agent as run_agent
    from ronda.agent import run_agent_async as run_agent_async
    from ronda.agent import stream_agent as stream_agent
    from ronda.agent.pipeline import cast as cast
    from ronda.agent.pipeline import cast_async as cast_async
    from ronda.agent.pipeline import invoke as invoke
    from ronda.agent.pipeline import invoke_async as invoke_async
    from ronda.agent.pipeline import list_models as list_models
    from ronda.agent.pipeline import list_models_async as list_models_async
    from ronda.agent.pipeline import parse as parse
    from ronda.agent.pipeline import parse_async as parse_async
    from ronda.agent.pipeline import prepare as prepare
    from ronda.agent.pipeline import prepare_async as prepare_async
    from ronda.agent.pipeline import process as process
    from ronda.agent.pipeline import process_async as process_async
    from ronda.agent.pipeline import render as render
    from ronda.agent.pipeline import render_async as render_async
    from ronda.agent.pipeline import run as run
    from ronda.agent.pipeline import run_async as run_async
    from ronda.agent.pipeline import validate_inputs as validate_inputs
    from ronda.agent.pipeline import validate_inputs_async as validate_inputs_async
    from ronda.agent.result import Result as Result
    from ronda.agent.resume import resume_agent as resume_agent
    from ronda.agent.resume import resume_agent_async as resume_agent_async
    from ronda.agent.streams import PromptyStream as PromptyStream
    from ronda.agent.turns import turn as turn
    from ronda.agent.turns import turn_async as turn_async
    from ronda.core.events import Answered as Answered
    from ronda.core.events import Asked as Asked
    from ronda.core.guardrails import GuardrailResult as GuardrailResult
    from ronda.core.guardrails import Guardrails as Guardrails
    from ronda.core.limits import Retry as Retry
    from ronda.core.limits import Timeouts as Timeouts
    from ronda.core.plan import PermissionRule as PermissionRule
    from ronda.core.plan import ToolChoice as ToolChoice
    from ronda.core.steering import Steering as Steering
    from ronda.drive import ToolContext as ToolContext
    from ronda.drive import ToolOutput as ToolOutput
    from ronda.prompty import BadPrompty as BadPrompty
    from ronda.prompty import InvokerError as InvokerError
    from ronda.prompty import ModelInfo as ModelInfo
    from ronda.prompty import Prompty as Prompty
    from ronda.prompty import PromptyNotFound as PromptyNotFound
    from ronda.prompty import StructuredResult as StructuredResult
    from ronda.prompty import check as check
    from ronda.prompty import clear_connections as clear_connections
    from ronda.prompty import get_connection as get_connection
    from ronda.prompty import load as load
    from ronda.prompty import load_async as load_async
    from ronda.prompty import loads as loads
    from ronda.prompty import register_connection as register_connection
    from ronda.prompty.mcp import clear_mcp_servers as clear_mcp_servers
    from ronda.prompty.mcp import register_mcp_servers as register_mcp_servers
    from ronda.prompty.registry import bind_tools as bind_tools
    from ronda.prompty.registry import clear_tool_handlers as clear_tool_handlers
    from ronda.prompty.registry import clear_tools as clear_tools
    from ronda.prompty.registry import get_tool as get_tool
    from ronda.prompty.registry import get_tool_handler as get_tool_handler
    from ronda.prompty.registry import register_tool as register_tool
    from ronda.prompty.registry import register_tool_handler as register_tool_handler
    from ronda.runner import ChatCompletionRequest as ChatCompletionRequest
    from ronda.runner import Runner as Runner
    from ronda.tools.function import tool as tool
    from ronda.tools.search.library import web_search as web_search

# Where each public name lives. Names are imported when they are first used: `import ronda` itself costs nothing.
_HOMES = {
    "Agent": "ronda.agent",
    "Answered": "ronda.core.events",
    "Asked": "ronda.core.events",
    "BadPrompty": "ronda.prompty",
    "Cancel": "ronda.agent",
    "ChatCompletionRequest": "ronda.runner",
    "GuardrailResult": "ronda.core.guardrails",
    "Guardrails": "ronda.core.guardrails",
    "InvokerError": "ronda.prompty",
    "ModelInfo": "ronda.prompty",
    "PermissionRule": "ronda.core.plan",
    "Prompty": "ronda.prompty",
    "PromptyNotFound": "ronda.prompty",
    "PromptyStream": "ronda.agent.streams",
    "Result": "ronda.agent.result",
    "Retry": "ronda.core.limits",
    "Runner": "ronda.runner",
    "Steering": "ronda.core.steering",
    "StructuredResult": "ronda.prompty",
    "Timeouts": "ronda.core.limits",
    "ToolChoice": "ronda.core.plan",
    "ToolContext": "ronda.drive",
    "ToolOutput": "ronda.drive",
    "bind_tools": "ronda.prompty.registry",
    "cast": "ronda.agent.pipeline",
    "cast_async": "ronda.agent.pipeline",
    "check": "ronda.prompty",
    "clear_connections": "ronda.prompty",
    "clear_mcp_servers": "ronda.prompty.mcp",
    "clear_tool_handlers": "ronda.prompty.registry",
    "clear_tools": "ronda.prompty.registry",
    "get_connection": "ronda.prompty",
    "get_tool": "ronda.prompty.registry",
    "get_tool_handler": "ronda.prompty.registry",
    "invoke": "ronda.agent.pipeline",
    "invoke_agent": "ronda.agent",
    "invoke_agent_async": "ronda.agent",
    "invoke_async": "ronda.agent.pipeline",
    "list_models": "ronda.agent.pipeline",
    "list_models_async": "ronda.agent.pipeline",
    "load": "ronda.prompty",
    "load_async": "ronda.prompty",
    "loads": "ronda.prompty",
    "parse": "ronda.agent.pipeline",
    "parse_async": "ronda.agent.pipeline",
    "prepare": "ronda.agent.pipeline",
    "prepare_async": "ronda.agent.pipeline",
    "process": "ronda.agent.pipeline",
    "process_async": "ronda.agent.pipeline",
    "register_connection": "ronda.prompty",
    "register_mcp_servers": "ronda.prompty.mcp",
    "register_tool": "ronda.prompty.registry",
    "register_tool_handler": "ronda.prompty.registry",
    "render": "ronda.agent.pipeline",
    "render_async": "ronda.agent.pipeline",
    "resume_agent": "ronda.agent.resume",
    "resume_agent_async": "ronda.agent.resume",
    "run": "ronda.agent.pipeline",
    "run_agent": "ronda.agent",
    "run_agent_async": "ronda.agent",
    "run_async": "ronda.agent.pipeline",
    "stream_agent": "ronda.agent",
    "tool": "ronda.tools.function",
    "turn": "ronda.agent.turns",
    "turn_async": "ronda.agent.turns",
    "validate_inputs": "ronda.agent.pipeline",
    "validate_inputs_async": "ronda.agent.pipeline",
    "web_search": "ronda.tools.search.library",
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
