"""The server: what it has, put together. This is the composition root, and knows no feature by name: what is optional is a list
(`features.table`). `request_app` answers each request."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.types import ASGIApp

from ronda.agent import where_is
from ronda.agent.compaction import AnyCompaction, read_summarizer
from ronda.agent.value import missing_key
from ronda.core.guardrails import AnyGuardrails, read_guardrails
from ronda.drive import ModelState, Provider, Tool
from ronda.files.blobs import Blobs, MemoryBlobs
from ronda.files.file_store import FileLimits, FileStore
from ronda.files.skill_store import SkillStore
from ronda.host.log import Logs
from ronda.host.supervisor import Sleep, Supervisor
from ronda.journal import Journal
from ronda.providers import open_provider
from ronda.server.answering.exchange import Answering, MakeWriter
from ronda.server.answering.opening import Job, Opening
from ronda.server.answering.setups import Setups
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Folders, Services
from ronda.server.features.running import Features, add_tables, prepare_features, rewriter_of
from ronda.server.features.table import doors, wanted
from ronda.server.http.auth import Auth, KeyAuth
from ronda.server.http.body_memory import BodyMemory
from ronda.server.http.failure import ErrorWriter
from ronda.server.http.incoming import Incoming
from ronda.server.http.open_requests import OpenRequests
from ronda.server.request_app import App as App
from ronda.server.services.agents import AgentFolder
from ronda.server.services.answers import Answers
from ronda.server.services.background import Background
from ronda.server.services.callers import Callers
from ronda.server.services.container_host import ContainerHost
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
from ronda.store.reserve import Reserve
from ronda.store.values.sessions import Bounds
from ronda.wire.shared.capabilities import Capability
from ronda.wire.shared.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.services.supplies import Supplier
    from ronda.tools.files.documents import Documents
    from ronda.tools.files.long_result import LongResultFiles

log = logging.getLogger("ronda.server")

# Until a server that ends waits no longer for its database: since its runs were to have ended, and since it closes.
STORE_SECONDS: Final = 1.6
CLOSE_SECONDS: Final = 1.0


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
        catalog: Catalog | None = None,  # keeps what clients make; None forgets it with this object
        auth: Auth | None = None,
        guardrails: AnyGuardrails | None = None,
        compaction: AnyCompaction | None = None,
        blobs: Blobs | None = None,  # keeps the bytes of files; None forgets them with this object
        data_folder: Path | None = None,  # for what is kept in files of its own; None forgets it with this object
        features: Sequence[type[Feature]] | None = None,  # None: those that the settings ask for
        given: Mapping[str, Any] = MappingProxyType({}),  # to features, by their names: see `Feature.prepare`
        sleep: Sleep = asyncio.sleep,  # before a task next to requests, or a run, is tried again
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
        classes = wanted(config, given) if features is None else features
        journal = self._rewriting(journal, rewriter_of(classes, config))
        loaded = load_tools(config.tools)
        self._open_runs(
            journal,
            loaded.guardrails if guardrails is None else guardrails,
            loaded.compaction if compaction is None else compaction,
        )
        self._open_models(provider)
        callbacks = {**(tool_callbacks or {}), **loaded.callbacks}
        self.toolbox = Toolbox(
            [*tools, *loaded.tools], callbacks, capabilities, self.features, config.max_offered_tools
        )
        self._open_answering()
        self._open_features(classes, given)

    def _rewriting(self, journal: Journal, rewrite: Callable[[str], str] | None) -> Journal:
        """What is kept of runs, sessions and conversations is rewritten by features, where some do."""
        self._rewrite = rewrite
        if rewrite is None:
            return journal
        from ronda.journal.redacting import RedactedSession, redacted_conversation, redacting

        self.catalog.sessions.rewrite = RedactedSession(rewrite)
        self.catalog.conversations.rewrite = partial(redacted_conversation, redact=rewrite)
        return redacting(journal, rewrite)

    def _open_files(self, blobs: Blobs | None) -> None:
        config = self.config
        self.files = FileStore(self.catalog.files, blobs or MemoryBlobs(), FileLimits(config.max_upload))
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
        self.runs.marks = RunMarks(self.catalog, self.files, self.clock)
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

    def _open_answering(self) -> None:
        config, runs, catalog = self.config, self.runs, self.catalog
        reopener = self.reopener = Reopener(
            runs,
            self.models,
            self.toolbox,
            self.features,
            self.supplier,
            partial(self.features.provided, AgentFolder),
        )
        self.recovery = Recovery(runs, reopener, catalog.queue, self.supervisor)
        runs.left_waiting = self.recovery.expire_later
        runs.host.left_child = self.recovery.recover_soon
        self.background = Background(config, catalog.queue, runs, reopener, self.recovery, self.supervisor, self.others)
        self.sessions = WholeSessions(runs, catalog, self.containers, self._folders)
        setups = Setups(lambda: self.config, runs, self.models, self.toolbox, self.features, self.supplier)
        self.opening = Opening(setups, runs, self.models, self.features, self.containers)
        answers = Answers(runs, reopener, self.recovery.over)
        self.answering = Answering(self.opening, self.background, answers, self.others, self.recovery.broke_down)

    def _open_features(self, classes: Sequence[type[Feature]], given: Mapping[str, Any]) -> None:
        given = prepare_features(classes, self.config, Folders(self.data_folder), given)
        add_tables(classes, self.catalog)
        services = Services(
            answer=self._answer,
            answering=self.answering,
            catalog=self.catalog,
            files=self.files,
            runs=self.runs,
            models=self.models,
            toolbox=self.toolbox,
            containers=self.containers,
            sessions=self.sessions,
            supplier=self.supplier,
            callers=self.callers,
            supervisor=self.supervisor,
            clock=self.clock,
            auth=self.callers.auth,
            open_requests=self.open_requests,
            figures=self.features.figures,
            doctor=self.features.doctor,
            operations=self.features.operations,
            routes=lambda: [row for feature in self.features.all for row in feature.routes()],
            feature_names=lambda: [one.name for one in self.features.all],
            settings=lambda: self.config,
            reopen=self.features.reopen,
            provided=self.features.provided,
            core_needs=self.features.others,
            data_folder=self.data_folder,
            tool_names=lambda: {*self.toolbox.operator_names, *self.features.standing_names()},
            given=given,
        )
        self.features.make((*doors(), *classes), lambda feature: feature(self.config, services))
        self.runs.host.extensions = self.features.extensions
        self.toolbox.add_capabilities(self.features.capabilities())
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

        skills: SkillStore = self.features.provided(SkillStore)
        return Supplier(self.files, skills, self.containers, self._documents, self._folders)

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

        return LongResultFiles(self.files, self.config.max_result_chars or None, self._rewrite)

    @cached_property
    def _documents(self) -> Documents:
        """Extracts the text of documents, in a sandbox: opened for the first that comes."""
        from ronda.tools.files.documents import Documents

        folders = self._folders()
        return Documents(self.config.sandbox, sys.executable if folders is None else folders.python, os.environ)

    def open(self) -> None:
        """Begin with what takes time: requests wait for it, the start of the server does not. Runs that no process drives are
        resumed, and what is kept is tidied up, until it is closed."""
        keep = self.supervisor.keep
        keep("the recovery of runs", self.recovery.recover_all)
        if self.reserve is not None:
            keep("the reserve of room", self.reserve.keep)
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
        """End what is under way, within `seconds` for those that a client waits for, and let them be told."""
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
        await self.reopener.close()
        problems.append(await _problem_of(self.catalog.close()))
        # One line for all of them: that of the journal, if it has one, says the most.
        if found := sorted([one for one in problems if one is not None], key=lambda one: one.is_logged):
            log.error("%s", found[0])


async def _problem_of(closing: Awaitable[None]) -> StoreError | None:
    try:
        await closing
    except StoreError as error:
        return error
    return None


def create_app(server: Server) -> App:
    return App(server)
