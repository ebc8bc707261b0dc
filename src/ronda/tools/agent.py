"""Another agent as a tool: a call of it is a run of its own, started through the context that the call runs in.

What an agent is, how it is run and how far it may go is known further up, to the code that gave the context its `start_child`;
here it is a value that is passed on. A child ends with its parent: cancelling the one cancels the task that the other runs in.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import BadConfig

STARTED: Final = "prompty"  # what a tool that starts an agent is declared as

Mode: TypeAlias = Literal["single", "agentic"]


class AgentTool:
    """`single` is one model call without tools, `agentic` the whole loop."""

    def __init__(self, spec: ToolSpec, agent: Any, mode: Mode = "agentic") -> None:
        self.spec = spec
        self.agent = agent
        self.mode = mode

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        if context.start_child is None:
            raise BadConfig(f"'{self.spec.name}' is an agent, and nothing here can start one")
        return await context.start_child(context, self.agent, arguments, self.mode)
