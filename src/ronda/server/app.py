"""The server: routes, and what the doors behind them share. The doors themselves are in files of their own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

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
from ronda.errors import BadRequest, RondaError
from ronda.journal import Journal
from ronda.providers import open_provider
from ronda.providers.fan import Fan, ManyProvider
from ronda.server.chat import chat_completions
from ronda.server.config import ServerConfig
from ronda.server.exchange import Incoming, Json
from ronda.server.models import Models, ServedModel
from ronda.server.runs import Runs
from ronda.server.toolbox import Toolbox, load_tools
from ronda.wire.openai_chat.answer import write_error

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
    ) -> None:
        self.config = config
        self.runs = Runs(journal)
        if provider is None:
            provider = open_provider(config.model, where_is(config.model, config.base_url, timeouts=config.timeouts))
        self.models = Models(ServedModel(config.model, provider))
        all_tools = list(tools)
        callbacks = dict(tool_callbacks or {})
        for path in config.tools:
            found, named = load_tools(path)
            all_tools += found
            callbacks |= named
        self.toolbox = Toolbox(all_tools, callbacks, config.tool_dispatch_url, config.tool_dispatch_timeout)

    def providers_for(self, served: ServedModel, plan: Plan, n: int) -> Sequence[Provider]:
        """One provider per choice. Where each choice is one model call, and the upstream can, one call serves them all."""
        if n > 1 and not plan.runs_tools and isinstance(served.provider, ManyProvider):
            return Fan(served.provider, n).choices()
        return [served.provider] * n

    def report(self, error: BaseException, run: Run) -> None:
        """Something of ours broke. The client is told that much; the log has the rest."""
        log.error("run %s broke down", run.id, exc_info=error)


def create_app(server: Server) -> ASGIApp:
    """The doors in front, everything else behind them."""
    return FrontDoors(server, {"/v1/chat/completions": chat_completions}, _everything_else(server))


Door = Callable[[Server, Incoming], Awaitable[ASGIApp]]


class FrontDoors:
    """POSTs to the dialects' endpoints. Whatever happens in one, the client gets an answer in its dialect."""

    def __init__(self, server: Server, doors: Mapping[str, Door], rest: ASGIApp) -> None:
        self._server = server
        self._doors = doors
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door = self._doors.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if door is None:
            await self._rest(scope, receive, send)
            return
        try:
            answer = await door(self._server, Incoming(scope, receive))
        except RondaError as error:
            answer = _error(error)
        except Exception as error:  # ours: told as such, with the rest in the log
            log.error("%s broke down", scope["path"], exc_info=error)
            answer = Json(write_error("the server broke down on this request; its log says why", "server_error"), 500)
        await answer(scope, receive, send)


def _everything_else(server: Server) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await server.runs.close()

    async def models(request: Request) -> Response:
        listed = [_described(server, name) for name in server.models.listed]
        return _json(msgspec.json.encode({"object": "list", "data": listed}), 200)

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        server.models.find(name)
        return _json(msgspec.json.encode(_described(server, name)), 200)

    async def wrong_method(request: Request) -> Response:
        raise HTTPException(405)

    return Starlette(
        routes=[
            Route("/v1/chat/completions", wrong_method, methods=["GET", "PUT", "DELETE", "PATCH"]),
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


def _described(server: Server, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "local",
        "status": "loaded",
        "tools_available": bool(server.toolbox.names),
    }


def _json(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")


# ---- errors, in the shape clients of this dialect read -----------------------------------------------------------------


def _error(error: RondaError) -> Json:
    if isinstance(error, BadRequest):
        return Json(write_error(str(error), "invalid_request_error", error.param, error.code), error.status_hint)
    return Json(write_error(str(error), "server_error"), error.status_hint)


async def _ronda_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return _json(write_error(str(error), "invalid_request_error", error.param, error.code), error.status_hint)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {
        404: f"there is nothing at {request.method} {request.url.path}",
        405: f"{request.url.path} does not take {request.method}",
    }.get(error.status_code, str(error.detail))
    return _json(write_error(message, "invalid_request_error"), error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    return _json(write_error("the server broke down on this request; its log says why", "server_error"), 500)
