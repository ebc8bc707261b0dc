"""The address of a PostgreSQL database becomes connections, each with a thread that waits for it. The event loop never does.

    database = Database("postgresql://…")     one connection is made at once: a wrong address is found when a server starts
    await database.write(job)                 one transaction; see `store.sql` for what a job is

While the database is away (a restart, a network that is down) callers are held up, for `OUTAGE` seconds at the most, and
the transaction is done again. It is never done twice: where a connection broke while it was committed, PostgreSQL is asked
what became of it. Threads instead of psycopg's own asyncio: a job of several statements crosses to the event loop once, and
a cancelled caller leaves no connection in the middle of a statement.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import StrDumper

from ronda.store import RemoteStoreError, StoreError
from ronda.store.reach import PATIENCE, DatabaseAway, Reach
from ronda.store.sql import Duplicate, Rows, Sql, Values
from ronda.store.thread_waits import ThreadWaits
from ronda.store.versions import TooNew, must_migrate, pack_version, version_of

OUTAGE: Final = 45.0  # seconds that a database may be away: 30 of a restart, and what it takes to be noticed
CONNECTIONS: Final = 4  # of one process, beside that of its journal and that which listens
_PAUSE: Final = 0.2  # seconds between two tries to reach it
_TRIES: Final = 20  # of a transaction that got into another's way

# A process that is frozen in a transaction must not keep its locks, nor one that is cut off its connection.
_SETTINGS: Final = "SET idle_in_transaction_session_timeout = '3s'"
_PARAMETERS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "fallback_application_name": "ronda",
}

# Codes of what passes: too many connections, no disk is reached, shutting down or starting up, cut off in a transaction.
_PASSES: Final = ("08", "53300", "57P01", "57P02", "57P03", "25P03", "58030")

# What libpq says behind a connection that failed; our own question is shorter.
_LIBPQ_QUESTION: Final = "Is the server running"

_T = TypeVar("_T")


class Database:
    def __init__(
        self, url: str, *, connections: int = CONNECTIONS, outage: float = OUTAGE, patience: float = PATIENCE
    ) -> None:
        parameters = _read(url)
        self.place = _place_of(parameters)
        self.reach = Reach(self.place, patience)
        self._outage = outage
        self.waits = ThreadWaits(self.place)
        self.parameters = _PARAMETERS | parameters  # of a connection
        self._threads = ThreadPoolExecutor(connections, "ronda-database")
        self._own = threading.local()
        self._all: set[psycopg.Connection] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        try:
            with self.connected() as connection:
                row = connection.execute("SELECT current_schema()").fetchone()
        except psycopg.Error as error:
            self._threads.shutdown(wait=False)
            raise self.explain(error) from error
        if row is None or row[0] is None:
            raise StoreError(
                self.place, "no schema of the search path is there; make one, or leave the search path alone"
            )
        self.name: str = row[0]  # of the schema: others may use the same database

    # ---- transactions ------------------------------------------------------------------------------------------------

    async def read(self, job: Callable[[Sql], _T]) -> _T:
        return await self._in_thread(lambda: self.do(job, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        return await self._in_thread(lambda: self.do(job, self.begin_write(alone, may_be_lost=may_be_lost)))

    def begin_write(self, alone: str = "", *, may_be_lost: bool = False) -> str:
        lock = f"; SELECT pg_advisory_xact_lock({self.lock_number(alone)})" if alone else ""
        fast = "; SET LOCAL synchronous_commit = off" if may_be_lost else ""
        return f"BEGIN; SELECT pg_current_xact_id()::text{lock}{fast}"

    def lock_number(self, name: str) -> int:
        text = f"ronda {self.name} {name}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await self.waits.do(work, self._threads)

    def do(self, job: Callable[[PostgresSql], _T], begin: str, outage: float | None = None) -> _T:
        """In this thread. What is begun with a number of its own is done once, whatever happens to the connection."""
        until = time.monotonic() + (self._outage if outage is None else outage)
        tries = 0
        doubt: tuple[str, _T] | None = None  # a transaction that may have been committed, and its result
        while True:
            try:
                connection = self._connection()
                if doubt is not None and self._was_committed(connection, doubt[0]):
                    return doubt[1]
                number = _begin(connection, begin)
                try:
                    result = job(PostgresSql(connection))
                except BaseException:
                    with suppress(psycopg.Error):
                        connection.rollback()
                    raise
                doubt = None if number is None else (number, result)
                connection.execute("COMMIT")
                self.reach.heard()
                return result
            except (errors.UniqueViolation, errors.ExclusionViolation) as error:
                raise Duplicate(str(error)) from error
            except (errors.SerializationFailure, errors.DeadlockDetected, errors.ForeignKeyViolation) as error:
                doubt = None  # they say that it was not
                tries += 1
                if tries > _TRIES:
                    raise self.explain(error) from error
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._drop()
                if not _passes(error):
                    raise self.explain(error) from error
                self.reach.asked()
                if time.monotonic() >= until or self._is_closing:
                    raise self.explain(error) from error
                self._closing.wait(_PAUSE)
            except psycopg.Error as error:
                raise self.explain(error) from error
            except UnicodeError as error:  # a lone surrogate is no text
                raise StoreError(self.place, f"this cannot be written: {error}") from error

    def quickly(self, work: Callable[[psycopg.Connection], object]) -> None:
        """In this thread, in no transaction, once: for what may be lost."""
        try:
            work(self._connection())
        except psycopg.Error:
            self._drop()
            raise

    def _was_committed(self, connection: psycopg.Connection, number: str) -> bool:
        while True:
            row = connection.execute("SELECT pg_xact_status(%s::xid8)", (number,)).fetchone()
            status = None if row is None else row[0]
            if status != "in progress":  # its connection is gone, but the server's side does not know yet
                return bool(status == "committed")
            self._closing.wait(_PAUSE)

    # ---- connections -------------------------------------------------------------------------------------------------

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection]:
        """A connection for a caller that needs one to itself."""
        connection = self._connect()
        try:
            yield connection
        finally:
            self._forget(connection)

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect("", autocommit=True, **self.parameters)
        connection.adapters.register_dumper(str, _TextDumper)
        connection.adapters.register_loader("text", _TextLoader)
        with self._lock:
            self._all.add(connection)
        connection.execute(_SETTINGS)
        return connection

    def _connection(self) -> psycopg.Connection:
        """This thread's."""
        found: psycopg.Connection | None = getattr(self._own, "connection", None)
        if found is None or found.closed:
            found = self._own.connection = self._connect()
        return found

    def _drop(self) -> None:
        found: psycopg.Connection | None = getattr(self._own, "connection", None)
        self._own.connection = None
        if found is not None:
            self._forget(found)

    def _forget(self, connection: psycopg.Connection) -> None:
        with self._lock:
            self._all.discard(connection)
        with suppress(psycopg.Error):
            connection.close()

    @property
    def _is_closing(self) -> bool:
        return self._closing.is_set() or self.waits.is_over

    async def close(self) -> None:
        self._closing.set()
        await self.waits.do(self._threads.shutdown)
        for connection in list(self._all):
            self._forget(connection)

    def explain(self, error: psycopg.Error) -> StoreError:
        text = " ".join(str(error).partition(_LIBPQ_QUESTION)[0].split()) or type(error).__name__
        way_out = "" if error.sqlstate else "; is the server up?"
        if _passes(error) and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseAway(self.place, f"{text}{way_out}")
        return RemoteStoreError(self.place, text, "the server's database refused this; the server's log says why")

    # ---- tables ------------------------------------------------------------------------------------------------------

    def migrate(self, kind: str, migrations: Sequence[Sequence[str]], least: int = 0) -> None:
        """Make or change the tables of one kind, unless that is done. Append to `migrations`, never change what is there. Of
        several processes that start at once one does it, and the others wait. A Ronda that knows fewer than `least` of them
        cannot use the tables any more (`versions`)."""
        if not self._must_migrate(kind, self._version(kind), len(migrations)):
            return

        def migrate(db: PostgresSql) -> None:
            db.execute("CREATE TABLE IF NOT EXISTS ronda_version (kind TEXT PRIMARY KEY, version INTEGER NOT NULL)")
            row = db.execute("SELECT version FROM ronda_version WHERE kind = ?", (kind,)).fetchone()
            version = 0 if row is None else row[0]
            if not self._must_migrate(kind, version, len(migrations)):
                return
            for migration in migrations[version_of(version) :]:
                for statement in migration:
                    db.execute(statement)
            db.execute(
                """INSERT INTO ronda_version (kind, version) VALUES (?, ?)
                    ON CONFLICT (kind) DO UPDATE SET version = excluded.version""",
                (kind, pack_version(len(migrations), least)),
            )

        self.do(migrate, self.begin_write("migrations"))

    def _must_migrate(self, kind: str, stored: int, known: int) -> bool:
        try:
            return must_migrate(stored, known)
        except TooNew as error:
            raise StoreError(self.place, f"its {kind} {error}; update Ronda, or choose another database") from error

    def _version(self, kind: str) -> int:
        def find(db: PostgresSql) -> int:
            if db.execute("SELECT to_regclass('ronda_version')::text").fetchone()[0] is None:
                return 0
            row = db.execute("SELECT version FROM ronda_version WHERE kind = ?", (kind,)).fetchone()
            return 0 if row is None else row[0]

        return self.do(find, "BEGIN READ ONLY")


