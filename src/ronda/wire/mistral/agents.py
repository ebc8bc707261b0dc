"""Agents as Mistral's API makes and shows them: request bodies → what is kept of an agent → the JSON clients get.

What is kept is the body of a version, as JSON: `AgentBody`. Numbers, dates and ids are the store's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from ronda.core.plan import Options, ToolChoice
from ronda.wire.codec.json import decoder, encode
from ronda.wire.mistral.declarations import CompletionArgs, DeclaredTools, Guardrail, read_args, read_tools
from ronda.wire.mistral.validation_errors import BODY, Loc, read_body

Name = Annotated[str, Meta(min_length=1, max_length=256)]


class AgentBody(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A version of an agent, and the body of the request that creates the first."""

    model: Annotated[str, Meta(min_length=1)]
    name: Name
    instructions: str | None = None
    tools: list[Raw] | None = None
    completion_args: CompletionArgs | None = None
    guardrails: list[Guardrail] | None = None
    description: str | None = None
    handoffs: list[str] | None = None
    metadata: dict[str, Raw] | None = None
    version_message: str | None = None

    def declared(self) -> DeclaredTools:
        return read_tools(self.tools, (*BODY, "tools"))

    def options(self, loc: Loc = BODY) -> tuple[Options, ToolChoice]:
        return read_args(self.completion_args, (*loc, "completion_args"))


class AgentUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said replaces what was there; null empties it, but for what an agent must have."""

    model: Annotated[str, Meta(min_length=1)] | UnsetType | None = UNSET
    name: Name | UnsetType | None = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: list[Raw] | UnsetType | None = UNSET
    completion_args: CompletionArgs | UnsetType | None = UNSET
    guardrails: list[Guardrail] | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    handoffs: list[str] | UnsetType | None = UNSET
    metadata: dict[str, Raw] | UnsetType | None = UNSET
    version_message: str | UnsetType | None = UNSET
    deployment_chat: bool | UnsetType | None = UNSET


def read_create(body: bytes) -> AgentBody:
    return check_agent(read_body(body, AgentBody))


def check_agent(agent: AgentBody) -> AgentBody:
    """It makes sense; what does not is refused now, and not when a client talks to the agent."""
    agent.declared()
    agent.options()
    return agent


def read_update(body: bytes, before: AgentBody) -> tuple[AgentBody, bool | None]:
    """The next version, and whether the agent is deployed, if that was said."""
    body_fields = read_body(body, AgentUpdate)
    changed = {
        name: getattr(body_fields, name)
        for name in AgentBody.__struct_fields__
        if getattr(body_fields, name) is not UNSET
    }
    for name in ("model", "name"):
        if name in changed and changed[name] is None:
            del changed[name]
    changed.setdefault("version_message", None)  # it is about one version
    chat = body_fields.deployment_chat
    return check_agent(structs.replace(before, **changed)), None if chat is UNSET else chat


_decode_body = decoder(AgentBody).decode


def read_stored(body: Raw) -> AgentBody:
    agent: AgentBody = _decode_body(body)
    return agent


def keep(agent: AgentBody) -> bytes:
    return encode(agent)


def when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def write_agent(
    agent_id: str,
    agent: AgentBody,
    *,
    version: int,
    versions: Sequence[int],
    created: float,
    updated: float,
    deployment_chat: bool,
) -> dict[str, Any]:
    return {
        "id": agent_id,
        "object": "agent",
        "model": agent.model,
        "name": agent.name,
        "description": agent.description,
        "instructions": agent.instructions,
        "tools": agent.tools or [],
        "completion_args": agent.completion_args or {},
        "guardrails": agent.guardrails,
        "handoffs": agent.handoffs,
        "metadata": agent.metadata,
        "version": version,
        "versions": list(versions),
        "version_message": agent.version_message,
        "created_at": when(created),
        "updated_at": when(updated),
        "deployment_chat": deployment_chat,
        "source": "api",
    }
