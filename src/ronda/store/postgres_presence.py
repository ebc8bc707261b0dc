"""Who of those that share a database is alive, and what they tell each other: a thread of each process says and hears it.

    process ──► "I am here, for five seconds more" ──► a row, by the database's clock only
    process ──► NOTIFY: "run x has 12 events" ─────────► those that wait for news of it, in any process

A process whose time is up is treated as gone: it died, is frozen, or cannot reach the database. Only one that has been there for
as long itself may judge: after an outage of the database the time of all is up, and no process is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import select
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
import psycopg
from msgspec import Struct
from psycopg import sql

from ronda.store import StoreError
from ronda.store.postgres import Database, PostgresSql, read_text
from ronda.store.postgres_tables import PROCESSES
from ronda.store.reach import PROBES
from ronda.store.sql import Sql

LEASE: Final = 5.0  # seconds, unless the operator says otherwise …
BEATS: Final = 5  # … in which a process says so often that it is there
POLL: Final = 1.0  # seconds after which a waiting process looks for itself: news may be lost
LARGEST_NOTICE: Final = 7000  # bytes; PostgreSQL takes 8000
MOST_LISTED: Final = 1000  # processes: more than one database serves
_FORGOTTEN: Final = "1 day"  # after which the row of a process that died goes, too

_log = logging.getLogger(__name__)

# Of a process with the number {id}, as seen by the process :me. One that has no row has left.
ALIVE: Final = """EXISTS (SELECT 1 FROM process WHERE process.id = {id} AND (until > clock_timestamp()
    OR NOT EXISTS (SELECT 1 FROM process AS me WHERE me.id = :me AND me.until > clock_timestamp()
        AND me.since < clock_timestamp() - me.lease)))"""

Notice = dict[str, Any]


class ProcessRow(Struct, frozen=True):
    """A process that is there: its machine and its number on it, and since when, by the database's clock."""

    name: str
    since: float
    is_this: bool


