"""Agents and what is done with them: made in code or loaded from a prompt file, run to an answer, step by step or streamed."""

from ronda.agent.cancel import Cancel
from ronda.agent.invoke import invoke_agent, invoke_agent_async, run_agent, run_agent_async, stream_agent
from ronda.agent.start import RunOptions
from ronda.agent.toolsets import Tools
from ronda.agent.value import Agent, AnyAgent, Inputs, where_is

__all__ = [
    "Agent",
    "AnyAgent",
    "Cancel",
    "Inputs",
    "RunOptions",
    "Tools",
    "invoke_agent",
    "invoke_agent_async",
    "run_agent",
    "run_agent_async",
    "stream_agent",
    "where_is",
]
