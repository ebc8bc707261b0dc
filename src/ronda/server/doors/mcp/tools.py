"""Agents of a server → tools, as an MCP client is told about them: by an owner's rights, each with the schema of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ronda.drive.offload import aside
from ronda.prompty.model import Prompty, Property
from ronda.prompty.parameters import parameters_of
from ronda.server.http.rights import RIGHTS, current_scopes
from ronda.tools.mcp.names import distinct_names

if TYPE_CHECKING:
    from ronda.server.services.agents import AgentFolder
    from ronda.store.agents import Agents

CHAT: Final = "chat"
INPUT: Final = "input"  # what an agent is asked that has no inputs of its own
MAX_AGENTS: Final = 1_000
_CHAT_ABOUT: Final = (
    "Ask a model of this server, with any field of OpenAI's Chat Completions. The server's tools run there."
)
_CHAT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "role": {"type": "string", "enum": ["user", "assistant", "system"]},
                    "content": {"type": "string"},
                },
                "required": ["role", "content"],
            },
        },
        "model": {"type": "string", "default": "default"},
        "max_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0},
    },
    "required": ["messages"],
}


class AgentTool(Struct, frozen=True):
    """`agent` is empty for `chat`. `asks`: its `input` is a message to it, not an input of its own."""

    name: str
    agent: str
    description: str
    schema: dict[str, Any]
    asks: bool = False


async def tools_for(files: AgentFolder | None, agents: Agents, owner: str) -> list[AgentTool]:
    """In the same order each time."""
    found = [] if files is None else await aside(_of_files, files)
    found += await _stored_agents(agents, owner)
    if RIGHTS.get() is not None:
        scopes = current_scopes()
        found = [one for one in found if scopes.allows_agent((one[0],))]
    names = distinct_names([("", None, agent) for agent, _, _, _ in found], {CHAT})
    chat = AgentTool(CHAT, "", _CHAT_ABOUT, _CHAT_SCHEMA)
    return [chat, *[AgentTool(names["", agent], agent, about, schema, asks) for agent, about, schema, asks in found]]


def _of_files(files: AgentFolder) -> list[tuple[str, str, dict[str, Any], bool]]:
    """Files that cannot be used are left out: what is wrong with them the operator is told."""
    found = []
    for name in sorted(files.names())[:MAX_AGENTS]:
        prompty = files.prompty(name)
        if prompty is not None and prompty.has_conversation:
            about = prompty.description or prompty.display_name or f"The agent {name}."
            found.append((name, about, *_schema_of(prompty)))
    return found


def _schema_of(prompty: Prompty) -> tuple[dict[str, Any], bool]:
    inputs: Sequence[Property] = [one for one in prompty.inputs if one.kind != "thread"]
    if inputs:
        return parameters_of(inputs), False
    return _question(), True  # which may be left out: the file may have one of its own


def _question() -> dict[str, Any]:
    about = {"type": "string", "description": "What to ask the agent."}
    return {"type": "object", "properties": {INPUT: about}}


class _StoredAgent(Struct, frozen=True):
    name: str = ""
    description: str | None = None


async def _stored_agents(agents: Agents, owner: str) -> list[tuple[str, str, dict[str, Any], bool]]:
    """Agents that the owner has made over HTTP."""
    rows = (await agents.of(owner))[:MAX_AGENTS]
    made = [(row.id, msgspec.json.decode(row.body, type=_StoredAgent)) for row in rows]
    return [(agent_id, body.description or f"The agent {body.name}.", _question(), True) for agent_id, body in made]
