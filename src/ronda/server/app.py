"""The server: what it has, and the app that answers each request by the table of addresses (`routes`)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.agent import where_is
from ronda.agent.compaction import AnyCompaction, read_summarizer
from ronda.agent.value import missing_key
from ronda.core.guardrails import AnyGuardrails, read_guardrails
from ronda.core.limits import Limits
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.drive import Provider, Tool, capabilities_of
from ronda.drive.contracts import takes_any
from ronda.errors import RondaError
from ronda.files.blobs import Blobs, FolderBlobs, MemoryBlobs
from ronda.files.file_store import FileLimits, FileStore
from ronda.files.skill_store import SkillStore
from ronda.host.log import Logs
from ronda.journal import Journal, JournalConflict
from ronda.providers import open_provider
from ronda.providers.shared_call import SharedCall
from ronda.server.api.files import keep_files_tidy
from ronda.server.config import ServerConfig
from ronda.server.detached.background import Background
from ronda.server.detached.peers import Peers
from ronda.server.detached.recovery import expire_later, recover_runs
from ronda.server.doors.mistral.agents import StoredAgents
from ronda.server.doors.responses.create import Responses
from ronda.server.http.auth import Auth, KeyAuth, Unauthorized
from ronda.server.http.body_memory import BodyMemory
from ronda.server.http.browser_guard import BrowserGuard, refusal, refused_socket, refused_upgrade
from ronda.server.http.failure import BROKE_DOWN, STOPPING, ErrorWriter, error_answer, failure_of
from ronda.server.http.incoming import NO_PLACES, Header, Incoming, Json
from ronda.server.http.routing import WEBSOCKET, Routes
from ronda.server.resources.container_host import ContainerHost
from ronda.server.resources.dispatch import Dispatch
from ronda.server.resources.models import Models, Target
from ronda.server.resources.toolbox import Toolbox
from ronda.server.resources.tools_file import load_tools
from ronda.server.routes import ROUTES
from ronda.server.runs import Runs
from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog
from ronda.store.sessions import Bounds
from ronda.wire.capabilities import Capability, Need
from ronda.wire.failures import Failure

if TYPE_CHECKING:
    from ronda.prompty.registry import AgentNames
    from ronda.server.detached.replicas import Replicas
    from ronda.server.doors.app_stream.state import AppStream
    from ronda.server.exchange.opening import Setup
    from ronda.server.resources.code_tools import CodeTools
    from ronda.server.resources.named_servers import NamedServers
    from ronda.server.resources.web_search import WebSearch
    from ronda.tools.files.documents import Documents
    from ronda.tools.files.long_result import LongResultFiles
    from ronda.tools.mcp.config import McpServer
    from ronda.tools.mcp.servers import ServersPerLoop
    from ronda.tools.search.settings import SearchCallback

log = logging.getLogger("ronda.server")

# Until a server that ends waits no longer for its database: since its runs were to have ended, and since it closes.
STORE_SECONDS: Final = 1.6
CLOSE_SECONDS: Final = 1.0

_NEEDS_KEY: Final[tuple[Header, ...]] = ((b"www-authenticate", b"Bearer"),)


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
        capabilities: Mapping[Capability, Sequence[Tool]] | None = None,
        search_callback: SearchCallback | None = None,  # what is searched with, if search is switched on
        catalog: Catalog | None = None,  # keeps what clients make; None forgets it with this object
        auth: Auth | None = None,
        guardrails: AnyGuardrails | None = None,
        compaction: AnyCompaction | None = None,
        blobs: Blobs | None = None,  # keeps the bytes of files; None forgets them with this object
        open_code: Callable[[FileStore], CodeTools] | None = None,  # what runs code, if anything does
        mcp: Sequence[McpServer] = (),
        data_folder: Path | None = None,  # for what is kept in files of its own; None forgets it with this object
    ) -> None:
        self.config = config
        self.data_folder = data_folder
        self.body_memory = BodyMemory(config.max_body_memory)
        # What requests get that are usual, by whether they are streamed; kept where nothing else has a say in it.
        self.usual_setups: dict[bool, Setup] = {}
        self._limits: dict[tuple[int, bool], Limits] = {}  # by the rounds that are allowed, and whether runs are stored
        self.catalog: Catalog = catalog or MemoryCatalog()
        self._open_files(blobs, open_code)
        self.auth: Auth = auth or KeyAuth(self.catalog.keys)
        loaded = load_tools(config.tools)
        self._open_runs(
            journal,
            loaded.guardrails if guardrails is None else guardrails,
            loaded.compaction if compaction is None else compaction,
        )
        self._upkeep: list[asyncio.Task[None]] = []
        self.tasks: set[asyncio.Task[None]] = set()  # so that nobody else need know them
        self.background = Background(self)
        self.peers: Peers | Replicas | None = None  # others who share the data folder, or the database …
        self.replicas: Replicas | None = None  # … the latter
        self.responses = Responses(self.catalog)
        self._open_models(provider)
        self.agent_files: AgentFiles | None = None
        callbacks = {**(tool_callbacks or {}), **loaded.callbacks}
        dispatch = Dispatch.of(config)
        self._open_mcp(mcp, {*[tool.spec.name for tool in (*tools, *loaded.tools, *dispatch.own)], *callbacks})
        self.toolbox = Toolbox(
            [*tools, *loaded.tools],
            callbacks,
            dispatch,
            {**({} if self.code is None else self.code.capabilities), **(capabilities or {})},
            _web_search(config, search_callback),
            self.mcp,
            config.max_offered_tools,
        )
        if config.agents is not None:
            from ronda.server.resources.agent_files import AgentFiles  # and with it all of Prompty

            self.agent_files = AgentFiles(config.agents, self.toolbox, config.agent_tools)
            self.models.add(self.agent_files)
        if config.agents is not None or config.agent_tools:
            self.toolbox.agents_for = self._agents_for

    def _open_files(self, blobs: Blobs | None, open_code: Callable[[FileStore], CodeTools] | None) -> None:
        config = self.config
        self.files = FileStore(self.catalog.files, blobs or MemoryBlobs(), FileLimits(config.max_upload))
        self._skill_files = self.files
        if config.skills_dir is not None:
            self._skill_files = FileStore(self.catalog.files, FolderBlobs(config.skills_dir), self.files.limits)
        self.skills = SkillStore(self.catalog.skills, self._skill_files)
        self.code = None if open_code is None else open_code(self.files)
        self.containers = ContainerHost(self.catalog.containers, self.files, self.code)

    def _open_runs(self, journal: Journal, guardrails: AnyGuardrails | None, compaction: AnyCompaction | None) -> None:
        config = self.config
        self.runs = Runs(
            journal,
            self.catalog.claims,
            config.approval_timeout,
            read_guardrails(guardrails),
            read_summarizer(compaction),
            sessions=self.catalog.sessions,
            bounds=Bounds(config.session_max_days * 86400, config.session_max_count, config.session_max_bytes),
            max_queue=config.max_session_queue,
            queue=self.catalog.queue,
            logs=Logs(config.keep_previews, config.keep_previews_bytes),
        )
        self.runs.files = self.files
        self.runs.approved_tools = self.catalog.approved_tools
        self.runs.long_results = lambda: self.long_results
        self.runs.left_waiting = partial(expire_later, self)

    def _open_models(self, provider: Provider | None) -> None:
        config = self.config
        self.missing_key: str | None = None  # the variable that the model's would be in
        if provider is None:
            where = where_is(config.model, config.base_url, None, config.timeouts, config.api_version, config.vision)
            where = msgspec.structs.replace(where, slots=config.slots, context=config.context)
            provider = open_provider(config.model, where)
            self.missing_key = missing_key(config.model, where)
        self.models = Models(config.model, provider, config.aliases)
        self.stored_agents = StoredAgents(self.catalog.agents, self.models)
        self.models.add(self.stored_agents)

    def _open_mcp(self, mcp: Sequence[McpServer], names: set[str]) -> None:
        """`names` are those of the tools that the server has beside."""
        config = self.config
        self.mcp: ServersPerLoop | None = None
        if mcp:
            from ronda.tools.mcp.servers import ServersPerLoop  # for those alone who have such servers

            self.mcp = ServersPerLoop(mcp, names)
        # For requests that name a server: one at an address that is allowed, or one of these.
        self.named_servers: NamedServers | None = None
        if config.mcp_allow_url or mcp:
            from ronda.server.resources.named_servers import NamedServers
            from ronda.tools.mcp.servers import check_package

            check_package()
            self.named_servers = NamedServers(config.mcp_allow_url, config.fetch_allow, self.mcp)

    def _agents_for(self, owner: str) -> AgentNames:
        from ronda.server.exchange.agent_tools import NamedAgents  # for those alone who have such agents

        return NamedAgents(self, owner)

    @cached_property
    def app_stream(self) -> AppStream:
        """What /generate-code has, from the first time that somebody asks for it."""
        from ronda.server.doors.app_stream.state import AppStream

        return AppStream(self)

    def clock(self) -> float:
        """The time by which leases of the queue end: that of all who share it."""
        return self.runs.clock()

    @cached_property
    def long_results(self) -> LongResultFiles:
        """Keeps what tools answer at too great a length: opened for the first such answer."""
        from ronda.tools.files.long_result import LongResultFiles

        return LongResultFiles(self.files, self.config.max_result_chars or None)

    @cached_property
    def documents(self) -> Documents:
        """Extracts the text of documents, in a sandbox: opened for the first that somebody sends."""
        from ronda.tools.files.documents import Documents

        return Documents(self.config.sandbox, self.config.code_exec_python or sys.executable, os.environ)

    def other_needs(self, needs: Sequence[Need]) -> Sequence[Need]:
        """Those that are no MCP servers which a request may name here."""
        return needs if self.named_servers is None or not needs else self.named_servers.others(needs)

    def open(self) -> None:
        """Begin with what takes time: requests wait for it, the start of the server does not. Runs that nobody drives go on, and
        what is kept is tidied up, until it is closed."""
        upkeep = [recover_runs(self), keep_files_tidy(self.files.sweep), keep_files_tidy(self.containers.sweep)]
        if self._skill_files is not self.files:
            upkeep.append(keep_files_tidy(self._skill_files.sweep))
        if self.code is not None:
            upkeep.append(self.code.keep_tidy())
        self._upkeep = [asyncio.create_task(one) for one in upkeep]
        if self.mcp is not None:
            self.mcp.here().open()
        if self.replicas is not None:
            self.replicas.open()

    async def stop(self, seconds: float) -> None:
        """End what is under way, within `seconds` for those that somebody waits for, and let them be told."""
        if self.replicas is not None:
            self.replicas.end_within(seconds + STORE_SECONDS)
        await self.runs.stop(seconds)
        if "app_stream" in self.__dict__:
            await self.app_stream.last_words()

    async def close(self) -> None:
        for task in self._upkeep:
            task.cancel()
        if self.replicas is not None:
            self.replicas.close()
            self.replicas.end_within(CLOSE_SECONDS)
        await self.runs.stop()
        problems = [await _problem_of(self.background.close()), await _problem_of(self.runs.close())]
        if self.code is not None:
            await self.code.close()
        if self.mcp is not None:
            await self.mcp.here().close()
        if (
            shared := sys.modules.get("ronda.tools.mcp.shared_connections")
        ) is not None:  # servers that agents' files name
            await shared.close_shared()
        if "app_stream" in self.__dict__:
            await self.app_stream.close()
        if (door := sys.modules.get("ronda.server.doors.mcp.door")) is not None:  # somebody has called it
            await door.close_door(self)
        problems.append(await _problem_of(self.catalog.close()))
        # One line for all of them: that of the journal, if it has one, says the most.
        if found := sorted([one for one in problems if one is not None], key=lambda one: one.is_logged):
            log.error("%s", found[0])

    @property
    def is_steady(self) -> bool:
        """Whether a request of the usual kind always gets the same: no tools that come and go, none of somebody's own, and no
        model that may say no."""
        if self.mcp is not None or self.code is not None or self.config.agent_tools or not self.toolbox.is_steady:
            return False
        return capabilities_of(self.models.default.provider).check is takes_any

    def providers_for(self, target: Target, plan: Plan, n: int) -> Sequence[Provider]:
        """One provider per choice. Where each choice is one model call, and the upstream can, one call serves them all."""
        if n > 1 and not plan.runs_tools and (call_many := capabilities_of(target.provider).call_many) is not None:
            return SharedCall(call_many, n).choices()
        return [target.provider] * n

    def limits_for(self, rounds: int, tool_calls: int | None, *, is_stored: bool) -> Limits:
        """Nearly all runs have the same."""
        known = self._limits.get((rounds, is_stored))
        if known is None:
            config = self.config
            known = self._limits[rounds, is_stored] = Limits(
                rounds,
                seconds=config.max_run_seconds,
                repeats=config.max_identical_calls,
                answer_bytes=config.max_answer_bytes,
                result_chars=config.max_result_chars or None,
                # Nobody can find a run that is not stored in order to answer: what it asks is a no at once.
                approval_seconds=config.approval_seconds if is_stored else 0.0,
            )
        return known if tool_calls is None else msgspec.structs.replace(known, tool_calls=tool_calls)

    async def elsewhere(self, incoming: Incoming, prefix: str) -> ASGIApp | None:
        """Whoever answers a request about a run that another process drives; None if there is none."""
        run = prefix + incoming.places["id"].removeprefix("resp_").partition("-")[0]
        if self.peers is None or run in self.runs.live:
            return None
        return await self.peers.answer(incoming, run, self.config.max_body)

    def report(self, error: BaseException, run: Run) -> None:
        """Something of ours broke. The client is told that much; the log has the rest."""
        if isinstance(error, StoreError):  # a disk that is full is no riddle
            if not error.is_logged:
                log.error("run %s broke down: %s", run.id, error)
            error.is_logged = True
        elif isinstance(error, JournalConflict):  # this process was frozen, or cut off from the database
            log.warning("run %s is driven by another process by now: %s", run.id, error)
        else:
            log.error("run %s broke down", run.id, exc_info=error)


async def _problem_of(closing: Awaitable[None]) -> StoreError | None:
    try:
        await closing
    except StoreError as error:
        return error
    return None


def _web_search(config: ServerConfig, callback: SearchCallback | None) -> WebSearch | None:
    if not (config.enable_search or config.agent or config.search or config.search_embedding_model or callback):
        return None  # without the time to import it
    from ronda.server.resources.web_search import open_web_search

    return open_web_search(config, callback)


def create_app(server: Server) -> ASGIApp:
    return App(server)


class App:
    """Whatever happens behind an address, the client gets an answer in its dialect."""

    def __init__(self, server: Server, routes: Routes = ROUTES) -> None:
        self._server = server
        self._routes = routes
        config, let_in = server.config, partial(self, is_let_in=True)
        self._guard = BrowserGuard(let_in, _refused_page, config.host, config.allow_origins, config.allow_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, is_let_in: bool = False) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
            return
        server = self._server
        request = Incoming(scope, receive, NO_PLACES, "", server.body_memory)
        if not is_let_in and (other := self._guard.instead(scope, request.headers)) is not None:
            await other(scope, receive, send)
            return
        found = self._routes.find(scope["method"] if kind == "http" else WEBSOCKET, scope["path"])
        if not isinstance(found, tuple):
            answer: ASGIApp = self._nothing_there(scope, found)
        else:
            route, request.places = found
            try:
                if route.scope != "public":
                    request.owner = await server.auth.owner(request.headers)
                if route.capability is not None:
                    server.toolbox.check_capability(route.capability)
                elsewhere = None if route.of_run is None else await server.elsewhere(request, route.of_run)
                answer = await route.handler(server, request) if elsewhere is None else elsewhere
            except Unauthorized as error:
                answer = error_answer(failure_of(error), route.dialect.error, _NEEDS_KEY)
            except RondaError as error:
                answer = error_answer(failure_of(error), route.dialect.error)
            except asyncio.CancelledError:
                if not self._server.runs.stopping:
                    raise
                answer = error_answer(STOPPING, route.dialect.error)
            except Exception as error:  # ours: told as such, with the rest in the log
                log.error("%s broke down", scope["path"], exc_info=error)
                answer = error_answer(BROKE_DOWN, route.dialect.error)
            if kind == "websocket" and isinstance(answer, Json):
                answer = refused_upgrade(answer)
        if isinstance(answer, Json) and answer.send_at_once(send):
            return
        try:
            await answer(scope, receive, send)
        except asyncio.CancelledError:
            if not self._server.runs.stopping:  # else it is one who does not read, and has had time enough to
                raise

    def _nothing_there(self, scope: Scope, failure: Failure) -> ASGIApp:
        path: str = scope["path"]
        if scope["type"] == "websocket":
            return refused_socket
        allowed = self._routes.allowed(path)
        headers = ((b"allow", ", ".join(allowed).encode()),) if failure.status == 405 else ()
        return error_answer(failure, self._routes.dialect_of(path).error, headers)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._server.open()
        self._server.background.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._server.close()
        await send({"type": "lifespan.shutdown.complete"})


def error_writer(path: str) -> ErrorWriter:
    return ROUTES.dialect_of(path).error


async def _refused_page(scope: Scope, receive: Receive, send: Send) -> None:
    await error_answer(refusal(scope), error_writer(scope["path"]))(scope, receive, send)
