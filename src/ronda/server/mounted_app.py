"""A server as an app for another app: `create_app(…)`, mounted in Starlette or FastAPI, or given to any ASGI server.

    ronda = create_app("openai-chat:NAME", tools=[get_weather])
    app = Starlette(routes=[Mount("/ronda", ronda)], lifespan=ronda.lifespan)

The host of a mounted app sends it no lifespan events: Starlette runs only that of the outermost app. So `lifespan` is there
to be handed over, alone or inside the host's own; where none does, the server starts with its first request and ends with the
event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import Receive, Scope, Send

from ronda.agent.compaction import AnyCompaction
from ronda.agent.toolsets import AnyTool, split_tools
from ronda.agent.value import check_is_model, missing_key, where_is
from ronda.core.guardrails import AnyGuardrails
from ronda.drive import Provider
from ronda.errors import BadConfig
from ronda.journal import Journal
from ronda.sandbox.policy import read_policy
from ronda.server.app import App, Server
from ronda.server.check_config import check_config
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Folders
from ronda.server.features.running import prepare_features
from ronda.server.features.table import all_rows, make_config, unknown_setting, wanted
from ronda.server.http.auth import Auth
from ronda.server.http.browser_guard import is_loopback, refused_socket
from ronda.server.http.failure import error_answer, failure_of
from ronda.server.storage import join_replicas, open_blobs, open_catalog, open_journal, open_shared
from ronda.store import StoreError
from ronda.store.fork import disown_after_fork
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.tools.search.settings import SearchCallback

_ALWAYS_OPEN = ("/health", "/ready")  # for what watches over the host

log = logging.getLogger("ronda.server")

_NOT_STARTED = Failure(503, "server_error", "this server could not start; its log says why", code="not_started")
_NOT_OPEN = Failure(
    403,
    "invalid_request_error",
    "others than this machine can reach this server, and there are no API keys: its operator can make one with 'ronda keys "
    "create', give create_app an `auth`, or let everybody in with insecure=True",
    code="no_api_keys",
)


def create_app(
    model: str | Provider,
    *,
    tools: Sequence[str | os.PathLike[str] | AnyTool] = (),
    tool_callbacks: Mapping[str, Callable[..., Any]] | None = None,
    journal: Journal | None = None,
    auth: Auth | None = None,
    guardrails: AnyGuardrails | None = None,
    compaction: AnyCompaction | None = None,
    search_callback: SearchCallback | None = None,
    **settings: Any,
) -> MountedApp:
    """All doors of `ronda serve` as an ASGI app.

    Args:
        model: A spec such as `"openai-chat:NAME"`, or anything with a `call` (a `ScriptedModel`).
        tools: Functions, agents and other tools that every request has; or the paths of Python files with some.
        tool_callbacks: Name → function, for tools that a request declares.
        journal: Where runs are kept. Without one: in the folder `data_dir`, or in memory.
        auth: Whose a request is. Without one: the keys of `ronda keys`, in `data_dir`.
        guardrails: Look at every run.
        compaction: Sums up what `context_budget` cuts.
        search_callback: What is searched with, if `enable_search` is set.
        settings: The settings of `ronda serve`, under the names that a settings file has for them: `agents`, `data_dir`,
            `max_tool_rounds`, `allow_hosts`, `allow_origins`, …
    """
    check_is_model(model)
    config = _read_settings(model, [os.fspath(one) for one in tools if isinstance(one, str | os.PathLike)], settings)
    folder = None if config.data_dir in (None, ":memory:") else Path(str(config.data_dir))
    classes = wanted(config, asked := {} if search_callback is None else {"web": search_callback})
    given = prepare_features(classes, config, Folders(folder), asked)
    table, toolsets = split_tools([one for one in tools if not isinstance(one, str | os.PathLike)])
    if toolsets:
        raise BadConfig(
            "a server connects to its MCP servers itself: name them with mcp={NAME: {…}}, and not among the tools"
        )

    def make() -> Server:
        shared = open_shared(config) if journal is None else None
        server = Server(
            config,
            open_journal(folder, config, shared) if journal is None else journal,
            provider=None if isinstance(model, str) else model,
            tools=list(table.values()),
            tool_callbacks=tool_callbacks,
            catalog=open_catalog(folder, shared, config.queue, classes),
            blobs=open_blobs(folder, config.file_store),
            auth=auth,
            guardrails=guardrails,
            compaction=compaction,
            features=classes,
            given=given,
            data_folder=folder,
        )
        join_replicas(server, shared)
        return server

    return MountedApp(make, is_open=auth is not None or config.insecure)


def _read_settings(model: str | Provider, tool_files: Sequence[str], settings: dict[str, Any]) -> ServerConfig:
    """Raises BadConfig, also where the model needs a key and there is none."""
    spec = model if isinstance(model, str) else f"script:{type(model).__name__}"
    if isinstance(table := settings.get("sandbox"), Mapping):
        settings = {**settings, "sandbox": msgspec.to_builtins(read_policy(table))}
    named = settings.get("features", ())
    known = [row.name for row in all_rows(named if isinstance(named, list | tuple) else ())]
    for name in settings:
        if name not in known:
            raise unknown_setting(name, known, "docs/settings.md lists them")
    try:
        config = make_config({**settings, "model": spec, "tools": tool_files})
    except msgspec.ValidationError as error:
        raise BadConfig(f"the settings do not fit: {error}") from error
    check_config(config)
    if isinstance(model, str) and (key := missing_key(model, where_is(model, config.base_url))) is not None:
        raise BadConfig(f"{model} needs a key: set {key}, or give base_url=… of a server of your own")
    return config


class MountedApp:
    """An ASGI app that starts and ends its server itself where no host does."""

    def __init__(self, make: Callable[[], Server], *, is_open: bool) -> None:
        """`is_open`: others than this machine may ask, although there are no keys."""
        self._make = make
        self._is_open = is_open
        self._server = make()  # what cannot be is said now, and not with the first request
        self._app = App(self._server)
        self._loop: asyncio.AbstractEventLoop | None = None  # that it was started in
        self._keeper: AsyncGenerator[None, None] | None = None  # alive as long as the loop, if no host ends us
        self._is_closed = False
        self._starting: asyncio.Task[None] | None = None  # with a request, where no host starts us
        disown_after_fork(self)

    def disown(self) -> None:
        """A child opens everything again, when it starts."""
        self._is_closed, self._loop, self._keeper, self._starting = True, None, None, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._loop is not asyncio.get_running_loop() and not await self._has_started():
            await self._refuse(_NOT_STARTED, scope, receive, send)
            return
        if (root := scope.get("root_path", "")) and f"{scope['path']}/".startswith(f"{root}/"):
            scope = {**scope, "path": scope["path"][len(root) :] or "/"}
        refusal = None if self._is_open or _is_here(scope) else await self._refusal()
        if refusal is None or scope["path"] in _ALWAYS_OPEN:
            await self._app(scope, receive, send)
        else:
            await self._refuse(refusal, scope, receive, send)

    async def _refuse(self, refusal: Failure, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await refused_socket(scope, receive, send)
        else:
            await error_answer(refusal, self._app.error_writer(scope["path"]))(scope, receive, send)

    async def _refusal(self) -> Failure | None:
        """Why others than this machine may not ask."""
        server = self._server
        try:
            if server.others.reach is not None:
                server.others.reach.check()
            return None if await server.catalog.keys.all() else _NOT_OPEN
        except StoreError as error:
            return failure_of(error)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """For the host: `Starlette(…, lifespan=ronda.lifespan)`, or `async with ronda.lifespan():` inside its own."""
        await self._start()
        try:
            yield
        finally:
            await self._close()

    async def _live(self, receive: Receive, send: Send) -> None:
        """It is the outermost app."""
        await receive()
        try:
            await self._start()
        except BadConfig as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        try:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        finally:
            await self._close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        if self._is_closed:  # its loop has ended, and there is another
            self._server = self._make()
            self._app = App(self._server)
            self._is_closed = False
        self._server.open()
        try:
            await self._server.start()
        except BaseException:
            self._is_closed = True
            raise
        self._loop = asyncio.get_running_loop()

    async def _close(self) -> None:
        server, self._is_closed, self._loop = self._server, True, None
        await server.stop(server.config.shutdown_seconds)
        await server.close()

    async def _has_started(self) -> bool:
        """Start with the first request. All that come meanwhile wait for it; where it fails, the next request tries again."""
        loop = asyncio.get_running_loop()
        if self._starting is None or self._starting.get_loop() is not loop:
            self._starting = loop.create_task(self._start_with_the_loop())
        starting = self._starting
        try:
            await asyncio.shield(starting)  # a client that goes away does not end it for the others
        except BadConfig as error:
            if self._starting is starting:
                log.error("%s", error)
            return False
        finally:
            if starting.done() and self._starting is starting:
                self._starting = None
        return True

    async def _start_with_the_loop(self) -> None:
        if self._keeper is not None:  # of a loop that was closed without a word to its generators
            self._keeper, self._is_closed = None, True
        await self._start()
        self._keeper = self._until_the_loop_ends()
        await self._keeper.__anext__()

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        # An event loop closes the async generators it knows before it closes itself: the one hook every runner calls.
        try:
            yield
        finally:
            self._keeper = None
            await self._close()


def _is_here(scope: Scope) -> bool:
    """Whether the request came over an address that only this machine has; or over no network at all."""
    server = scope.get("server")
    return server is None or server[1] is None or is_loopback(server[0])
