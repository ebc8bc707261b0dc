"""Mistral's agents, their completions, and conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.server.answering.stored_answers import StoredAnswers
from ronda.server.doors.dialects import MISTRAL
from ronda.server.doors.mistral.agents import AgentsDoor, StoredAgents
from ronda.server.doors.mistral.completions import COMPLETION_ANSWERS, CompletionsDoor
from ronda.server.doors.mistral.conversations import ConversationsDoor
from ronda.server.doors.mistral.handoffs import Handoffs
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door, vendor_operations
from ronda.server.http.routing import Route
from ronda.server.services.models import Source

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.http.operations import Operation

_AGENT = "/v1/agents/{agent_id}"
_CONVERSATION = "/v1/conversations/{conversation_id}"


class Mistral(Door):
    """Agents, their completions, and conversations."""

    name = "mistral"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        answering, models, toolbox = services.answering, services.models, services.toolbox
        handoffs = Handoffs(answering.opening, services.runs, models, toolbox, services.settings)
        self._completions = CompletionsDoor(answering, models, handoffs, settings.max_body)
        self._stored = StoredAnswers(COMPLETION_ANSWERS, services.runs, answering.background)
        self._stored_agents = StoredAgents(services.catalog.agents, models)
        self._agents = AgentsDoor(services.catalog.agents, models, toolbox, services.core_needs, settings.max_body)
        self._conversations = ConversationsDoor(
            answering, models, handoffs, services.catalog, services.supervisor, settings.max_body
        )

    def targets(self) -> Sequence[Source]:
        return [self._stored_agents]

    def operations(self) -> Mapping[str, Operation]:
        return vendor_operations("MISTRAL")

    def routes(self) -> Sequence[Route]:
        agents, conversations = self._agents, self._conversations
        return (
            Route("POST", "/v1/agents/completions", MISTRAL, self._completions.agent_completions, "run"),
            *self._stored.routes(MISTRAL),
            Route("POST", "/v1/agents", MISTRAL, agents.create, "write"),
            Route("GET", "/v1/agents", MISTRAL, agents.list_agents, "read"),
            Route("GET", "/v1/agents/pages", MISTRAL, agents.list_pages, "read"),
            Route("GET", _AGENT, MISTRAL, agents.get, "read"),
            Route("PATCH", _AGENT, MISTRAL, agents.update, "write"),
            Route("DELETE", _AGENT, MISTRAL, agents.delete, "write"),
            Route("PATCH", f"{_AGENT}/version", MISTRAL, agents.switch_version, "write"),
            Route("GET", f"{_AGENT}/versions", MISTRAL, agents.list_versions, "read"),
            Route("GET", _AGENT + "/versions/{version}", MISTRAL, agents.get_version, "read"),
            Route("PUT", f"{_AGENT}/aliases", MISTRAL, agents.set_alias, "write"),
            Route("GET", f"{_AGENT}/aliases", MISTRAL, agents.list_aliases, "read"),
            Route("DELETE", f"{_AGENT}/aliases", MISTRAL, agents.delete_alias, "write"),
            Route("POST", "/v1/conversations", MISTRAL, conversations.start, "run"),
            Route("GET", "/v1/conversations", MISTRAL, conversations.list_conversations, "read"),
            Route("POST", _CONVERSATION, MISTRAL, conversations.append, "run"),
            Route("GET", _CONVERSATION, MISTRAL, conversations.get, "read"),
            Route("DELETE", _CONVERSATION, MISTRAL, conversations.delete, "write"),
            Route("POST", f"{_CONVERSATION}/restart", MISTRAL, conversations.restart, "run"),
            Route("GET", f"{_CONVERSATION}/history", MISTRAL, conversations.history, "read"),
            Route("GET", f"{_CONVERSATION}/messages", MISTRAL, conversations.messages, "read"),
        )
