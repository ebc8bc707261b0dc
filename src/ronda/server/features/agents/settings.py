"""Settings of agents: the folder of their files, and which of them are tools of others."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import AGENTS, Setting

_agents = partial(Setting, AGENTS)


class AgentSettings(Struct, frozen=True):
    agents: Annotated[
        str | None,
        _agents(
            "--agents DIR",
            "a folder of .prompty files: each is a model name on every door, and an agent_id",
            reads="path",
        ),
    ] = None
    agent_tools: Annotated[
        dict[str, tuple[str, ...]],
        _agents(
            "", "agents that an agent of the folder, or 'default' for the model, may call besides what its file says"
        ),
    ] = {}
