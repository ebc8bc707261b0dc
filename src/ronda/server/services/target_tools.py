"""The settings' table of agents that are tools → tools of one who is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ronda.drive import Tool
from ronda.errors import NotFound, RondaError
from ronda.prompty.children import Children
from ronda.prompty.model import Host, Prompty
from ronda.prompty.registry import Lent
from ronda.server.http.failure import without_paths
from ronda.server.services.models import Target
from ronda.server.services.served_agent import ServedAgent

log = logging.getLogger("ronda.server")


async def tools_of_target(
    table: Mapping[str, Sequence[str]], lent: Lent, target: Target
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The agents that the settings make tools of the server's model, or of an agent that a client made; and warnings. One that
    cannot be asked is left out: who asks can do without it, and other owners may have it."""
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
    return tuple(tools.values()), tuple(warnings)
