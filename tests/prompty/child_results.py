"""What a parent's model was sent of its children."""

from __future__ import annotations

from ronda.core.parts import ToolResult, ToolTurn
from ronda.providers.script import ScriptedModel


def heard(model: ScriptedModel, call: int = 1) -> list[ToolResult]:
    """The results that the model was sent with a call."""
    turn = model.heard[call][-1]
    assert isinstance(turn, ToolTurn)
    return list(turn.results)


RESEARCH = "tools: [{name: research, kind: prompty, path: child.prompty, mode: agentic}]"


CHILD_INPUTS = "description: Sums a text up.\ninputs:\n  q: {kind: string, required: true, description: The text.}"
