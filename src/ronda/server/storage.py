"""A data folder → what a server keeps there: the journal of its runs, and what its clients make. Without one, memory."""

from __future__ import annotations

from pathlib import Path

from ronda.errors import BadConfig
from ronda.files.blobs import Blobs
from ronda.journal import Journal
from ronda.server.config import ServerConfig
from ronda.store import StoreError
from ronda.store.catalog import Catalog


def open_journal(folder: Path | None, config: ServerConfig) -> Journal:
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
            max_bytes=config.journal_max_bytes,
            keep_previews=config.keep_previews,
            keep_previews_bytes=config.keep_previews_bytes,
        )
    except StoreError as error:
        raise BadConfig(f"{error} (--data-dir says where)") from error


def open_catalog(folder: Path | None) -> Catalog:
    """Keeps what clients make, and keys: next to the journal, or nowhere."""
    if folder is None:
        from ronda.store.memory import MemoryCatalog

        return MemoryCatalog()
    from ronda.store.sqlite_catalog import SqliteCatalog

    return SqliteCatalog(str(folder / "catalog.db"))


def open_blobs(folder: Path | None, place: str | None = None) -> Blobs | None:
    """Keeps the bytes of files: at a place that the operator names, or next to the journal, or nowhere."""
    from ronda.files.blobs import FolderBlobs

    if place is None:
        return None if folder is None else FolderBlobs(folder / "files")
    if folder is None:
        raise BadConfig("--file-store keeps files, and --data-dir :memory: forgets which there are; name a data folder")
    from ronda.files.s3_blobs import SCHEME, S3Blobs

    return S3Blobs(place) if place.startswith(SCHEME) else FolderBlobs(place)
