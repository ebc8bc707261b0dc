"""The server: routes, and what the doors behind them share. The doors themselves are in files of their own."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.agent import where_is
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.drive import Provider, Tool
from ronda.errors import RondaError
from ronda.journal import Journal
from ronda.providers import open_provider
from ronda.providers.fan import Fan, ManyProvider
from ronda.server.agent_files import AgentFiles
from ronda.server.chat import chat_completions, chat_error
from ronda.server.config import ServerConfig
from ronda.server.exchange import Incoming
from ronda.server.failure import BROKE_DOWN, ErrorWriter, failure_of, said
from ronda.server.messages import count_tokens, messages, messages_error
from ronda.server.mistral.agents import StoredAgents
from ronda.server.mistral.completions import agent_completions
from ronda.server.mistral.endpoint import mistral_error
from ronda.server.mistral.routes import mistral_routes
from ronda.server.models import Models, Served
from ronda.server.pages import Pages, refusal
from ronda.server.responses.create import Responses, compact_response, count_input, create_response, responses_error
from ronda.server.responses.stored import responses_routes
from ronda.server.responses.websocket import responses_socket
from ronda.server.runs import Runs
from ronda.server.toolbox import Toolbox, load_tools
from ronda.server.transcripts import check_transcript
from ronda.store import StoreError
from ronda.store.agents import Agents
from ronda.store.catalog import MEMORY, Catalog
from ronda.store.conversations import Conversations
from ronda.wire.failures import Failure

log = logging.getLogger("ronda.server")


class Server:
    """What a running server has: configuration, models, tools, and the runs under way."""

    def __init__(
        self,
        config: ServerConfig,
        journal: Journal,
        *,
        provider: Provider | None = None,
        tools: Sequence[Tool] = (),
        tool_callbacks: Mapping[str, Callable[..., Any]] | None = None,
        catalog: str = MEMORY,  # the file that keeps what clients make
    ) -> None:
        self.config = config
        self.runs = Runs(journal)
        self.responses = Responses()
        if provider is None:
            where = where_is(config.model, config.base_url, None, config.timeouts, config.api_version, config.vision)
            where = msgspec.structs.replace(where, slots=config.slots, context=config.context)
            provider = open_provider(config.model, where)
        self.models = Models(config.model, provider, config.aliases)
        self.catalog = Catalog(catalog)
        self.agents = Agents(self.catalog)
        self.conversations = Conversations(self.catalog)
        self.conversing: set[tuple[str, str]] = set()  # conversations that are being answered in: whose, and which
        self.models.add(StoredAgents(self.agents, self.models))
        self.agent_files: AgentFiles | None = None
        all_tools = list(tools)
        callbacks = dict(tool_callbacks or {})
        for path in config.tools:
            found, named = load_tools(path)
            all_tools += found
            callbacks |= named
        self.toolbox = Toolbox(all_tools, callbacks, config.tool_dispatch_url, config.tool_dispatch_timeout)
        if config.agents is not None:
            self.agent_files = AgentFiles(config.agents, self.toolbox)
            self.models.add(self.agent_files)

    def providers_for(self, served: Served, plan: Plan, n: int) -> Sequence[Provider]:
        """One provider per choice. Where each choice is one model call, and the upstream can, one call serves them all."""
        if n > 1 and not plan.runs_tools and isinstance(served.provider, ManyProvider):
            return Fan(served.provider, n).choices()
        return [served.provider] * n

    def report(self, error: BaseException, run: Run) -> None:
        """Something of ours broke. The client is told that much; the log has the rest."""
        if isinstance(error, StoreError):  # a disk that is full is no riddle
            log.error("run %s broke down: %s", run.id, error)
            error.is_logged = True
        else:
            log.error("run %s broke down", run.id, exc_info=error)


class Door(NamedTuple):
    """One endpoint of a dialect: what answers, and how the dialect says that something went wrong."""

    answer: Callable[[Server, Incoming], Awaitable[ASGIApp]]
    error: ErrorWriter


# POSTs that start runs: the busy ones, which stand in front of the framework.
DOORS = {
    "/v1/chat/completions": Door(chat_completions, chat_error),
    "/v1/responses": Door(create_response, responses_error),
    "/v1/responses/compact": Door(compact_response, responses_error),
    "/v1/responses/input_tokens": Door(count_input, responses_error),
    "/v1/messages": Door(messages, messages_error),
    "/v1/messages/count_tokens": Door(count_tokens, messages_error),
    "/v1/agents/completions": Door(agent_completions, mistral_error),
    "/v1/transcripts/check": Door(check_transcript, chat_error),
}

# Connections that are upgraded, and who takes them.
SOCKETS = {
    "/v1/responses": responses_socket,
}

# Which dialect an address belongs to, for errors of everything else. The first that fits.
DIALECTS: list[tuple[str, ErrorWriter]] = [
    ("/v1/responses", responses_error),
    ("/v1/messages", messages_error),
    ("/v1/agents", mistral_error),
    ("/v1/conversations", mistral_error),
    ("/", chat_error),
]


def create_app(server: Server) -> ASGIApp:
    """The doors in front, everything else behind them."""
    doors, config = FrontDoors(server, DOORS, _everything_else(server)), server.config
    return Pages(doors, _refused_page, config.host, config.allow_origins, config.allow_hosts)


class FrontDoors:
    """Whatever happens in a door, the client gets an answer in its dialect."""

    def __init__(self, server: Server, doors: Mapping[str, Door], rest: ASGIApp) -> None:
        self._server = server
        self._doors = doors
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door = self._doors.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if door is None:
            if scope["type"] == "websocket" and (socket := SOCKETS.get(scope["path"])) is not None:
                await socket(self._server, scope, receive, send)
            else:
                await self._rest(scope, receive, send)
            return
        try:
            answer = await door.answer(self._server, Incoming(scope, receive))
        except RondaError as error:
            answer = said(failure_of(error), door.error)
        except Exception as error:  # ours: told as such, with the rest in the log
            log.error("%s broke down", scope["path"], exc_info=error)
            answer = said(BROKE_DOWN, door.error)
        try:
            await answer(scope, receive, send)
        except asyncio.CancelledError:
            if not self._server.runs.stopping:  # else it is one who does not read, and has had time enough to
                raise


def _everything_else(server: Server) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await server.runs.close()
        server.catalog.close()

    async def models(request: Request) -> Response:
        broken = server.agent_files.problems() if server.agent_files is not None else {}
        listed = [_described(server, name, is_broken=name in broken) for name in server.models.listed]
        return _json(msgspec.json.encode({"object": "list", "data": listed}), 200)

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        server.models.find(name)
        return _json(msgspec.json.encode(_described(server, name)), 200)

    async def wrong_method(request: Request) -> Response:
        raise HTTPException(405)

    return Starlette(
        routes=[
            *[Route(path, wrong_method, methods=["GET", "PUT", "DELETE", "PATCH"]) for path in DOORS],
            *responses_routes(server),
            *mistral_routes(server),
            Route("/v1/models", models, methods=["GET"]),
            Route("/v1/models/{name:path}", model, methods=["GET"]),
            Route("/health", _health, methods=["GET"]),
            Route("/", _health, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, RondaError: _ronda_error, Exception: _broken},
        lifespan=lifespan,
    )


async def _health(request: Request) -> Response:
    return PlainTextResponse("OK")


def _described(server: Server, name: str, *, is_broken: bool = False) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "local",
        "status": "broken" if is_broken else "loaded",
        "tools_available": bool(server.toolbox.names),
    }


def _json(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")


# ---- errors, in the shape clients of the address's dialect read --------------------------------------------------------


def _said(request: Request, failure: Failure) -> Response:
    return _json(error_writer(request.url.path)(failure), failure.status)


def error_writer(path: str) -> ErrorWriter:
    return next(write for prefix, write in DIALECTS if path.startswith(prefix))


async def _refused_page(scope: Scope, receive: Receive, send: Send) -> None:
    await said(refusal(scope), error_writer(scope["path"]))(scope, receive, send)


async def _ronda_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RondaError)
    return _said(request, failure_of(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    method, path, takes = request.method, request.url.path, ""
    match error.status_code:
        case 404:
            # A client whose base address lacks the /v1, or has it twice, is the commonest way to get here.
            close = difflib.get_close_matches(
                path[:100], (*DOORS, "/v1/models", "/v1/agents", "/v1/conversations"), 1, 0.7
            )
            message = f"there is nothing at {method} {path}" + (f"; did you mean {close[0]}?" if close else "")
        case 405:
            allowed = {"Allow": "POST"} if path in DOORS else error.headers or {}
            takes = ", ".join(sorted(allowed.get("Allow", "").split(", ")))
            message = f"{path} does not take {method}" + (f"; it takes {takes}" if takes else "")
        case _:
            message = str(error.detail)
    answer = _said(request, Failure(error.status_code, "invalid_request_error", message))
    if error.status_code == 405 and takes:
        answer.headers["Allow"] = takes
    return answer


async def _broken(request: Request, error: Exception) -> Response:
    return _said(request, BROKE_DOWN)
