"""The server: what it has, and the app that answers each request by the table of addresses (`routes`)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
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
from ronda.drive import ModelState, Provider, Tool
from ronda.drive.offload import load
from ronda.errors import BadConfig, RondaError
from ronda.files.blobs import Blobs, FolderBlobs, MemoryBlobs
from ronda.files.file_store import FileLimits, FileStore
from ronda.files.skill_store import SkillStore
from ronda.host.log import Logs
from ronda.host.supervisor import Sleep, Supervisor
from ronda.journal import Journal
from ronda.providers import open_provider
from ronda.server.answering.answer import Answering, MakeWriter
from ronda.server.answering.groups import open_group
from ronda.server.answering.opening import Job, Opening
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import CHAT
from ronda.server.doors.mistral.agents import StoredAgents
from ronda.server.doors.own.files import keep_files_tidy
from ronda.server.features.contract import Feature, Refused, Services
from ronda.server.features.running import Features, add_tables, reason_of, with_headers
from ronda.server.features.table import doors, wanted
from ronda.server.http.auth import Auth, Caller, KeyAuth, Unauthorized
from ronda.server.http.body_memory import BodyMemory
from ronda.server.http.browser_guard import BrowserGuard, refusal, refused_socket, refused_upgrade
from ronda.server.http.failure import BROKE_DOWN, STOPPING, ErrorWriter, error_answer, failure_of
from ronda.server.http.incoming import NO_PLACES, Header, Headers, Incoming, Json
from ronda.server.http.open_requests import OpenRequest, OpenRequests
from ronda.server.http.rights import check_door, check_right, use_rights
from ronda.server.http.routing import WEBSOCKET, Route, Routes, unmatched
from ronda.server.services.admission import find_named
from ronda.server.services.answers import Answers
from ronda.server.services.background import Background
from ronda.server.services.callers import Callers
from ronda.server.services.container_host import ContainerHost
from ronda.server.services.dispatch import Dispatch
from ronda.server.services.marks import RunMarks
from ronda.server.services.models import Models
from ronda.server.services.other_processes import OtherProcesses
from ronda.server.services.recovery import Recovery
from ronda.server.services.reopening import Reopener
from ronda.server.services.runs import Runs
from ronda.server.services.session_folders import SessionFolders
from ronda.server.services.toolbox import Toolbox
from ronda.server.services.tools_file import load_tools
from ronda.server.services.whole_sessions import WholeSessions
from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog
from ronda.store.reserve import Reserve, is_full
from ronda.store.sessions import Bounds
from ronda.wire.capabilities import Capability
from ronda.wire.door_request import DoorRequest
from ronda.wire.failures import Failure

if TYPE_CHECKING:
    from ronda.server.features.code.code_tools import CodeTools
    from ronda.server.services.supplies import Supplier
    from ronda.store.reach import Reach
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
        features: Sequence[type[Feature]] | None = None,  # None: those that the settings ask for
        sleep: Sleep = asyncio.sleep,  # before a task beside requests, or a run, is tried again
    ) -> None:
        self.config = config
        self.supervisor = Supervisor(sleep)
        self.open_requests = OpenRequests()
        self.data_folder = data_folder
        self.reserve = None if data_folder is None else Reserve(data_folder)
        self.body_memory = BodyMemory(config.max_body_memory)
        self.catalog: Catalog = catalog or MemoryCatalog()
        self.others = OtherProcesses()
        self.features = Features()  # filled at the end: what is made before holds it
        self.callers = Callers(auth or KeyAuth(self.catalog.keys), self.features, self.others)
        self._open_files(blobs)
        loaded = load_tools(config.tools)
        self._open_runs(
            journal,
            loaded.guardrails if guardrails is None else guardrails,
            loaded.compaction if compaction is None else compaction,
        )
        self._open_models(provider)
        callbacks = {**(tool_callbacks or {}), **loaded.callbacks}
        dispatch = Dispatch.of(config)
        self.toolbox = Toolbox(
            [*tools, *loaded.tools], callbacks, dispatch, capabilities, self.features, config.max_offered_tools
        )
        self._open_agents()
        self._open_answering()
        names = {*[tool.spec.name for tool in (*tools, *loaded.tools, *dispatch.own)], *callbacks}
        given = {"mcp": mcp, "search_callback": search_callback, "open_code": open_code}
        self._open_features(wanted(config, given) if features is None else features, frozenset(names), given)

    def _open_files(self, blobs: Blobs | None) -> None:
        config = self.config
        self.files = FileStore(self.catalog.files, blobs or MemoryBlobs(), FileLimits(config.max_upload))
        self._skill_files = self.files
        if config.skills_dir is not None:
            self._skill_files = FileStore(self.catalog.files, FolderBlobs(config.skills_dir), self.files.limits)
        self.skills = SkillStore(self.catalog.skills, self._skill_files)
        self.containers = ContainerHost(self.catalog.containers, self.files, self._folders)

    def _open_runs(self, journal: Journal, guardrails: AnyGuardrails | None, compaction: AnyCompaction | None) -> None:
        config = self.config
        self.runs = Runs(
            journal,
            self.catalog.claims,
            config.approval_timeout,
            read_guardrails(guardrails),
            read_summarizer(compaction),
            sessions=self.catalog.sessions,
            bounds=Bounds(
                config.session_max_days * 86400,
                config.session_max_count,
                config.session_max_bytes,
                config.session_max_count_per_owner,
                config.session_max_bytes_per_owner,
            ),
            max_queue=config.max_session_queue,
            queue=self.catalog.queue,
            logs=Logs(config.keep_previews, config.keep_previews_bytes),
            sleep=self.supervisor.sleep,
        )
        self.runs.files = self.files
        self.runs.approved_tools = self.catalog.approved_tools
        self.run_marks = self.runs.marks = RunMarks(self.catalog, self.files, self.clock)
        self.runs.long_results = lambda: self.long_results

    def _open_models(self, provider: Provider | None) -> None:
        config = self.config
        missing: str | None = None
        if provider is None:
            where = where_is(
                config.model,
                config.base_url,
                timeouts=config.timeouts,
                version=config.api_version,
                vision=config.vision,
                transport=config.transport,
            )
            where = msgspec.structs.replace(where, slots=config.slots, context=config.context)
            provider = open_provider(config.model, where)
            missing = missing_key(config.model, where)
        self.models = Models(config.model, provider, config.aliases)
        self.models.missing_key = missing
        self.runs.host.model = ModelState(provider)
        self.stored_agents = StoredAgents(self.catalog.agents, self.models)
        self.models.add(self.stored_agents)

    @property
    def mcp(self) -> ServersPerLoop | None:
        """The operator's MCP servers, if there are any."""
        servers = sys.modules.get("ronda.tools.mcp.servers")  # imported by whoever has some
        found: ServersPerLoop | None = None if servers is None else self.features.provided(servers.ServersPerLoop)
        return found

    def _open_agents(self) -> None:
        config = self.config
        self.agent_files: AgentFiles | None = None
        if config.agents is not None:
            from ronda.server.services.agent_files import AgentFiles  # and with it all of Prompty

            self.agent_files = AgentFiles(config.agents, self.toolbox, config.agent_tools, config.transport)
            self.models.add(self.agent_files)

    def _open_answering(self) -> None:
        config, runs, catalog = self.config, self.runs, self.catalog
        reopener = self.reopener = Reopener(
            runs, self.models, self.toolbox, self.features, self.supplier, self.agent_files, config.agent_tools
        )
        self.recovery = Recovery(runs, reopener, catalog.queue, self.supervisor)
        runs.left_waiting = self.recovery.expire_later
        runs.host.left_child = self.recovery.recover_soon
        self.background = Background(config, catalog.queue, runs, reopener, self.recovery, self.supervisor, self.others)
        self.sessions = WholeSessions(runs, catalog, self.containers, self._folders)
        self.opening = Opening(
            lambda: self.config,
            runs,
            self.models,
            self.toolbox,
            self.features,
            self.supplier,
            self._folders,
            self.containers,
            catalog.approved_tools,
            self.run_marks,
            lambda: self.long_results,
        )
        answers = Answers(runs, reopener, self.recovery.over)
        self.answering = Answering(
            config, self.opening, runs, self.background, answers, self.others, self.recovery.broke_down
        )
        if config.agents is not None or config.agent_tools:
            from ronda.server.answering.agent_tools import AgentTools, NamedAgents  # at the start: it is slow to import

            rounds, _ = config.rounds_for(None)
            agents = AgentTools(self.agent_files, self.stored_agents, self.opening, self.toolbox, self.features, rounds)
            self.toolbox.agents_for = partial(NamedAgents, agents)

    def _open_features(
        self, classes: Sequence[type[Feature]], tool_names: frozenset[str], given: Mapping[str, Any]
    ) -> None:
        add_tables(classes, self.catalog)
        services = Services(
            answer=self._answer,
            answering=self.answering,
            open_group=partial(open_group, self.opening),
            broke_down=self.recovery.broke_down,
            catalog=self.catalog,
            files=self.files,
            runs=self.runs,
            models=self.models,
            toolbox=self.toolbox,
            skills=self.skills,
            containers=self.containers,
            sessions=self.sessions,
            supplier=self.supplier,
            callers=self.callers,
            supervisor=self.supervisor,
            clock=self.clock,
            auth=self.callers.auth,
            open_requests=self.open_requests,
            figures=self.features.figures,
            feature_names=lambda: [one.name for one in self.features.all],
            settings=lambda: self.config,
            reopen=self.features.reopen,
            provided=self.features.provided,
            core_needs=self.features.others,
            agent_files=self.agent_files,
            mcp=lambda: self.mcp,
            data_folder=self.data_folder,
            tool_names=tool_names,
            given=given,
        )
        self.features.fill([feature(self.config, services) for feature in (*doors(), *classes)])
        self.runs.host.extensions = self.features.extensions
        self.toolbox.add_capabilities(self.features.capabilities())
        if self.mcp is not None:
            self.toolbox.servers_here = self.mcp.here
        for feature in self.features.all:
            for source in feature.targets():
                self.models.add(source)

    async def _answer(
        self, request: Incoming, asked: DoorRequest, make_writer: MakeWriter, write_error: ErrorWriter
    ) -> ASGIApp:
        target = await self.models.find(asked.model, request.owner)
        return await self.answering.answer(request, Job(asked, target), make_writer, write_error)

    @property
    def code(self) -> SessionFolders | None:
        """What runs code here, if anything does."""
        return self._folders()

    def _folders(self) -> SessionFolders | None:
        found: SessionFolders | None = self.features.provided(SessionFolders)
        return found

    @cached_property
    def _supplier(self) -> Supplier:
        from ronda.server.services.supplies import Supplier  # most requests bring neither files nor skills

        return Supplier(self.files, self.skills, self.containers, self._documents, self._folders)

    def supplier(self) -> Supplier:
        return self._supplier

    @property
    def auth(self) -> Auth:
        """What knows whose a request is that no feature knows."""
        return self.callers.auth

    def clock(self) -> float:
        """The time by which leases of the queue end: that of all who share it."""
        return self.runs.clock()

    @cached_property
    def long_results(self) -> LongResultFiles:
        """Keeps what tools answer at too great a length: opened for the first such answer."""
        from ronda.tools.files.long_result import LongResultFiles

        return LongResultFiles(self.files, self.config.max_result_chars or None)

    @cached_property
    def _documents(self) -> Documents:
        """Extracts the text of documents, in a sandbox: opened for the first that somebody sends."""
        from ronda.tools.files.documents import Documents

        return Documents(self.config.sandbox, self.config.code_exec_python or sys.executable, os.environ)

    def open(self) -> None:
        """Begin with what takes time: requests wait for it, the start of the server does not. Runs that nobody drives go on, and
        what is kept is tidied up, until it is closed."""
        keep = self.supervisor.keep
        keep("the recovery of runs", self.recovery.recover_all)
        keep("the tidying of files", partial(keep_files_tidy, self.files.sweep))
        if self.reserve is not None:
            keep("the reserve of room", self.reserve.keep)
        keep("the tidying of containers", partial(keep_files_tidy, self.containers.sweep))
        if self._skill_files is not self.files:
            keep("the tidying of skills", partial(keep_files_tidy, self._skill_files.sweep))
        self.features.begin()
        if self.others.replicas is not None:
            self.others.replicas.open()
        self.features.keep_chores(self.supervisor, self.catalog.claims)

    async def start(self) -> None:
        """What must be done before the first request. Raises BadConfig with what keeps the server from starting: by then all
        that was open is closed."""
        try:
            await self.features.start()
            self.background.start()
        except BaseException:
            await self.stop(0.0)  # recovery may have begun with runs: another process has them at once
            await self.close()
            raise

    async def stop(self, seconds: float) -> None:
        """End what is under way, within `seconds` for those that somebody waits for, and let them be told."""
        if self.others.replicas is not None:
            self.others.replicas.end_within(seconds + STORE_SECONDS)
        draining = asyncio.ensure_future(self.features.drain(seconds))
        await self.runs.stop(seconds)
        await self.features.runs_ended()
        await draining

    async def close(self) -> None:
        self.recovery.close()
        if self.others.replicas is not None:
            self.others.replicas.close()
            self.others.replicas.end_within(CLOSE_SECONDS)
        await self.supervisor.close()
        await self.runs.stop()
        problems = [await _problem_of(self.background.close()), await _problem_of(self.runs.close())]
        await self.features.stop()
        if (
            shared := sys.modules.get("ronda.tools.mcp.shared_connections")
        ) is not None:  # servers that agents' files name
            await shared.close_shared()
        problems.append(await _problem_of(self.catalog.close()))
        # One line for all of them: that of the journal, if it has one, says the most.
        if found := sorted([one for one in problems if one is not None], key=lambda one: one.is_logged):
            log.error("%s", found[0])

    async def elsewhere(self, incoming: Incoming, prefix: str) -> ASGIApp | None:
        """Whoever answers a request about a run that another process drives; None if there is none. An address may have the name
        that the run's owner has given it: from here on it has the run's id."""
        run = prefix + incoming.places["id"].removeprefix("resp_").partition("-")[0]
        if (named := await find_named(self.runs, incoming.owner, run)) is not None:
            name, id = run.removeprefix(prefix), named.removeprefix(prefix)
            incoming.places = {**incoming.places, "id": incoming.places["id"].replace(name, id, 1)}
            run = named
        if self.others.peers is None or run in self.runs.live:
            return None
        return await self.others.peers.answer(incoming, run, self.config.max_body)


