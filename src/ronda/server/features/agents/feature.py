"""Agents, as a feature: the files of a folder answer under their names, and the settings make agents tools of others.

Agents that clients make are the Mistral door's; here they are tools, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.server.doors.mistral.agents import StoredAgents
from ronda.server.features.agents.as_tools import AgentTools, NamedAgents, tools_of_target
from ronda.server.features.agents.settings import AgentSettings
from ronda.server.features.contract import Feature, Line, Services, TargetTools
from ronda.server.services.agent_files import AgentFiles
from ronda.server.services.agents import AgentFolder
from ronda.server.services.models import Source, Target

if TYPE_CHECKING:
    from ronda.prompty.registry import Lent
    from ronda.server.config import ServerConfig


class Agents(Feature):
    name = "agents"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        own = settings.part(AgentSettings)
        toolbox = self._toolbox = services.toolbox
        self._folder = own.agents
        self._files: AgentFiles | None = None
        if own.agents is not None:
            self._files = AgentFiles(own.agents, toolbox, own.agent_tools, settings.transport)
        stored = StoredAgents(services.catalog.agents, services.models)
        rounds, _ = settings.rounds_for(None)
        self._as_tools = AgentTools(self._files, stored, services.answering.opening.setups, rounds)
        self._table = own.agent_tools
        self.is_steady = not own.agent_tools  # else an owner's own agents may be among the tools

    def targets(self) -> Sequence[Source]:
        return () if self._files is None else [self._files]

    def provides(self) -> Mapping[type, object]:
        return {} if self._files is None else {AgentFolder: self._files}

    def lend(self, lent: Lent, owner: str) -> None:
        lent.agents = NamedAgents(self._as_tools, owner)

    async def target_tools(self, target: Target, owner: str) -> TargetTools | None:
        return await tools_of_target(self._table, self._toolbox.lent_to(owner), target) if self._table else None

    async def doctor(self) -> Sequence[Line]:
        if self._files is None:
            return ()
        problems = await asyncio.to_thread(self._files.report)
        if not problems:
            return [Line("agents", "works", f"{self._folder} has {len(list(self._files.names()))}")]
        return [Line("agents", "partly", problem, "ronda validate FILE") for problem in problems]

    def startup_lines(self) -> Sequence[str]:
        if self._files is None:
            return ()
        names = ", ".join(self._files.listed()) or "none yet"
        return [f"agents in {self._folder}: {names}", *[f"ronda: {problem}" for problem in self._files.report()]]
