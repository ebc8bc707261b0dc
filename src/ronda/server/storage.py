"""A data folder or a database → what a server keeps there: the journal of its runs, and what its clients make. Else memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ronda._extras import check_extra, install
from ronda.errors import BadConfig
from ronda.files.blobs import Blobs
from ronda.journal import Journal
from ronda.server.config import JOURNAL_BYTES, ServerConfig
from ronda.store import StoreError
from ronda.store.catalog import Catalog

if TYPE_CHECKING:
    from ronda.server.app import Server
    from ronda.server.features.contract import Feature
    from ronda.store.postgres import Database
    from ronda.store.postgres_catalog import PostgresCatalog
    from ronda.store.postgres_presence import PostgresPresence


class SharedDatabase(NamedTuple):
    """A database that other servers and workers have open, too, and this process among them."""

    database: Database
    presence: PostgresPresence


def open_shared(config: ServerConfig) -> SharedDatabase | None:
    """Connects, and makes or changes the tables where that is to be done. None: this server keeps nothing in a database."""
    if config.database is None:
        return None
    check_extra("postgres", "--database")
    if config.queue == "dbos":
        check_extra("dbos", "--queue dbos")
    try:
        from ronda.store.postgres import Database
        from ronda.store.postgres_presence import PostgresPresence
    except ImportError as error:  # the driver is there, and the library of the system that it needs is not
        raise BadConfig(f"--database needs a driver that works: {install('postgres')} ({error})") from error
    try:
        database = Database(config.database, patience=config.database_patience)
        return SharedDatabase(database, PostgresPresence(database, config.lease_seconds))
    except StoreError as error:
        raise BadConfig(f"{error} (--database says where)") from error


def join_replicas(server: Server, shared: SharedDatabase | None) -> None:
    """From now on the server is one of those that share the database."""
    if shared is None:
        return
    from ronda.journal.postgres import PostgresJournal
    from ronda.journal.redacting import unwrapped
    from ronda.server.app import App
    from ronda.server.services.replicas import Replicas

    journal = unwrapped(server.runs.journal)
    assert isinstance(journal, PostgresJournal)
    server.runs.clock = shared.presence.clock
    others = server.others
    others.reach = shared.database.reach
    others.peers = others.replicas = Replicas(
        *shared,
        journal,
        App(server),
        runs=server.runs,
        queue=server.catalog.queue,
        background=server.background,
        recovery=server.recovery,
        supervisor=server.supervisor,
        caller_of=server.callers.caller_of,
    )


def open_journal(folder: Path | None, config: ServerConfig, shared: SharedDatabase | None = None) -> Journal:
    if shared is not None:
        from ronda.journal.postgres import PostgresJournal

        try:
            return PostgresJournal(
                *shared,
                max_age=config.journal_max_days * 86400,
                max_bytes=config.journal_max_bytes,
                owner_bytes=config.journal_max_bytes_per_owner,
                keep_previews=config.keep_previews,
                keep_previews_bytes=config.keep_previews_bytes,
            )
        except StoreError as error:
            raise BadConfig(f"{error} (--database says where)") from error
    if folder is None:
        from ronda.journal.memory import MemoryJournal

        return MemoryJournal()
    from ronda.journal.sqlite import SqliteJournal

    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise BadConfig(
            f"cannot make the data folder {folder}: {error.strerror}; choose another with --data-dir"
        ) from error
    try:
        return SqliteJournal(
            str(folder / "journal.db"),
            synchronous="FULL" if config.journal_sync == "full" else "NORMAL",
            max_age=config.journal_max_days * 86400,
            max_bytes=config.journal_max_bytes or JOURNAL_BYTES,
            owner_bytes=config.journal_max_bytes_per_owner,
            keep_previews=config.keep_previews,
            keep_previews_bytes=config.keep_previews_bytes,
        )
    except StoreError as error:
        raise BadConfig(f"{error} (--data-dir says where)") from error


def open_catalog(
    folder: Path | None,
    shared: SharedDatabase | None = None,
    queue: Literal["table", "dbos"] = "table",
    features: Sequence[type[Feature]] = (),
) -> Catalog:
    """Keeps what clients make, and keys: next to the journal, or nowhere. `queue`: what a database has for runs that wait. The
    tables of `features` are in it, too."""
    catalog = _open_catalog(folder, shared, queue)
    for feature in features:
        if feature.tables:
            catalog.add_tables(feature.name, feature.tables)
    return catalog


def _open_catalog(folder: Path | None, shared: SharedDatabase | None, queue: Literal["table", "dbos"]) -> Catalog:
    if shared is not None:
        try:
            return _database_catalog(queue)(*shared)
        except StoreError as error:
            raise BadConfig(f"{error} (--database says where)") from error
    if folder is None:
        from ronda.store.memory import MemoryCatalog

        return MemoryCatalog()
    from ronda.store.sqlite_catalog import SqliteCatalog

    return SqliteCatalog(str(folder / "catalog.db"))


def _database_catalog(queue: Literal["table", "dbos"]) -> type[PostgresCatalog]:
    if queue == "table":
        from ronda.store.postgres_catalog import PostgresCatalog

        return PostgresCatalog
    from ronda.store.dbos_queue import DbosCatalog

    return DbosCatalog


def open_blobs(folder: Path | None, place: str | None = None) -> Blobs | None:
    """Keeps the bytes of files: at a place that the operator names, or next to the journal, or nowhere."""
    from ronda.files.blobs import FolderBlobs

    if place is None:
        return None if folder is None else FolderBlobs(folder / "files")
    if folder is None:
        raise BadConfig("--file-store keeps files, and --data-dir :memory: forgets which there are; name a data folder")
    from ronda.files.s3_blobs import SCHEME, S3Blobs

    return S3Blobs(place) if place.startswith(SCHEME) else FolderBlobs(place)
