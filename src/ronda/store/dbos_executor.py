"""DBOS in this process: the workflow of a run has no steps, and a body that waits here for as long as the run is driven.

    runs wait in one queue of DBOS ──► `call` ──► the queue of this process ──► DBOS calls the body ──► `finish`
                                         ▲                                              │
                                         └── its process is gone: another calls ◄───────┘

Only the id of a run is handed to DBOS, as JSON: nothing that a client sent. Its tables are in a schema of their own. Whatever
waits for the database does so in threads, and DBOS has an event loop of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer
from dbos import error as dbos_errors
from sqlalchemy.exc import SQLAlchemyError

from ronda.store import RemoteStoreError, StoreError
from ronda.store.postgres import Database

APPLICATION: Final = "ronda"  # as DBOS lists it, and the queue in which runs wait
WORKFLOW: Final = "ronda_run"
# Pinned: DBOS leaves what another version began, and a body without steps is the same in all of them.
VERSION: Final = "1"

CALL_SECONDS: Final = 1.5  # in which a body is called, or is called later: leases of the queue are for 3
_POLL: Final = 0.1  # seconds between two looks at the queue of this process: DBOS gets no notice of new rows
_CONNECTIONS: Final = 5  # of DBOS, in one process
_TIDY_SECONDS: Final = 30.0
_KEEP_DAYS: Final = 7.0  # for which DBOS shows runs that are over; the journal has them for longer
_ACTIVE: Final = ["ENQUEUED", "PENDING", "DELAYED"]
_OVER: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_LONGEST_NAME: Final = 63  # bytes of a schema's

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Executor:
    """This process, as DBOS knows it: by a name that no other has, or they would take each other's runs."""

    def __init__(self, database: Database, process: int) -> None:
        self.name = f"{APPLICATION}-{process:x}"
        self.schema = database.name.encode()[: _LONGEST_NAME - 5].decode(errors="ignore") + "_dbos"
        self._database = database
        self._lock = threading.Lock()
        self._expected: dict[str, tuple[str, Future[None]]] = {}  # by run: whose worker's, and that it came
        self._bodies: dict[str, _Body] = {}
        self._closing = threading.Event()
        self._threads = ThreadPoolExecutor(2, "ronda-dbos")
        self._connections = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_pre_ping=True,
        )
        self.client = DBOSClient(
            system_database_engine=self._connections,
            dbos_system_schema=self.schema,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            lazy=True,
            retry_connection_errors=False,  # for ever, that is
        )
        try:
            # In a thread: where an event loop runs already, DBOS would make it its own.
            self._threads.submit(self._launch).result()
        except (SQLAlchemyError, dbos_errors.DBOSException, StoreError) as error:
            self._threads.shutdown(wait=False)
            self._connections.dispose()
            raise self._explain(error) from error
        self._tidying = threading.Thread(target=self._keep_tidy, name="ronda-dbos-tidy", daemon=True)
        self._tidying.start()

    def _launch(self) -> None:
        log = logging.getLogger("dbos")
        log.addHandler(logging.NullHandler())  # or it adds one that writes next to ours
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._connections,
            "dbos_system_schema": self.schema,
            "executor_id": self.name,
            "application_version": VERSION,
            "serializer": DBOSPortableJSONSerializer(),  # or it is pickle
            "log_level": "CRITICAL",  # what fails here is ours to say
            "use_listen_notify": False,  # for events and messages, which there are none of
            "notification_listener_polling_interval_sec": 0.25,  # it is waited for when DBOS ends
        }
        DBOS(config=config)
        if DBOS.executor_id != self.name:
            raise StoreError(
                self._database.place,
                "DBOS is there once in a process, and this one has it open already; give another process to this server, "
                "or --queue table",
            )
        try:
            DBOS.workflow(name=WORKFLOW)(self._body())
            DBOS.listen_queues([self.name])
            DBOS.launch()
            self.client.register_queue(APPLICATION)  # no process listens to it
            self._register()
        except BaseException:
            DBOS.destroy()
            raise
        log.setLevel(logging.ERROR)  # of an outage the rest of the server speaks

    def _register(self) -> None:
        self.client.register_queue(self.name, polling_interval_sec=_POLL)

    def _connect(self) -> psycopg.Connection:
        if self._closing.is_set():  # DBOS would try again for ever
            raise StoreError(self._database.place, "this process ends")
        connection = psycopg.connect("", **self._database.parameters)
        connection.execute("SET idle_in_transaction_session_timeout = '10s'")  # of one that is frozen
        connection.commit()
        return connection

    def close(self) -> None:
        """In this thread. Whatever is left open is called elsewhere."""
        with suppress(SQLAlchemyError, dbos_errors.DBOSException, StoreError):
            self.client.delete_queue(self.name)
        self._closing.set()
        DBOS.destroy()
        self._threads.shutdown(cancel_futures=True)
        self._connections.dispose()

    # ---- a run's workflow --------------------------------------------------------------------------------------------

    async def add(self, run: str) -> None:
        """It waits, as DBOS shows it."""
        with suppress(dbos_errors.DBOSWorkflowIDInUseError):  # the process that claimed the run was faster
            await self._do(self._enqueue, run, APPLICATION)

    async def call(self, run: str, worker: str) -> bool | None:
        """Have DBOS call the run's body here, wherever it was before. False: an operator has cancelled it with DBOS's own tools.
        None: it was not called in time."""
        self.drop(run)
        came: Future[None] = Future()
        with self._lock:
            self._expected[run] = (worker, came)
        try:
            if not await self._do(self._move_here, run):
                return False
            await asyncio.wait([asyncio.wrap_future(came)], timeout=CALL_SECONDS)
            if came.done():
                return True
            await self._do(self._register)  # which is gone if others took us for dead
            return None
        finally:
            with self._lock:
                self._expected.pop(run, None)

    async def finish(self, run: str) -> None:
        """Its run is off the queue: it is over, or no process is to drive it."""
        with self._lock:
            body = self._bodies.get(run)
        if body is not None:
            body.end()
        else:
            await self._do(self.client.cancel_workflow, run)

    def drop(self, run: str) -> None:
        """Its body here waits no longer, and says nothing to DBOS: others have the run."""
        with self._lock:
            body = self._bodies.pop(run, None)
        if body is not None:
            body.drop()

    async def give_back(self, runs: Sequence[str]) -> None:
        for run in runs:
            self.drop(run)
        if runs:
            await self._do(partial(self.client.resume_workflows, queue_name=APPLICATION), list(runs))

    def called_for(self, worker: str) -> list[str]:
        """The runs whose bodies wait here."""
        with self._lock:
            return [run for run, body in self._bodies.items() if body.worker == worker]

    async def cancelled(self, runs: Sequence[str]) -> set[str]:
        """Those among them that an operator has cancelled with DBOS's own tools."""
        return await self._do(self._find, ["CANCELLED"], list(runs)) if runs else set()

    def _enqueue(self, run: str, queue: str) -> None:
        """Raises an error if it is there."""
        self.client.enqueue(
            {
                "workflow_name": WORKFLOW,
                "queue_name": queue,
                "workflow_id": run,
                "workflow_id_reuse_policy": "reject",
                "app_version": VERSION,
            },
            run,
        )

    def _move_here(self, run: str) -> bool:
        found = self.client.list_workflows(workflow_ids=[run], load_input=False, load_output=False)
        status = found[0].status if found else None
        if status == "CANCELLED":
            return False
        if status is not None and status not in _ACTIVE:  # of an earlier stay in the queue
            self.client.delete_workflow(run)
            status = None
        if status is None:
            with suppress(dbos_errors.DBOSWorkflowIDInUseError):  # the process that queued the run has just added it
                self._enqueue(run, self.name)
                return True
        self.client.resume_workflow(run, queue_name=self.name)
        return True

    def _find(self, statuses: list[str], runs: list[str] | None = None, **options: Any) -> set[str]:
        found = self.client.list_workflows(
            workflow_ids=runs, status=statuses, name=WORKFLOW, load_input=False, load_output=False, **options
        )
        return {one.workflow_id for one in found}

    def _body(self) -> Callable[[str], Any]:
        async def ronda_run(run: str) -> None:
            with self._lock:
                worker, came = self._expected.pop(run, ("", None))
                if came is None:  # the caller did not wait for so long, or the run is over
                    return
                body = self._bodies[run] = _Body(worker)
            came.set_result(None)
            try:
                await body.over
            finally:
                with self._lock:
                    if self._bodies.get(run) is body:
                        del self._bodies[run]

        return ronda_run

    # ---- what others left --------------------------------------------------------------------------------------------

    def _keep_tidy(self) -> None:
        before: set[str] = set()
        while not self._closing.wait(_TIDY_SECONDS * random.uniform(0.5, 1.5)):
            try:
                before = self.tidy(before)
            except (SQLAlchemyError, dbos_errors.DBOSException, StoreError, psycopg.Error) as error:
                _log.info("DBOS could not be tidied up: %s", error)

    def tidy(self, before: set[str]) -> set[str]:
        """End workflows whose runs are off the queue, if they were `before`, too: their process died in between. The next
        call gets those that were found now. What DBOS keeps of other processes and of what is long over goes, too."""
        active = self._find(_ACTIVE)
        with self._database.connected() as connection:
            queued = {run for (run,) in connection.execute("SELECT run FROM queued_run")}
            there = {f"{APPLICATION}-{process_id:x}" for (process_id,) in connection.execute("SELECT id FROM process")}
        left = active - queued
        if runs := [*(left & before)]:
            self.client.resume_workflows(runs, queue_name=self.name)
        queues = {queue.name for queue in self.client.list_queues(application_name=APPLICATION)}
        for name in queues - there - {APPLICATION, self.name}:
            self.client.delete_queue(name)
        if self.name not in queues:  # others took us for dead
            self._register()
        age = (datetime.now(UTC) - timedelta(days=_KEEP_DAYS)).isoformat()
        if old := self._find(_OVER, completed_before=age, limit=1000):
            self.client.delete_workflows([*old])
        return left

    # ---- waiting -----------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[..., _T], *arguments: Any) -> _T:
        try:
            return await self._database.waits.do(partial(work, *arguments), self._threads)
        except dbos_errors.DBOSWorkflowIDInUseError:
            raise
        except (SQLAlchemyError, dbos_errors.DBOSException) as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreError:
        if isinstance(error, StoreError):
            return error
        cause = getattr(error, "orig", None) or error
        way_out = ""
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            way_out = f"; make the schema {self.schema} for it, let it make one (GRANT CREATE ON DATABASE), or use --queue table"
        problem = f"DBOS says: {' '.join(str(cause).split())}{way_out}"
        return RemoteStoreError(self._database.place, problem, "the server's queue failed; the server's log says why")


class _Body:
    """A workflow that waits, in DBOS's event loop."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()

    def end(self) -> None:
        self._tell(lambda: None if self.over.done() else self.over.set_result(None))

    def drop(self) -> None:
        """A task that is cancelled has no outcome, so none is written."""
        self._tell(self.over.cancel)

    def _tell(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(what)
