"""The addresses that every server has, each group as a feature: doors are made with what they use, and stand in the table.

Their order in the table of features is the order of addresses, in which the compatibility page lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ronda.server.answering.page_runs import PageRuns
from ronda.server.answering.stored_answers import StoredAnswers
from ronda.server.doors import chat as chat_door
from ronda.server.doors.dialects import CHAT, FILES, MCP, MESSAGES, MISTRAL, MODELS, OWN, RESPONSES, SKILLS
from ronda.server.doors.mcp.route import McpParts, McpRoute
from ronda.server.doors.messages_route import MESSAGE_ANSWERS, MessagesRoute
from ronda.server.doors.mistral.agents import AgentsDoor
from ronda.server.doors.mistral.completions import COMPLETION_ANSWERS, CompletionsDoor
from ronda.server.doors.mistral.conversations import ConversationsDoor
from ronda.server.doors.mistral.handoffs import Handoffs
from ronda.server.doors.own.approvals import ApprovalsDoor
from ronda.server.doors.own.containers import ContainersDoor
from ronda.server.doors.own.events import EventsDoor
from ronda.server.doors.own.file_links import FileLinks
from ronda.server.doors.own.files import FilesDoor
from ronda.server.doors.own.listing import ListingDoor
from ronda.server.doors.own.readiness import Disk, ReadinessDoor
from ronda.server.doors.own.run_lists import RunLists
from ronda.server.doors.own.run_start import RunStart
from ronda.server.doors.own.runs import RunsDoor
from ronda.server.doors.own.sessions import SessionsDoor
from ronda.server.doors.own.skills import SkillsDoor
from ronda.server.doors.own.transcripts import TranscriptsDoor
from ronda.server.doors.page.route import PageDoor
from ronda.server.doors.responses.create import ResponsesDoor, Seals
from ronda.server.doors.responses.stored_responses import StoredResponses
from ronda.server.doors.responses.websocket import ResponsesSocket
from ronda.server.features.contract import Feature, Services
from ronda.server.http.routing import WEBSOCKET, Route
from ronda.server.services.feed import Feed
from ronda.server.services.hosted_tools import ServerNames

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.doors.messages import MessagesDoor

# What is slow to import, and not needed by most servers.
_MCP: Final = ("ronda.tools.mcp.servers", "ronda.server.doors.mcp.door", "anyio._backends._asyncio")

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


class Door(Feature):
    is_door = True


class Chat(Door):
    name = "chat"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self.door = chat_door.ChatDoor(services.answering, services.models, settings.max_body)
        self._stored = StoredAnswers(chat_door.CHAT_ANSWERS, services.runs, services.answering.background)

    def routes(self) -> Sequence[Route]:
        return (
            Route("POST", "/v1/chat/completions", CHAT, self.door.chat_completions, "run"),
            *self._stored.routes(CHAT),
        )


class Responses(Door):
    name = "responses"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        seals = Seals(services.catalog)
        answering, provided = services.answering, services.provided
        self._door = ResponsesDoor(
            answering, seals, services.models, services.toolbox, lambda: provided(ServerNames), services.settings
        )
        self._stored = StoredResponses(services.runs, answering.background, seals)
        self.socket = ResponsesSocket(self._door, self._stored, seals, services.runs, services.callers)

    def routes(self) -> Sequence[Route]:
        door, stored = self._door, self._stored
        return (
            Route("POST", "/v1/responses", RESPONSES, door.create_response, "run"),
            Route(WEBSOCKET, "/v1/responses", RESPONSES, self.socket.connect, "run"),
            Route("POST", "/v1/responses/compact", RESPONSES, door.compact_response, "run"),
            Route("POST", "/v1/responses/input_tokens", RESPONSES, door.count_input, "run"),
            Route("GET", _RESPONSE, RESPONSES, stored.retrieve, "read", of_run="run_"),
            Route("DELETE", _RESPONSE, RESPONSES, stored.delete, "write", of_run="run_"),
            Route("POST", f"{_RESPONSE}/cancel", RESPONSES, stored.cancel, "write", of_run="run_"),
            Route("GET", f"{_RESPONSE}/input_items", RESPONSES, stored.list_input, "read", of_run="run_"),
        )


class Messages(Door):
    name = "messages"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        answering, models, toolbox = services.answering, services.models, services.toolbox
        provided, current = services.provided, services.settings

        def make() -> MessagesDoor:
            from ronda.server.doors.messages import MessagesDoor  # the dialect is large, and most servers hear one

            return MessagesDoor(answering, models, toolbox, lambda: provided(ServerNames), current)

        self._door = MessagesRoute(make)
        self._stored = StoredAnswers(MESSAGE_ANSWERS, services.runs, answering.background)

    def routes(self) -> Sequence[Route]:
        return (
            Route("POST", "/v1/messages", MESSAGES, self._door.answer, "run"),
            *self._stored.routes(MESSAGES),
            Route("POST", "/v1/messages/count_tokens", MESSAGES, self._door.count_tokens, "run"),
        )


class Mistral(Door):
    """Agents, their completions, and conversations."""

    name = "mistral"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        answering, models, toolbox = services.answering, services.models, services.toolbox
        handoffs = Handoffs(answering.opening, services.runs, models, toolbox, services.settings)
        self._completions = CompletionsDoor(answering, models, handoffs, settings.max_body)
        self._stored = StoredAnswers(COMPLETION_ANSWERS, services.runs, answering.background)
        self._agents = AgentsDoor(services.catalog.agents, models, toolbox, services.core_needs, settings.max_body)
        self._conversations = ConversationsDoor(
            answering, models, handoffs, services.catalog, services.supervisor, settings.max_body
        )

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


class Files(Door):
    """Files, links to them, and containers."""

    name = "files"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._files = FilesDoor(services.files)
        self._links = FileLinks(services.files, services.catalog, services.callers)
        self._containers = ContainersDoor(
            services.containers, services.files, services.supplier, settings.sandbox, settings.max_body
        )

    def routes(self) -> Sequence[Route]:
        files, links, containers = self._files, self._links, self._containers
        return (
            Route("POST", "/v1/files", FILES, files.upload, "write"),
            Route("GET", "/v1/files", FILES, files.list_files, "read"),
            Route("GET", _FILE, FILES, files.get, "read"),
            Route("DELETE", _FILE, FILES, files.delete, "write"),
            Route("GET", f"{_FILE}/content", FILES, files.content, "read"),
            Route("GET", f"{_FILE}/url", FILES, links.create, "read"),
            Route("GET", "/v1/file-links/{token}", FILES, links.content, "public"),
            Route("POST", "/v1/containers", FILES, containers.create, "write"),
            Route("GET", "/v1/containers", FILES, containers.list_containers, "read"),
            Route("GET", _CONTAINER, FILES, containers.get, "read"),
            Route("DELETE", _CONTAINER, FILES, containers.delete, "write"),
            Route("POST", f"{_CONTAINER}/files", FILES, containers.create_file, "write"),
            Route("GET", f"{_CONTAINER}/files", FILES, containers.list_files, "read"),
            Route("GET", _CONTAINER_FILE, FILES, containers.get_file, "read"),
            Route("DELETE", _CONTAINER_FILE, FILES, containers.delete_file, "write"),
            Route("GET", f"{_CONTAINER_FILE}/content", FILES, containers.file_content, "read"),
        )


class Skills(Door):
    name = "skills"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._door = SkillsDoor(services.skills, settings.max_body)

    def routes(self) -> Sequence[Route]:
        door = self._door
        return (
            Route("POST", "/v1/skills", SKILLS, door.create, "write"),
            Route("GET", "/v1/skills", SKILLS, door.list_skills, "read"),
            Route("GET", _SKILL, SKILLS, door.get, "read"),
            Route("POST", _SKILL, SKILLS, door.update, "write"),
            Route("DELETE", _SKILL, SKILLS, door.delete, "write"),
            Route("GET", f"{_SKILL}/content", SKILLS, door.content, "read"),
            Route("POST", f"{_SKILL}/versions", SKILLS, door.create_version, "write"),
            Route("GET", f"{_SKILL}/versions", SKILLS, door.list_versions, "read"),
            Route("GET", _SKILL_VERSION, SKILLS, door.get_version, "read"),
            Route("DELETE", _SKILL_VERSION, SKILLS, door.delete_version, "write"),
            Route("GET", f"{_SKILL_VERSION}/content", SKILLS, door.version_content, "read"),
        )


class Own(Door):
    """Our own API: runs, what they ask people, sessions; this server as an MCP server; what it has, and how it fares."""

    name = "own"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        answering, runs, provided, most = services.answering, services.runs, services.provided, settings.max_body
        models, toolbox = services.models, services.toolbox
        self._start = RunStart(answering.opening, runs, models, answering.background, lambda: provided(PageRuns), most)
        self._approvals = ApprovalsDoor(runs, answering.answers, answering.others, services.catalog.audit, most)
        self._runs = RunsDoor(
            runs, services.catalog.queue, answering.answers, services.catalog.audit, lambda: provided(PageRuns), most
        )
        current = services.settings

        def make() -> MessagesDoor:
            from ronda.server.doors.messages import MessagesDoor

            return MessagesDoor(answering, models, toolbox, lambda: provided(ServerNames), current)

        self._transcripts = TranscriptsDoor(
            runs,
            models,
            toolbox,
            answering.opening,
            services.reopen,
            services.agent_files,
            MessagesRoute(make),
            ResponsesDoor(
                answering,
                Seals(services.catalog),
                models,
                toolbox,
                lambda: provided(ServerNames),
                current,
            ),
            most,
        )
        self._lists = RunLists(runs, services.catalog.queue)
        queue, sessions = services.catalog.queue, services.catalog.sessions
        self._feed = Feed(runs, queue, sessions, services.supervisor, answering.others)
        self._events = EventsDoor(runs, self._feed)
        self._sessions = SessionsDoor(services.sessions, runs, services.catalog, self._feed, most)
        self.mcp = McpRoute(
            McpParts(answering, models, services.catalog.agents, services.agent_files, most, services.supervisor.sleep)
        )
        self._listing = ListingDoor(models, toolbox, services.agent_files, services.mcp)
        disk = Disk(runs.journal, services.data_folder, settings.file_store)
        self.readiness = ReadinessDoor(runs, models, answering.others, disk)

    def routes(self) -> Sequence[Route]:
        runs, sessions = self._runs, self._sessions
        return (
            Route("POST", "/v1/runs", OWN, self._start.start_runs, "run"),
            Route("GET", "/v1/agent/approvals", OWN, self._approvals.list_approvals, "read"),
            Route("POST", "/v1/agent/approvals/{id}", OWN, self._approvals.decide, "write"),
            Route("GET", "/v1/runs", OWN, self._lists.list_runs, "read"),
            Route("GET", "/v1/events", OWN, self._events.follow_owner, "read"),
            Route("GET", "/v1/runs/summary", OWN, self._lists.summarize_runs, "read"),
            Route("GET", _RUN, OWN, runs.get_run, "read", of_run=""),
            Route("GET", f"{_RUN}/events", OWN, runs.follow_run, "read", of_run=""),
            Route("GET", _RUN + "/rounds/{round}/request", OWN, self._transcripts.get_request, "read", of_run=""),
            Route("GET", f"{_RUN}/cassette", OWN, runs.get_cassette, "read", of_run=""),
            Route("POST", f"{_RUN}/cancel", OWN, runs.cancel_run, "write", of_run=""),
            Route("POST", f"{_RUN}/steer", OWN, runs.steer_run, "write", of_run=""),
            Route("POST", f"{_RUN}/answer", OWN, runs.answer_run, "write", of_run=""),
            Route("GET", "/v1/sessions", OWN, sessions.list_sessions, "read"),
            Route("POST", f"{_SESSION}/fork", OWN, sessions.fork_session, "write"),
            Route("GET", f"{_SESSION}/approvals", OWN, sessions.list_approved, "read"),
            Route("DELETE", f"{_SESSION}/approvals", OWN, sessions.take_back_approved, "write"),
            Route("GET", _SESSION, OWN, sessions.get_session, "read"),
            Route("PUT", _SESSION, OWN, sessions.put_session, "write"),
            Route("PATCH", _SESSION, OWN, sessions.patch_session, "write"),
            Route("DELETE", _SESSION, OWN, sessions.delete_session, "write"),
            *[Route(method, "/mcp", MCP, self.mcp.answer, "run", loads=_MCP) for method in ("POST", "GET", "DELETE")],
            Route("GET", "/v1/models", MODELS, self._listing.list_models, "read"),
            Route("GET", "/v1/models/{name:path}", MODELS, self._listing.get_model, "read"),
            Route("GET", "/v1/tools", OWN, self._listing.list_tools, "read"),
            Route("GET", "/v1/mcp", OWN, self._listing.list_mcp_servers, "read"),
            Route("POST", "/v1/render", OWN, self._transcripts.render, "run"),
            Route("POST", "/v1/transcripts/check", OWN, self._transcripts.check_transcript, "read"),
            Route("GET", "/health", OWN, self.readiness.health, "public", needs_store=False),
            Route("GET", "/ready", OWN, self.readiness.ready, "public", needs_store=False),
        )

    async def drain(self, seconds: float) -> None:
        self._feed.close()

    async def stop(self) -> None:
        await self.mcp.close()


class Page(Door):
    name = "page"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._door = PageDoor(services.settings, services.catalog, services.toolbox, services.feature_names)

    def routes(self) -> Sequence[Route]:
        door = self._door
        return (
            Route("GET", "/", OWN, door.front, "public", needs_store=False),
            Route("GET", "/ui", OWN, door.page, "public", needs_store=False),
            Route("GET", "/ui/frame", OWN, door.frame, "public", needs_store=False),
            Route("GET", "/ui/server", OWN, door.describe, "read"),
            Route("GET", "/ui/{path:path}", OWN, door.page, "public", needs_store=False),
        )
