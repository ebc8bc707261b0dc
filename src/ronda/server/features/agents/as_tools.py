"""The names of agents, in files and in the settings → tools: of the server's files, and of what clients made (`/v1/agents`).

A name means a file first, then an agent of the run's owner: `ID` or its name, and after an `@` a version or an alias of it. It is
looked for when the run is opened. What a call starts has that version, also when it goes on after a restart. The agent has the
tools that it has when it is asked directly, but for its handoffs; a tool that the caller would run is not run here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ronda.agent.children import VersionedAgent
from ronda.agent.value import Agent, asked_with_text, with_spec
from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import NotFound, RondaError
from ronda.prompty.children import Children
from ronda.prompty.handlers import MissingTool
from ronda.prompty.model import Host, Prompty
from ronda.prompty.registry import Lent
from ronda.server.answering.setups import Setups
from ronda.server.http.failure import without_paths
from ronda.server.services.agents import ServedAgent
from ronda.server.services.models import Target, TargetTools, check_target
from ronda.tools.agent import AgentTool
from ronda.tools.mcp.names import offered_name
from ronda.wire.shared.capabilities import rename_choice
from ronda.wire.shared.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.services.agent_files import AgentFiles

log = logging.getLogger("ronda.server")

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
        setups: Setups,
        rounds: int,
    ) -> None:
        self.files = files
        self.stored = stored
        self._setups = setups
        self._rounds = rounds

    async def tool(self, target: ServedAgent, owner: str) -> AgentTool:
        agent = target.agent
        about = (agent.description or "").strip() or " ".join((agent.instructions or "").split())[:MAX_DESCRIPTION]
        labels = await self._setups.labels_of(target, owner)
        spec = asked_with_text(offered_name(None, agent.name), about or f"Ask the agent '{agent.name}'.", labels)
        return AgentTool(spec, VersionedAgent(target.version, partial(self._open, target, owner)))

    async def _open(self, target: ServedAgent, owner: str, version: int) -> Agent:
        """The agent with the tools that it has now."""
        if version != target.version:
            found = await self.stored.find(f"{target.id}@{version}", owner)
            if found is None:
                raise NotFound(f"the agent '{target.id}' has no version {version} any more", code="agent_not_found")
            target = found
        request = DoorRequest(model=target.id, turns=())
        _, offer = await self._setups.offer_for(target, request, (), self._rounds, owner)
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


async def tools_of_target(table: Mapping[str, Sequence[str]], lent: Lent, target: Target) -> TargetTools:
    """The agents that the settings make tools of the server's model, or of an agent that a client made. One that cannot be asked
    is left out: the caller can do without it, and other owners may have it."""
    names = list(table.get("default", ()))
    if isinstance(target, ServedAgent):
        itself = (target.id, target.agent.name)
        names += [one for name in itself for one in table.get(name, ())]
        names = [name for name in names if name.partition("@")[0] not in itself]
    children, tools, warnings = Children(Host(), lent), dict[str, Tool](), list[str]()
    for name in dict.fromkeys(names):
        try:
            tool = await children.agent(name, Prompty())
            if tool.spec.name in tools:
                raise NotFound(f"another agent is the tool '{tool.spec.name}', too")
        except RondaError as error:
            log.info("the agent '%s' cannot be used as a tool: %s", name, error)  # the caller is warned, each time
            warnings.append(f"the agent '{name[:200]}' is not offered to the model: {without_paths(str(error))}")
        else:
            tools[tool.spec.name] = tool
    return TargetTools(tuple(tools.values()), tuple(warnings))
