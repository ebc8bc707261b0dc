"""Servers and workers that share a database: what one of them is asked about a run that another drives, and runs that one left.

    a request ──► here ── the run is driven elsewhere ──► a letter, in the database ──► its driver ──► its answer
    a process that is gone ──► its runs lie open ──► the first process that sees them drives them on

Letters, not connections: processes on several machines may have no way to each other, and a worker listens on no port. A process
that only looks at a run, or follows it, reads the journal.

A letter lies in the database, in its log and in its backups. So it has no header that may hold a secret and no query of the
address; it names the caller, and the process that answers it looks up anew what the caller may do.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ronda.errors import RondaError
from ronda.host.supervisor import Supervisor
from ronda.server.http.auth import Caller
from ronda.server.http.incoming import Header, Incoming
from ronda.server.services.background import Background
from ronda.server.services.peers import JustEnded
from ronda.server.services.recovery import Recovery
from ronda.server.services.runs import Runs
from ronda.store.owners import owner_mark
from ronda.store.postgres import Database
from ronda.store.postgres_presence import Notice, PostgresPresence, ProcessRow
from ronda.store.queue import Queue
from ronda.store.sql import Sql

if TYPE_CHECKING:
    from ronda.journal.postgres import PostgresJournal

log = logging.getLogger("ronda.server")

LOOKS_EVERY: Final = 1.0  # seconds: at who is there, at runs that no process drives, at letters whose notice was lost
ANSWER_SECONDS: Final = 30.0
_FORGOTTEN: Final = "10 minutes"  # after which no process waits for an answer


# What the addresses of runs read of a request's headers. All others stay in the process that the client has asked.
_HEADERS: Final = frozenset(
    [b"accept", b"anthropic-beta", b"anthropic-version", b"content-type", b"user-agent", b"x-stainless-lang"]
)


class Letter(Struct, array_like=True):
    method: str
    path: bytes
    headers: list[Header]
    body: bytes
    caller: Caller


class Answer(Struct, array_like=True):
    status: int
    headers: list[Header]
    body: bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


_read_letter = msgspec.msgpack.Decoder(Letter).decode
_read_answer = msgspec.msgpack.Decoder(Answer).decode


class Replicas:
    """The others, as one server sees them. `app` answers what they ask about runs that are driven here; `caller_of` names to them
    who asks here."""

    def __init__(
        self,
        database: Database,
        presence: PostgresPresence,
        journal: PostgresJournal,
        app: Any,
        *,
        runs: Runs,
        queue: Queue,
        background: Background,
        recovery: Recovery,
        supervisor: Supervisor,
        caller_of: Callable[[Incoming], Awaitable[Caller]],
    ) -> None:
        self._runs = runs
        self._queue = queue
        self._background = background
        self._recovery = recovery
        self._supervisor = supervisor
        self._caller_of = caller_of
        self._database = database
        self._presence = presence
        self._journal = journal
        self._app = app
        self._watching: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._presence.hear(self._hear)
        self._watching = self._supervisor.keep("the look at other processes", self._watch)

    def end_within(self, seconds: float) -> None:
        """This process waits no longer for the database, be it away or not."""
        self._database.waits.end_within(seconds)

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def processes(self) -> list[ProcessRow]:
        """All who share the database, this one included."""
        return await self._presence.list()

    async def queue_grew(self) -> None:
        """Let the others know that there is something to drive."""
        await self._presence.tell({"queue": True})

    def hear(self, listener: Callable[[Notice], None]) -> None:
        """Called with what other processes say to all."""
        self._presence.hear(listener)

    async def session_changed(self, owner: str) -> None:
        await self._presence.tell({"sessions": [owner_mark(owner)]})

    # ---- asking ------------------------------------------------------------------------------------------------------

    async def answer(self, incoming: Incoming, run: str, limit: int) -> ASGIApp | None:
        """What the process that drives a run says to a request; None if no other process drives it, or need be asked."""
        if incoming.method in ("GET", "HEAD") or incoming.is_letter:
            return None
        if (driver := await self._journal.driver_of(run)) is None:
            return None
        body = await incoming.body(limit)
        headers = [header for header in incoming.headers.items() if header[0] in _HEADERS]
        caller = await self._caller_of(incoming)
        letter = Letter(incoming.method, incoming.target.partition(b"?")[0], headers, body, caller)
        return await self._answer_of(int(driver), msgspec.msgpack.encode(letter))

    async def _answer_of(self, driver: int, letter: bytes) -> Answer:
        letter_id = secrets.randbits(62)
        row = (letter_id, driver, letter)
        await self._database.write(
            lambda db: db.execute("INSERT INTO letter (id, process, request) VALUES (?, ?, ?)", row), may_be_lost=True
        )
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWER_SECONDS
        news = loop.create_task(self._presence.news_of(_name(letter_id)))
        try:
            await self._presence.tell({"letters": [driver]})
            while (answer := await self._database.read(lambda db: _find_answer(db, letter_id))) is None:
                if loop.time() >= until or not await self._presence.is_there(driver):
                    raise JustEnded("the process that drove this run has just ended; ask again in a moment")
                await asyncio.wait([news])
                news = loop.create_task(self._presence.news_of(_name(letter_id)))
        finally:
            news.cancel()
            await self._database.write(
                lambda db: db.execute("DELETE FROM letter WHERE id = ?", (letter_id,)), may_be_lost=True
            )
        return _read_answer(answer)

    # ---- being asked -------------------------------------------------------------------------------------------------

    def _hear(self, notice: Notice) -> None:
        if not notice or "queue" in notice:
            self._background.look()
        if not notice or self._presence.id in notice.get("letters", ()):
            self._do(self._answer_letters())

    def _do(self, job: Any) -> None:
        self._supervisor.do("the answer to a letter of another process", job)

    async def _answer_letters(self) -> None:
        def take(db: Sql) -> list[tuple[int, bytes]]:
            statement = "UPDATE letter SET taken = TRUE WHERE process = ? AND NOT taken RETURNING id, request"
            return db.execute(statement, (self._presence.id,)).fetchall()

        for letter_id, letter in await self._database.write(take, may_be_lost=True):
            self._do(self._answer_one(letter_id, letter))

    async def _answer_one(self, letter_id: int, letter: bytes) -> None:
        answer = msgspec.msgpack.encode(await _ask(self._app, _read_letter(letter)))
        statement = "UPDATE letter SET answer = ? WHERE id = ?"
        await self._database.write(lambda db: db.execute(statement, (answer, letter_id)), may_be_lost=True)
        await self._presence.tell({"names": [_name(letter_id)]})

    # ---- what others left --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        others: set[int] = set()
        open_before: set[str] = set()
        while not self._runs.stopping:
            try:
                there = await self._presence.others()
                if others - there:  # also for what waits for people, whose questions close by themselves
                    await self._recovery.recover_all()
                others = there
                found = await self._abandoned()
                # What is seen twice is not just about to be queued, or claimed.
                left = [*(found & open_before)]
                random.shuffle(left)  # so that processes that look at the same time share them out
                for run in left:
                    await self._recovery.recover(run)
                open_before = found
                await self._answer_letters()
                await self._database.write(_forget_letters, may_be_lost=True)
            except RondaError as error:
                log.error("what other processes left could not be looked at: %s", error)
            await asyncio.sleep(LOOKS_EVERY)

    async def _abandoned(self) -> set[str]:
        found = await self._journal.abandoned_runs()
        if found:
            queued = {entry.run for entry in await self._queue.list(self._runs.clock())}
            found = found - queued - self._runs.live.keys()
        return found


def _name(letter_id: int) -> str:
    return f"letter {letter_id}"


def _find_answer(db: Sql, letter_id: int) -> bytes | None:
    row = db.execute("SELECT answer FROM letter WHERE id = ?", (letter_id,)).fetchone()
    return None if row is None else row[0]


def _forget_letters(db: Sql) -> None:
    db.execute(f"DELETE FROM letter WHERE sent < clock_timestamp() - interval '{_FORGOTTEN}'")


async def _ask(app: Any, letter: Letter) -> Answer:
    """What our own app answers."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": letter.method,
        "path": unquote(letter.path.decode("latin-1")),
        "raw_path": letter.path,
        "query_string": b"",
        "root_path": "",
        "headers": letter.headers,
        "client": None,
        "server": None,
    }
    bodies = [letter.body]
    stays: asyncio.Future[Message] = asyncio.get_running_loop().create_future()  # for ever: the client does not leave
    answer = Answer(500, [], b"")

    async def receive() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await stays

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = (
                message["status"],
                [(bytes(name), bytes(value)) for name, value in message["headers"]],
            )
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send, caller=letter.caller)
    return answer