class PostgresPresence:
    """This process, among those that share a database. `on_notice` is called, in the loop that it was opened in, with what others
    say. Its thread is the probe that sees whether the database can be reached, too."""

    def __init__(self, database: Database, lease: float = LEASE) -> None:
        self.id = secrets.randbits(48)
        self._lease = lease
        self._beat_every = lease / BEATS
        self._reach = database.reach
        self._probe_every = min(self._beat_every, database.reach.patience / PROBES)
        self._is_lost = False  # what the log was told last
        self._database = database
        self._channel = f"ronda_{database.lock_number('notices') & 0xFFFFFFFFFFFF:x}"
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._listeners: list[Callable[[Notice], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ahead = 0.0  # seconds that the database's clock is before ours
        self._leaving = threading.Event()
        self._bell, self._rung = socket.socketpair()  # wakes the thread
        self._is_listening = threading.Event()
        database.migrate("processes", PROCESSES)
        database.do(self._beat, database.begin_write())
        self._thread = threading.Thread(target=self._watch, name="ronda-presence", daemon=True)
        self._thread.start()

    def clock(self) -> float:
        """The same for all who share the database, nearly."""
        return time.time() + self._ahead

    # ---- who is there ------------------------------------------------------------------------------------------------

    async def is_there(self, process_id: int) -> bool:
        question = f"SELECT {ALIVE.format(id=':id')}"
        found: bool = await self._database.read(
            lambda db: db.execute(question, {"id": process_id, "me": self.id}).fetchone()[0]
        )
        return found

    async def others(self) -> set[int]:
        """The numbers of all who are there, beside this one."""
        question = f"SELECT id FROM process AS other WHERE id <> :me AND {ALIVE.format(id='other.id')}"
        rows = await self._database.read(lambda db: db.execute(question, {"me": self.id}).fetchall())
        return {process_id for (process_id,) in rows}

    async def list(self) -> list[ProcessRow]:
        """All who are there, the oldest first; no more than `MOST_LISTED`."""
        question = f"""SELECT name, extract(epoch FROM since)::float8, id = :me FROM process AS other
            WHERE {ALIVE.format(id="other.id")} ORDER BY since, id LIMIT {MOST_LISTED}"""
        rows = await self._database.read(lambda db: db.execute(question, {"me": self.id}).fetchall())
        return [ProcessRow(*row) for row in rows]

    def leave(self) -> None:
        """From now on no other process counts on this one."""
        if self._leaving.is_set():
            return
        self._leaving.set()
        self._bell.send(b"!")
        self._thread.join(timeout=2 * self._beat_every)
        with suppress(StoreError):
            statement = "DELETE FROM process WHERE id = ?"
            self._database.do(lambda db: db.execute(statement, (self.id,)), self._database.begin_write(), outage=1.0)
        self._bell.close()
        self._rung.close()

    def _beat(self, db: Sql) -> None:
        row = db.execute(
            """INSERT INTO process (id, since, until, name, lease)
                VALUES (:id, statement_timestamp(), statement_timestamp() + :lease::interval, :name, :lease::interval)
            ON CONFLICT (id) DO UPDATE SET until = excluded.until, since = CASE
                WHEN process.until < clock_timestamp() THEN excluded.since ELSE process.since END
            RETURNING since = until - lease, extract(epoch FROM statement_timestamp())::float8""",
            {"id": self.id, "lease": f"{self._lease} s", "name": f"{socket.gethostname()} {os.getpid()}"},
        ).fetchone()
        self._ahead = row[1] - time.time()
        if row[0] and self._is_listening.is_set():
            _log.warning(
                "the database was out of reach for more than %g s: others may drive on runs of this process",
                self._lease,
            )
        db.execute(f"DELETE FROM process WHERE until < clock_timestamp() - interval '{_FORGOTTEN}'")

    # ---- what they tell each other -----------------------------------------------------------------------------------

    def hear(self, listener: Callable[[Notice], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners.append(listener)

    async def news_of(self, name: str, seconds: float = POLL) -> None:
        """Return when there is news of this, or after a while: then it is for the caller to look."""
        self._loop = loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[name].add(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._waiting[name]

    def notify(self, connection: psycopg.Connection, notices: Iterable[Notice]) -> None:
        """Outside of a transaction: one that says something to others waits for all who do, and a notice that is lost is no
        harm."""
        for notice in notices:
            payload = msgspec.json.encode(notice)
            if len(payload) <= LARGEST_NOTICE:
                connection.execute("SELECT pg_notify(%s, %s)", (self._channel, payload.decode()))

    async def tell(self, notice: Notice) -> None:
        payload = msgspec.json.encode(notice).decode()
        await self._database.write(lambda db: db.execute("SELECT pg_notify(?, ?)", (self._channel, payload)))

    def _watch(self) -> None:
        """In a thread of its own, so that a busy event loop is not taken for a dead process."""
        while not self._leaving.is_set():
            self._reach.asked()
            try:
                with self._database.connected() as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    self._is_listening.set()
                    self._hear({})  # what was said meanwhile is lost: all processes look
                    self._listen(connection)
            except psycopg.Error as error:
                if self._reach.is_lost and not self._is_lost:
                    self._is_lost = True
                    _log.warning(
                        "the database is out of reach, so new requests get a 503 until it is back: %s",
                        " ".join(str(error).split()),
                    )
                self._leaving.wait(self._probe_every / 4)
            except Exception as error:  # a process whose thread has ended would be treated as gone
                _log.error("the look at other processes ended, and is started again", exc_info=error)
                self._leaving.wait(self._probe_every)

    def _listen(self, connection: psycopg.Connection) -> None:
        next_beat = next_probe = 0.0
        while not self._leaving.is_set():
            if (now := time.monotonic()) >= next_probe:
                self._reach.asked()
                if now >= next_beat:
                    self._beat(PostgresSql(connection))
                    next_beat = now + self._beat_every
                else:
                    connection.execute("SELECT 1")
                self._answered()
                next_probe = min(next_beat, now + self._probe_every)
            wait = max(0.0, next_probe - time.monotonic())
            select.select([connection.fileno(), self._rung.fileno()], [], [], wait)
            for found in connection.notifies(timeout=0):
                self._hear(msgspec.json.decode(read_text(found.payload)))

    def _answered(self) -> None:
        self._reach.answered()
        if self._is_lost:
            self._is_lost = False
            _log.warning("the database is back")

    def _hear(self, notice: Notice) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._pass_on, notice)

    def _pass_on(self, notice: Notice) -> None:
        names = [name for name, *_ in notice.get("runs", ())] if notice else list(self._waiting)
        for name in (*names, *notice.get("names", ())):
            for waiter in self._waiting.get(name, ()):
                if not waiter.done():
                    waiter.set_result(None)
        for listener in self._listeners:
            listener(notice)
