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
    from ronda.agent.conversation import Conversation as Conversation
    from ronda.agent.hooks import Hooks as Hooks
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
    from ronda.agent.value import use_transport as use_transport
    from ronda.core.events import Answered as Answered
    from ronda.core.events import Asked as Asked
    from ronda.core.events import CallDelta as CallDelta
    from ronda.core.events import Checked as Checked
    from ronda.core.events import Compacted as Compacted
    from ronda.core.events import Event as Event
    from ronda.core.events import ModelFailed as ModelFailed
    from ronda.core.events import ModelFinished as ModelFinished
    from ronda.core.events import ModelInterrupted as ModelInterrupted
    from ronda.core.events import ModelRetried as ModelRetried
    from ronda.core.events import ModelStarted as ModelStarted
    from ronda.core.events import ReasoningDelta as ReasoningDelta
    from ronda.core.events import RefusalDelta as RefusalDelta
    from ronda.core.events import RunFinished as RunFinished
    from ronda.core.events import RunStarted as RunStarted
    from ronda.core.events import Steered as Steered
    from ronda.core.events import TextDelta as TextDelta
    from ronda.core.events import ToolFinished as ToolFinished
    from ronda.core.events import ToolProgressed as ToolProgressed
    from ronda.core.events import ToolStarted as ToolStarted
    from ronda.core.events import Warned as Warned
    from ronda.core.guardrails import GuardrailResult as GuardrailResult
    from ronda.core.guardrails import Guardrails as Guardrails
    from ronda.core.limits import MAX_ITERATIONS as MAX_ITERATIONS
    from ronda.core.limits import Retry as Retry
    from ronda.core.limits import Timeouts as Timeouts
    from ronda.core.plan import PermissionRule as PermissionRule
    from ronda.core.plan import ToolChoice as ToolChoice
    from ronda.core.steering import Steering as Steering
    from ronda.drive import ToolContext as ToolContext
    from ronda.drive import ToolOutput as ToolOutput
    from ronda.errors import BadConfig as BadConfig
    from ronda.errors import BadRequest as BadRequest
    from ronda.errors import ExecuteError as ExecuteError
    from ronda.errors import GuardrailError as GuardrailError
    from ronda.errors import LimitExceeded as LimitExceeded
    from ronda.errors import RondaError as RondaError
    from ronda.errors import RunCancelled as RunCancelled
    from ronda.errors import RunEnded as RunEnded
    from ronda.errors import RunWaiting as RunWaiting
    from ronda.errors import ToolFailed as ToolFailed
    from ronda.errors import ToolMissing as ToolMissing
    from ronda.errors import UpstreamError as UpstreamError
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
    from ronda.providers.http.transport import Transport as Transport
    from ronda.runner import ChatCompletionRequest as ChatCompletionRequest
    from ronda.runner import Runner as Runner
    from ronda.tools.code.library import python as python
    from ronda.tools.code.library import shell as shell
    from ronda.tools.function import tool as tool
    from ronda.tools.mcp.library import mcp as mcp
    from ronda.tools.search.library import fetch as fetch
    from ronda.tools.search.library import folder as folder
    from ronda.tools.search.library import web_search as web_search

# Where each public name lives. Names are imported when they are first used: `import ronda` itself costs nothing.
_HOMES = {
    "Agent": "ronda.agent",
    "Answered": "ronda.core.events",
    "Asked": "ronda.core.events",
    "BadConfig": "ronda.errors",
    "BadRequest": "ronda.errors",
    "CallDelta": "ronda.core.events",
    "Cancel": "ronda.agent",
    "ChatCompletionRequest": "ronda.runner",
    "Checked": "ronda.core.events",
    "Compacted": "ronda.core.events",
    "Conversation": "ronda.agent.conversation",
    "Event": "ronda.core.events",
    "ExecuteError": "ronda.errors",
    "GuardrailError": "ronda.errors",
    "GuardrailResult": "ronda.core.guardrails",
    "Guardrails": "ronda.core.guardrails",
    "Hooks": "ronda.agent.hooks",
    "LimitExceeded": "ronda.errors",
    "MAX_ITERATIONS": "ronda.core.limits",
    "ModelFailed": "ronda.core.events",
    "ModelFinished": "ronda.core.events",
    "ModelInterrupted": "ronda.core.events",
    "ModelRetried": "ronda.core.events",
    "ModelStarted": "ronda.core.events",
    "PermissionRule": "ronda.core.plan",
    "ReasoningDelta": "ronda.core.events",
    "RefusalDelta": "ronda.core.events",
    "Result": "ronda.agent.result",
    "Retry": "ronda.core.limits",
    "RondaError": "ronda.errors",
    "RunCancelled": "ronda.errors",
    "RunEnded": "ronda.errors",
    "RunFinished": "ronda.core.events",
    "RunStarted": "ronda.core.events",
    "RunWaiting": "ronda.errors",
    "Runner": "ronda.runner",
    "Steered": "ronda.core.events",
    "Steering": "ronda.core.steering",
    "TextDelta": "ronda.core.events",
    "Timeouts": "ronda.core.limits",
    "ToolChoice": "ronda.core.plan",
    "ToolContext": "ronda.drive",
    "ToolFailed": "ronda.errors",
    "ToolFinished": "ronda.core.events",
    "ToolMissing": "ronda.errors",
    "ToolOutput": "ronda.drive",
    "ToolProgressed": "ronda.core.events",
    "ToolStarted": "ronda.core.events",
    "Transport": "ronda.providers.http.transport",
    "UpstreamError": "ronda.errors",
    "Warned": "ronda.core.events",
    "fetch": "ronda.tools.search.library",
    "folder": "ronda.tools.search.library",
    "invoke_agent": "ronda.agent",
    "invoke_agent_async": "ronda.agent",
    "mcp": "ronda.tools.mcp.library",
    "python": "ronda.tools.code.library",
    "resume_agent": "ronda.agent.resume",
    "resume_agent_async": "ronda.agent.resume",
    "run_agent": "ronda.agent",
    "run_agent_async": "ronda.agent",
    "shell": "ronda.tools.code.library",
    "stream_agent": "ronda.agent",
    "tool": "ronda.tools.function",
    "use_transport": "ronda.agent.value",
    "web_search": "ronda.tools.search.library",
}

# Prompty's verbs, which are `ronda.prompty`'s. Programs may also import them from here.
_PROMPTY = {
    "BadPrompty",
    "InvokerError",
    "ModelInfo",
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
    "parse",
    "parse_async",
    "prepare",
    "prepare_async",
    "process",
    "process_async",
    "register_connection",
    "register_mcp_servers",
    "register_tool",
    "register_tool_handler",
    "render",
    "render_async",
    "run",
    "run_async",
    "turn",
    "turn_async",
    "validate_inputs",
    "validate_inputs_async",
}

__all__ = [*_HOMES, "__version__"]  # the first table is the list


def __getattr__(name: str) -> Any:
    home = "ronda.prompty" if name in _PROMPTY else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ronda' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