class PostgresSql:
    """A connection inside a transaction, for statements with the marks of SQLite."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        rows: Rows = self.connection.execute(_with_marks(statement), values or None)
        return rows

    def executemany(self, statement: str, values: Sequence[Sequence[Any]], /) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(_with_marks(statement), values)


@lru_cache(1000)
def _with_marks(statement: str) -> Any:  # psycopg asks for a literal, and these are made of some
    if "?" not in statement and ":" not in statement:
        return statement
    return re.sub(r"(?<!:):([a-z][a-z0-9_]*)", r"%(\1)s", statement.replace("%", "%%")).replace("?", "%s")


def _begin(connection: psycopg.Connection, statements: str) -> str | None:
    """The number of the transaction, where it was asked for."""
    cursor = connection.execute(statements)
    if not cursor.nextset():
        return None
    row = cursor.fetchone()
    return None if row is None else str(row[0])


def _passes(error: psycopg.Error) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith(_PASSES)


def _read(url: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.Error as error:
        raise StoreError("--database", f"this is no address of a database: {' '.join(str(error).split())}") from error


def _place_of(parameters: dict[str, Any]) -> str:
    """Without a password."""
    host, port, name = (parameters.get(key) for key in ("host", "port", "dbname"))
    return f"postgresql://{host or ''}{f':{port}' if port else ''}/{name or ''}"


# PostgreSQL's text has no NUL, and ours may: it is written as \0, and a backslash as two.


class _TextDumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        if "\\" in obj or "\0" in obj:
            obj = obj.replace("\\", "\\\\").replace("\0", "\\0")
        return obj.encode()


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return read_text(bytes(data).decode())


def read_text(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda found: "\0" if found[1] == "0" else found[1], text, flags=re.DOTALL)
