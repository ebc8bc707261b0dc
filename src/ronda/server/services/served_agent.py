"""What answers for an agent that a client made."""

from __future__ import annotations

from ronda.server.services.models import Target
from ronda.wire.mistral.agents import AgentBody


class ServedAgent(Target, frozen=True, kw_only=True):
    """A model, with what its owner has written down for it."""

    id: str
    version: int
    agent: AgentBody
