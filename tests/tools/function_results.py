"""Functions as tools, called once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ronda import Agent, invoke_agent
from ronda.core.parts import ToolResult, ToolTurn
from ronda.drive import Tool
from ronda.providers.script import Call, ScriptedModel, calls, says


def result_of(made: Tool | Callable[..., Any], **arguments: Any) -> ToolResult:
    """What the model reads of one call."""
    name = made.spec.name if hasattr(made, "spec") else made.__name__
    model = ScriptedModel(calls(Call(name, arguments, "c1")), says("done"))
    assert invoke_agent(Agent(model=model, tools=[made]), "go") == "done"
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    [result] = turn.results
    return result
