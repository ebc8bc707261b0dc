"""The names of agents, in files and in the settings → tools: of the server's files, and of what clients made (`/v1/agents`).

A name means a file first, then an agent of the run's owner: `ID` or its name, and after an `@` a version or an alias of it. It is
looked for when the run is opened. What a call starts has that version, also when it goes on after a restart. The agent has the
tools that it has when it is asked directly, but for its handoffs; a tool that the caller would run, nobody runs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ronda.agent.children import VersionedAgent
from ronda.agent.value import Agent, asked_with_text, with_spec
from ronda.core.plan import ToolSpec
from ronda.core.taint import EGRESS, UNTRUSTED, taint_labels
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import NotFound
from ronda.prompty.handlers import MissingTool
from ronda.server.answering.opening import Opening, OpeningFeatures
from ronda.server.services.asking import Ask
from ronda.server.services.models import check_target
from ronda.server.services.served_agent import ServedAgent
from ronda.server.services.toolbox import Toolbox
from ronda.tools.agent import AgentTool
from ronda.tools.mcp.names import offered_name
from ronda.wire.capabilities import rename_choice
from ronda.wire.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.services.agent_files import AgentFiles

MAX_DESCRIPTION = 300


class StoredAgents(Protocol):
    """Agents that clients made."""

    async def find(self, name: str, owner: str) -> ServedAgent | None: ...

    async def find_named(self, name: str, owner: str) -> ServedAgent | None: ...


class AgentTools:
    """The agents of a server as tools; `rounds` is how many each may have."""

    def __init__(
        self,
        files: AgentFiles | None,
        stored: StoredAgents,
        opening: Opening,
        toolbox: Toolbox,
        features: OpeningFeatures,
        rounds: int,
    ) -> None:
        self.files = files
        self.stored = stored
        self._opening = opening
        self._toolbox = toolbox
        self._features = features
        self._rounds = rounds

    async def tool(self, target: ServedAgent, owner: str) -> AgentTool:
        agent = target.agent
        about = (agent.description or "").strip() or " ".join((agent.instructions or "").split())[:MAX_DESCRIPTION]
        labels = await self._labels(target, owner)
        spec = asked_with_text(offered_name(None, agent.name), about or f"Ask the agent '{agent.name}'.", labels)
        return AgentTool(spec, VersionedAgent(target.version, partial(self._open, target, owner)))

    async def _labels(self, target: ServedAgent, owner: str) -> frozenset[str]:
        """What its tools may do, as far as that can be told before it is called: MCP servers are only connected to then."""
        needs = self._features.others(target.needs)
        ask = Ask(owner, DoorRequest(model=target.id, turns=()), target, needs, (), target.choice)
        brought = await self._features.bring(ask)
        offer = self._toolbox.offer(target.declared, 1, target.tools, needs=needs, brought=brought)
        far = () if len(needs) == len(target.needs) else (UNTRUSTED, EGRESS)
        return taint_labels(offer.specs) | set(far)

    async def _open(self, target: ServedAgent, owner: str, version: int) -> Agent:
        """The agent with the tools that it has now."""
        if version != target.version:
            found = await self.stored.find(f"{target.id}@{version}", owner)
            if found is None:
                raise NotFound(f"the agent '{target.id}' has no version {version} any more", code="agent_not_found")
            target = found
        request = DoorRequest(model=target.id, turns=())
        _, offer = await self._opening.open_for(target, request, (), self._rounds, owner)
        tools = [
            MissingTool(spec) if (tool := offer.handlers.get(spec.name)) is None else _OfferedTool(spec, tool)
            for spec in offer.specs
        ]
        agent = Agent(
            target.provider,
            instructions=target.agent.instructions or "",
            tools=tools,
            options=target.options,
            tool_choice=rename_choice(target.choice, offer.stand_ins),
            name=target.id,
        )
        return with_spec(agent, target.spec)


class NamedAgents:
    """The agents of a server, as one of its owners may name them."""

    def __init__(self, agents: AgentTools, owner: str) -> None:
        self._agents = agents
        self._owner = owner

    def path(self, name: str) -> str | None:
        files = self._agents.files
        return None if files is None else files.path(name)

    def agents_of(self, path: str | None) -> Sequence[str]:
        files = self._agents.files
        return () if files is None else files.agents_of(path)

    async def stored(self, name: str) -> AgentTool | None:
        target = await self._agents.stored.find_named(name, self._owner)
        if target is None:
            return None
        check_target(target, name)
        return await self._agents.tool(target, self._owner)


class _OfferedTool(Struct, frozen=True):
    """A tool with what the server says of it for this agent: whether calls are confirmed, whether it has to be found."""

    spec: ToolSpec
    tool: Tool

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await self.tool.run(arguments, context)
