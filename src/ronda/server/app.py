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


def create_app(server: Server) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await server.runs.close()

    return Starlette(
        routes=[
            Route("/v1/chat/completions", _door(server, chat_completions), methods=["POST"]),
            Route("/v1/models", _door(server, _models), methods=["GET"]),
            Route("/v1/models/{name:path}", _door(server, _model), methods=["GET"]),
            Route("/health", _health, methods=["GET"]),
            Route("/", _health, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, RondaError: _ronda_error, Exception: _broken},
        lifespan=lifespan,
    )


Door = Callable[[Server, Request], Awaitable[Response]]


def _door(server: Server, door: Door) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            return await door(server, request)
        except RondaError as error:
            return await _ronda_error(request, error)

    return handle


async def _health(request: Request) -> Response:
    return PlainTextResponse("OK")


async def _models(server: Server, request: Request) -> Response:
    listed = [_described(server, name) for name in server.models.listed]
    return _json(msgspec.json.encode({"object": "list", "data": listed}), 200)


async def _model(server: Server, request: Request) -> Response:
    name = request.path_params["name"]
    server.models.find(name)
    return _json(msgspec.json.encode(_described(server, name)), 200)


def _described(server: Server, name: str) -> dict[str, Any]:
    tools = server.toolbox.names
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "local",
        "status": "loaded",
        "tools_available": bool(tools),
    }


def _json(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")


# ---- errors, in the shape clients of this dialect read -----------------------------------------------------------------


async def _ronda_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RondaError)
    if isinstance(error, BadRequest):
        return _json(write_error(str(error), "invalid_request_error", error.param, error.code), error.status_hint)
    return _json(write_error(str(error), "server_error"), error.status_hint)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {
        404: f"there is nothing at {request.method} {request.url.path}",
        405: f"{request.url.path} does not take {request.method}",
    }.get(error.status_code, str(error.detail))
    return _json(write_error(message, "invalid_request_error"), error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    return _json(write_error("the server broke down on this request; its log says why", "server_error"), 500)
