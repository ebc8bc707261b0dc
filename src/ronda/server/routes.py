"""The table of addresses: who answers where, in which dialect, and what a key must be good for.

The app, its 404 and 405 texts and the compatibility page are made from it.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.doors.chat import CHAT_ANSWERS, chat_completions, chat_error
from ronda.server.doors.mcp.route import mcp
from ronda.server.doors.messages_route import MESSAGE_ANSWERS, count_tokens, messages, messages_error
from ronda.server.doors.mistral import agents, conversations
from ronda.server.doors.mistral.completions import COMPLETION_ANSWERS, agent_completions
from ronda.server.doors.mistral.endpoint import mistral_error
from ronda.server.doors.own import (
    approvals,
    containers,
    file_links,
    files,
    listing,
    readiness,
    run_lists,
    runs,
    sessions,
    skills,
    transcripts,
)
from ronda.server.doors.own.run_start import start_runs
from ronda.server.doors.page import route as page
from ronda.server.doors.responses import create, stored_responses
from ronda.server.doors.responses.websocket import responses_socket
from ronda.server.http.routing import WEBSOCKET, Dialect, Route, Routes

# What is slow to import, and not needed by most servers.
_MCP: Final = ("ronda.tools.mcp.servers", "ronda.server.doors.mcp.door", "anyio._backends._asyncio")

CHAT: Final = Dialect("OpenAI Chat Completions", chat_error, door="chat")
RESPONSES: Final = Dialect("OpenAI Responses", create.responses_error, door="responses")
MESSAGES: Final = Dialect("Anthropic Messages", messages_error, ("ronda.server.doors.messages",), door="messages")
MISTRAL: Final = Dialect("Mistral Agents", mistral_error, door="mistral")
FILES: Final = Dialect("Files", chat_error, anthropic_error=messages_error, door="files")
SKILLS: Final = Dialect("Skills", chat_error, anthropic_error=messages_error, door="skills")
OWN: Final = Dialect("Ronda", chat_error)
MODELS: Final = structs.replace(CHAT, door="")  # clients of every API ask for the list
MCP: Final = structs.replace(OWN, door="mcp")

_RESPONSE = "/v1/responses/{id}"
_AGENT = "/v1/agents/{agent_id}"
_RUN = "/v1/runs/{id}"
_FILE = "/v1/files/{id}"
_CONTAINER = "/v1/containers/{id}"
_CONTAINER_FILE = _CONTAINER + "/files/{file_id}"
_SKILL = "/v1/skills/{id}"
_SKILL_VERSION = _SKILL + "/versions/{version}"
_SESSION = "/v1/sessions/{id:path}"
_CONVERSATION = "/v1/conversations/{conversation_id}"


def _answers(dialect: Dialect, door: AnswerDoor) -> tuple[Route, ...]:
    """Answers that outlive their requests."""
    path = f"{door.path}/{door.prefix}" + "{id}"
    return (
        Route("GET", path, dialect, door.retrieve, "read", of_run="run_"),
        Route("DELETE", path, dialect, door.delete, "write", of_run="run_"),
        Route("POST", f"{path}/cancel", dialect, door.cancel, "write", of_run="run_"),
    )


ROUTES: Final = Routes(
    [
        Route("POST", "/v1/chat/completions", CHAT, chat_completions, "run"),
        *_answers(CHAT, CHAT_ANSWERS),
        Route("GET", "/v1/models", MODELS, listing.list_models, "read"),
        Route("GET", "/v1/models/{name:path}", MODELS, listing.get_model, "read"),
        Route("POST", "/v1/responses", RESPONSES, create.create_response, "run"),
        Route(WEBSOCKET, "/v1/responses", RESPONSES, responses_socket, "run"),
        Route("POST", "/v1/responses/compact", RESPONSES, create.compact_response, "run"),
        Route("POST", "/v1/responses/input_tokens", RESPONSES, create.count_input, "run"),
        Route("GET", _RESPONSE, RESPONSES, stored_responses.retrieve, "read", of_run="run_"),
        Route("DELETE", _RESPONSE, RESPONSES, stored_responses.delete, "write", of_run="run_"),
        Route("POST", f"{_RESPONSE}/cancel", RESPONSES, stored_responses.cancel, "write", of_run="run_"),
        Route("GET", f"{_RESPONSE}/input_items", RESPONSES, stored_responses.list_input, "read", of_run="run_"),
        Route("POST", "/v1/messages", MESSAGES, messages, "run"),
        *_answers(MESSAGES, MESSAGE_ANSWERS),
        Route("POST", "/v1/messages/count_tokens", MESSAGES, count_tokens, "run"),
        Route("POST", "/v1/agents/completions", MISTRAL, agent_completions, "run"),
        *_answers(MISTRAL, COMPLETION_ANSWERS),
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
        Route("POST", "/v1/files", FILES, files.upload, "write"),
        Route("GET", "/v1/files", FILES, files.list_files, "read"),
        Route("GET", _FILE, FILES, files.get, "read"),
        Route("DELETE", _FILE, FILES, files.delete, "write"),
        Route("GET", f"{_FILE}/content", FILES, files.content, "read"),
        Route("GET", f"{_FILE}/url", FILES, file_links.create, "read"),
        Route("GET", "/v1/file-links/{token}", FILES, file_links.content, "public"),
        Route("POST", "/v1/containers", FILES, containers.create, "write"),
        Route("GET", "/v1/containers", FILES, containers.list_containers, "read"),
        Route("GET", _CONTAINER, FILES, containers.get, "read"),
        Route("DELETE", _CONTAINER, FILES, containers.delete, "write"),
        Route("POST", f"{_CONTAINER}/files", FILES, containers.create_file, "write"),
        Route("GET", f"{_CONTAINER}/files", FILES, containers.list_files, "read"),
        Route("GET", _CONTAINER_FILE, FILES, containers.get_file, "read"),
        Route("DELETE", _CONTAINER_FILE, FILES, containers.delete_file, "write"),
        Route("GET", f"{_CONTAINER_FILE}/content", FILES, containers.file_content, "read"),
        Route("POST", "/v1/skills", SKILLS, skills.create, "write"),
        Route("GET", "/v1/skills", SKILLS, skills.list_skills, "read"),
        Route("GET", _SKILL, SKILLS, skills.get, "read"),
        Route("POST", _SKILL, SKILLS, skills.update, "write"),
        Route("DELETE", _SKILL, SKILLS, skills.delete, "write"),
        Route("GET", f"{_SKILL}/content", SKILLS, skills.content, "read"),
        Route("POST", f"{_SKILL}/versions", SKILLS, skills.create_version, "write"),
        Route("GET", f"{_SKILL}/versions", SKILLS, skills.list_versions, "read"),
        Route("GET", _SKILL_VERSION, SKILLS, skills.get_version, "read"),
        Route("DELETE", _SKILL_VERSION, SKILLS, skills.delete_version, "write"),
        Route("GET", f"{_SKILL_VERSION}/content", SKILLS, skills.version_content, "read"),
        Route("POST", "/v1/runs", OWN, start_runs, "run"),
        Route("GET", "/v1/agent/approvals", OWN, approvals.list_approvals, "read"),
        Route("POST", "/v1/agent/approvals/{id}", OWN, approvals.decide, "write"),
        Route("GET", "/v1/runs", OWN, run_lists.list_runs, "read"),
        Route("GET", "/v1/runs/summary", OWN, run_lists.summarize_runs, "read"),
        Route("GET", _RUN, OWN, runs.get_run, "read", of_run=""),
        Route("GET", f"{_RUN}/events", OWN, runs.follow_run, "read", of_run=""),
        Route("GET", _RUN + "/rounds/{round}/request", OWN, transcripts.get_request, "read", of_run=""),
        Route("GET", f"{_RUN}/cassette", OWN, runs.get_cassette, "read", of_run=""),
        Route("POST", f"{_RUN}/cancel", OWN, runs.cancel_run, "write", of_run=""),
        Route("POST", f"{_RUN}/steer", OWN, runs.steer_run, "write", of_run=""),
        Route("POST", f"{_RUN}/answer", OWN, runs.answer_run, "write", of_run=""),
        Route("GET", "/v1/sessions", OWN, sessions.list_sessions, "read"),
        Route("POST", f"{_SESSION}/fork", OWN, sessions.fork_session, "write"),
        Route("GET", _SESSION, OWN, sessions.get_session, "read"),
        Route("PUT", _SESSION, OWN, sessions.put_session, "write"),
        Route("PATCH", _SESSION, OWN, sessions.patch_session, "write"),
        Route("DELETE", _SESSION, OWN, sessions.delete_session, "write"),
        *[Route(method, "/mcp", MCP, mcp, "run", loads=_MCP) for method in ("POST", "GET", "DELETE")],
        Route("GET", "/v1/mcp", OWN, listing.list_mcp_servers, "read"),
        Route("POST", "/v1/render", OWN, transcripts.render, "run"),
        Route("POST", "/v1/transcripts/check", OWN, transcripts.check_transcript, "read"),
        Route("GET", "/health", OWN, readiness.health, "public", needs_store=False),
        Route("GET", "/ready", OWN, readiness.ready, "public", needs_store=False),
        Route("GET", "/", OWN, page.front, "public", needs_store=False),
        Route("GET", "/ui", OWN, page.page, "public", needs_store=False),
        Route("GET", "/ui/frame", OWN, page.frame, "public", needs_store=False),
        Route("GET", "/ui/server", OWN, page.describe, "read"),
        Route("GET", "/ui/{path:path}", OWN, page.page, "public", needs_store=False),
    ],
    default=CHAT,
)
