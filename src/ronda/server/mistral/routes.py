"""The addresses of Mistral's API beside the doors that every request of a client goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from ronda.server.mistral import agents, conversations
from ronda.server.mistral.endpoint import Endpoint, Handler

if TYPE_CHECKING:
    from ronda.server.app import Server

_AGENT = "/v1/agents/{agent_id}"
_CONVERSATION = "/v1/conversations/{conversation_id}"

# Fixed words stand before what could be an id.
ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", "/v1/agents", agents.create),
    ("GET", "/v1/agents", agents.list_agents),
    ("GET", "/v1/agents/pages", agents.list_pages),
    ("GET", _AGENT, agents.get),
    ("PATCH", _AGENT, agents.update),
    ("DELETE", _AGENT, agents.delete),
    ("PATCH", f"{_AGENT}/version", agents.switch_version),
    ("GET", f"{_AGENT}/versions", agents.list_versions),
    ("GET", _AGENT + "/versions/{version}", agents.get_version),
    ("PUT", f"{_AGENT}/aliases", agents.set_alias),
    ("GET", f"{_AGENT}/aliases", agents.list_aliases),
    ("DELETE", f"{_AGENT}/aliases", agents.delete_alias),
    ("POST", "/v1/conversations", conversations.start),
    ("GET", "/v1/conversations", conversations.list_conversations),
    ("POST", _CONVERSATION, conversations.append),
    ("GET", _CONVERSATION, conversations.get),
    ("DELETE", _CONVERSATION, conversations.delete),
    ("POST", f"{_CONVERSATION}/restart", conversations.restart),
    ("GET", f"{_CONVERSATION}/history", conversations.history),
    ("GET", f"{_CONVERSATION}/messages", conversations.messages),
]


def mistral_routes(server: Server) -> list[Route]:
    return [Route(path, Endpoint(server, handler), methods=[method]) for method, path, handler in ROUTES]
