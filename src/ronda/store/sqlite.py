"""A path becomes a SQLite connection: in WAL mode, readable by its owner only, with its tables up to date.

    db = open_database(path, migrations, kind="journal")

`migrations` is a tuple of tuples of statements; a database that has seen the first n of them has `user_version` n. Append to
it, never change what is there. `kind` marks the file, so that one store's file is not taken for another's.

Connections are in autocommit mode: a writer opens a `transaction`. They may change threads, but are for one at a
time. In the child of a process that forks they refuse everything: see `fork`. Nothing here knows what the tables are for.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ronda.store import StoreError
from ronda.store.fork import GATE, disown_after_fork, keep_for_ever
from ronda.store.versions import TooNew, must_migrate, pack_version, version_of

_LOOKS_AGAIN: Final = 0.05  # seconds between two tries to empty a log that others read

Migrations: TypeAlias = Sequence[Sequence[str]]

MEMORY = ":memory:"
FILE_MOVED = "the file was moved or deleted while it was open; put it back, or start the server again"


class Connection(sqlite3.Connection):
    is_inherited = False

    def close(self) -> None:
        if not self.is_inherited:
            with GATE:
                super().close()

    def disown(self) -> None:
        self.is_inherited = True
        with suppress(sqlite3.ProgrammingError):  # it is closed
            self.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
        keep_for_ever(self)  # nor is it closed when the child's memory is tidied up


def open_database(
    path: str, migrations: Migrations, *, kind: str, timeout: float = 5.0, least: int = 0
) -> sqlite3.Connection:
    """Open, and make or migrate what is not there yet. Waits up to `timeout` seconds for others who do the same. A Ronda that
    knows fewer than `least` of these migrations cannot use the database any more (`versions`)."""
    if path != MEMORY:
        _make_private(path)
    db = connect(path, timeout=timeout)
    try:
        with GATE:
            _settle_in(db, path, kind)
            _migrate(db, path, migrations, least)
    except sqlite3.Error as error:
        db.close()
        raise explain(path, error) from error
    except BaseException:
        db.close()
        raise
    return db


def connect(path: str, *, timeout: float = 5.0) -> Connection:
    """One more connection to a database that is already in order, e.g. for a thread."""
    with GATE:
        try:
            db = sqlite3.connect(
                path, timeout=timeout, isolation_level=None, check_same_thread=False, factory=Connection
            )
        except sqlite3.Error as error:
            raise explain(path, error) from error
        if path != MEMORY:  # of what is in memory a child has a copy of its own
            disown_after_fork(db)
        try:
            # NORMAL: a commit is safe from kill -9 at once, and from a power cut once the WAL is synced.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(
                "PRAGMA wal_autocheckpoint = 0"
            )  # a checkpoint syncs the disk: left to a thread, see `checkpoint`
        except sqlite3.Error as error:  # the first to look into the file, so the first to see that it is none
            db.close()
            raise explain(path, error) from error
        return db


@contextmanager
def transaction(db: sqlite3.Connection, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
    """DEFERRED: one snapshot for several reads. IMMEDIATE: no other writes meanwhile."""
    with GATE:
        db.execute(f"BEGIN {kind}")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            db.rollback()
            raise


def checkpoint(db: sqlite3.Connection, path: str, *, shrink_above: int = 64 << 20) -> None:
    """Move what is in the WAL into the database. For a thread: this is where the disk is waited for."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    # PASSIVE never catches up with a busy writer, so the WAL would grow for ever. TRUNCATE holds writers off: for the little
    # that came in since, and while a reader is in the WAL, which must not take long.
    try:
        size = os.path.getsize(f"{path}-wal")
    except OSError as error:
        raise StoreError(path, FILE_MOVED) from error
    if size > shrink_above:
        db.execute("PRAGMA busy_timeout = 100")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def is_busy(error: sqlite3.Error) -> bool:
    """Another connection holds the lock: the same statement may succeed a little later."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(path: str, error: sqlite3.Error) -> StoreError:
    """What SQLite said, with the place and the way out."""
    way_out = _WAYS_OUT.get(_code(error))
    return StoreError(path, f"{error}; {way_out}" if way_out else str(error))


_WAYS_OUT = {
    sqlite3.SQLITE_FULL: "make room on this disk",
    sqlite3.SQLITE_IOERR: "check that the disk is there, healthy and not full",
    sqlite3.SQLITE_BUSY: "another program holds a lock on it for too long; end that program, or use another file",
    sqlite3.SQLITE_LOCKED: "another program holds a lock on it for too long; end that program, or use another file",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "the folder must be there and writable, and the path a file",
    sqlite3.SQLITE_PERM: "make the file and its folder writable for this user",
    sqlite3.SQLITE_AUTH: "it was opened before this process was forked; open it in the child",
    sqlite3.SQLITE_NOTADB: "move that file away, or choose another path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; move it away, and try `sqlite3 FILE .recover` to save what is in it",
}


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended part


def _make_private(path: str) -> None:
    """The file 0600, its folder 0700, where they are new: what people say to a model is private."""
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only a new file may be opened here: closing a file that SQLite has open drops the locks it holds on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not Path(path).parent.is_dir():
            raise StoreError(path, "its folder is a file; choose another path") from None
    except OSError as error:
        raise StoreError(path, f"{error.strerror}; the folder must be there and writable") from error


def _settle_in(db: sqlite3.Connection, path: str, kind: str) -> None:
    mark = zlib.crc32(kind.encode()) & 0x7FFFFFFF
    with transaction(db, "DEFERRED"):  # one look at both: another process may be making the tables
        found: int = db.execute("PRAGMA application_id").fetchone()[0]
        tables: int = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if found != mark:
        if found or tables:
            raise StoreError(path, f"this is another program's database, not a {kind}; choose another path")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only possible before there is anything in the file
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal" and path != MEMORY:
        raise StoreError(path, "this file system cannot share memory, as a WAL needs; choose a path on a local disk")
    if found != mark:
        db.execute(f"PRAGMA application_id = {mark}")


def _migrate(db: sqlite3.Connection, path: str, migrations: Migrations, least: int) -> None:
    try:
        if not must_migrate(_version(db), len(migrations)):
            return
        with transaction(db, "IMMEDIATE"):
            version = _version(db)  # again: another process may have done it while we waited
            if not must_migrate(version, len(migrations)):
                return
            for migration in migrations[version_of(version) :]:
                for statement in migration:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {pack_version(len(migrations), least)}")
    except TooNew as error:
        raise StoreError(path, f"this database {error}; update Ronda, or choose another path") from error


def wipe_deleted(path: str, patience: float = 60.0) -> None:
    """Write a database anew, without what is left in it of rows that were deleted, and empty its log. Other processes may have it
    open, and wait with what they write. Raises StoreError where they keep it busy for too long."""
    db = sqlite3.connect(path, timeout=patience, isolation_level=None)
    try:
        db.execute("VACUUM")
        until = time.monotonic() + patience
        while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # 1: a reader looks at what is in the log
            if time.monotonic() >= until:
                raise StoreError(path, "it is busy, so that its log could not be emptied; try again in a moment")
            time.sleep(_LOOKS_AGAIN)
    except sqlite3.Error as error:
        raise explain(path, error) from error
    finally:
        db.close()


def migrate_line(db: sqlite3.Connection, path: str, name: str, migrations: Migrations) -> None:
    """The same for tables of their own, in a database that others have tables in: a row for each `name` says how far it is."""
    with transaction(db, "IMMEDIATE"):
        db.execute("CREATE TABLE IF NOT EXISTS feature_version (name TEXT PRIMARY KEY, version INTEGER NOT NULL)")
        row = db.execute("SELECT version FROM feature_version WHERE name = ?", (name,)).fetchone()
        version = 0 if row is None else row[0]
        try:
            is_old = must_migrate(version, len(migrations))
        except TooNew as error:
            raise StoreError(
                path, f"the table of '{name}' in it {error}; update Ronda, or choose another path"
            ) from error
        if is_old:
            for statement in [one for migration in migrations[version_of(version) :] for one in migration]:
                db.execute(statement)
            db.execute("INSERT OR REPLACE INTO feature_version (name, version) VALUES (?, ?)", (name, len(migrations)))


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version