async def _problem_of(closing: Awaitable[None]) -> StoreError | None:
    try:
        await closing
    except StoreError as error:
        return error
    return None


def create_app(server: Server) -> App:
    return App(server)


class App:
    """Whatever happens behind an address, the client gets an answer in its dialect."""

    def __init__(self, server: Server, routes: Routes | None = None) -> None:
        """`routes` stand in the place of those that the server's features bring."""
        self._server = server
        self._callers = server.callers
        self._others = server.others
        self.routes = server.features.routes(CHAT) if routes is None else routes
        self.open_guard()

    def open_guard(self) -> None:
        config, let_in = self._server.config, partial(self, is_let_in=True)
        self._guard = BrowserGuard(let_in, self._refused_page, config.host, config.allow_origins, config.allow_hosts)

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, is_let_in: bool = False, caller: Caller | None = None
    ) -> None:
        """`is_let_in`: the browser guard has looked at it. `caller` is of a letter from another process; nothing that comes over
        HTTP can set it."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
            return
        server = self._server
        request = Incoming(scope, receive, NO_PLACES, "", server.body_memory)
        if not is_let_in and caller is None and (other := self._guard.instead(scope, request.headers)) is not None:
            await other(scope, receive, send)
            return
        watches = server.features.watches
        began = time.monotonic() if watches else 0.0
        method = scope["method"] if kind == "http" else WEBSOCKET
        found = self.routes.find(method, scope["path"])
        if not isinstance(found, tuple):
            await load(*self.routes.dialect_of(scope["path"]).loads)
            answer: ASGIApp = self._nothing_there(scope, found, request.headers)
            if watches:
                route = unmatched(method, self.routes.dialect_of(scope["path"]))
                server.features.report_request(request, route)
                answer = server.features.report_answer(request, route, answer, began)
        else:
            route, request.places = found
            request.route = route
            if watches:
                request.is_letter = caller is not None
                server.features.report_request(request, route)
            if route.loads or route.dialect.loads:
                await load(*route.dialect.loads, *route.loads)
            headers: Sequence[Header] = ()
            opened: OpenRequest | None = None
            try:
                if caller is not None:
                    await self._callers.sign_in_letter(request, caller)
                else:
                    if route.scope != "public":
                        await self._callers.sign_in(request)
                    if server.features.admitting:
                        headers = await server.features.admit(request, route)
                use_rights(request.rights)
                if request.key:
                    opened = server.open_requests.add(request.key, scope, send)
                if request.rights is not None and route.scope != "public":
                    check_door(request.rights, route)
                if route.right is not None:
                    check_right(request, route.right)
                if route.capability is not None:
                    server.toolbox.check_capability(route.capability)
                if (reach := self._others.reach) is not None and route.needs_store:
                    answer = await self._answer_within(reach, route, request)
                else:
                    elsewhere = None if route.of_run is None else await server.elsewhere(request, route.of_run)
                    if elsewhere is not None:
                        answer = elsewhere
                    elif route.method == "DELETE":
                        answer = await self._delete(route, request)
                    else:
                        answer = await route.handler(request)
            except Unauthorized as error:
                answer = error_answer(failure_of(error), route.dialect.error_for(request.headers), _NEEDS_KEY)
            except Refused as error:
                answer = error_answer(failure_of(error), route.dialect.error_for(request.headers), error.headers)
            except RondaError as error:
                answer = error_answer(failure_of(error), route.dialect.error_for(request.headers))
            except asyncio.CancelledError:
                if not self._server.runs.stopping:
                    raise
                answer = error_answer(STOPPING, route.dialect.error_for(request.headers))
            except Exception as error:  # ours: told as such, with the rest in the log
                log.error("%s broke down", scope["path"], exc_info=error)
                answer = error_answer(BROKE_DOWN, route.dialect.error_for(request.headers))
            finally:
                if opened is not None:  # nothing waits from here to where the answer is sent
                    server.open_requests.remove(opened)
            if headers:
                answer = with_headers(answer, headers)
            if kind == "websocket" and isinstance(answer, Json):
                answer = refused_upgrade(answer)
            if watches:
                answer = server.features.report_answer(request, route, answer, began)
        if isinstance(answer, Json) and answer.send_at_once(send):
            return
        opened = server.open_requests.add(request.key, scope, send) if request.key else None
        try:
            await answer(scope, receive, send)
        except asyncio.CancelledError:
            if not self._server.runs.stopping:  # else it is one who does not read, and has had time enough to
                raise
        finally:
            if opened is not None:
                server.open_requests.remove(opened)

    async def _delete(self, route: Route, request: Incoming) -> ASGIApp:
        """On a disk that is full there is room for it, too: what the server holds in reserve is given up for it."""
        server = self._server
        try:
            return await route.handler(request)
        except StoreError as error:
            reserve = server.reserve
            if reserve is None or not is_full(error) or not await asyncio.to_thread(reserve.give_up):
                raise
            log.error("the disk is full; what is held in reserve is given up, so that something can be deleted")
            return await route.handler(request)

    async def _answer_within(self, reach: Reach, route: Route, request: Incoming) -> ASGIApp:
        """The answer of a server whose database may be away. A request that only reads is given up then; of one that changes
        something nobody would know what became of it."""
        reach.check()
        reads = route.method == "GET"
        if route.of_run is not None:
            finding = self._server.elsewhere(request, route.of_run)
            if (elsewhere := await (reach.wait_for(finding) if reads else finding)) is not None:
                return elsewhere
        answering = route.handler(request)
        return await (reach.wait_for(answering) if reads else answering)

    def _nothing_there(self, scope: Scope, failure: Failure, sent: Headers) -> ASGIApp:
        path: str = scope["path"]
        if scope["type"] == "websocket":
            return refused_socket
        allowed = self.routes.allowed(path)
        headers = ((b"allow", ", ".join(allowed).encode()),) if failure.status == 405 else ()
        return error_answer(failure, self.routes.dialect_of(path).error_for(sent), headers)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._server.open()
            await self._server.start()
        except Exception as error:  # of ours, too: what serves the app goes on without a start that only raises
            problem = str(error) if isinstance(error, BadConfig) else f"the server could not start: {reason_of(error)}"
            await send({"type": "lifespan.startup.failed", "message": problem})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._server.close()
        await send({"type": "lifespan.shutdown.complete"})

    def error_writer(self, path: str) -> ErrorWriter:
        return self.routes.dialect_of(path).error

    async def _refused_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        await load(*self.routes.dialect_of(scope["path"]).loads)
        await error_answer(refusal(scope), self.error_writer(scope["path"]))(scope, receive, send)
