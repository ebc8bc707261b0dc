"""`ronda owner`: all that is kept of one owner, to be shown, taken along, or deleted."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ronda.cli.sessions import sessions_in
from ronda.cli.settings import storage_config
from ronda.cli.storage import Storage, open_storage
from ronda.cli.table import print_table
from ronda.errors import BadConfig
from ronda.files.file_store import FileStore
from ronda.server.features.owners.data import OwnerData, new_archive
from ronda.server.features.table import loadable
from ronda.server.storage import open_blobs
from ronda.store.sqlite import wipe_deleted


def owner(arguments: argparse.Namespace) -> int:
    return asyncio.run(_do(arguments))


async def _do(arguments: argparse.Namespace) -> int:
    name: str = arguments.name
    async with open_storage(arguments, "owners") as storage, _open_data(storage, arguments) as data:
        kept = await data.count(name)
        if not kept:
            raise BadConfig(
                f"nothing is kept of an owner '{name}' in {storage.place}; 'ronda keys list' shows owners with keys"
            )
        match arguments.action:
            case "show":
                _show(kept)
            case "export":
                file = arguments.file or f"{name.replace('/', '_') or 'owner'}.tar.gz"
                with new_archive(Path(file)) as archive:
                    await data.export(name, archive)
                print(f"ronda: what is kept of '{name}' is in {file}", file=sys.stderr)
            case _:
                if not arguments.yes:
                    _show(kept)
                    _ask(name)
                _show(await data.delete(name))
                print(f"ronda: all of this is deleted; nothing is kept of '{name}' any more", file=sys.stderr)
    if arguments.action == "delete" and storage.shared is None and storage.folder is not None:
        _wipe(storage.folder)
    return 0


@asynccontextmanager
async def _open_data(storage: Storage, arguments: argparse.Namespace) -> AsyncIterator[OwnerData]:
    features = loadable(arguments.features)
    for feature in features:
        if feature.name == "owners":  # the others' tables are there if a server has had them
            storage.catalog.add_tables(feature.name, feature.tables)
    file_store = storage_config(arguments, "file_store").file_store
    blobs = open_blobs(storage.folder, file_store)
    files = None if blobs is None else FileStore(storage.catalog.files, blobs)
    has_journal = storage.shared is not None or (
        storage.folder is not None and (storage.folder / "journal.db").exists()
    )
    journal = storage.open_journal() if has_journal else None
    try:
        async with sessions_in(storage) as sessions:
            yield OwnerData(
                storage.catalog,
                journal,
                sessions,
                files,
                storage.workspaces,
                storage.folder,
                features,
                storage.clock,
            )
    finally:
        if journal is not None:
            await journal.close()


def _show(kept: dict[str, int]) -> None:
    print_table([("WHAT", "COUNT"), *[(what.replace("_", " "), str(count)) for what, count in sorted(kept.items())]])


def _ask(name: str) -> None:
    if not sys.stdin.isatty():
        raise BadConfig("this deletes for good, and there is no terminal to ask; say --yes")
    typed = input(f"This is deleted for good. Type the owner's name to go through with it ({name!r}): ")
    if typed != name:
        raise BadConfig("that is another name; nothing is deleted")


def _wipe(folder: Path) -> None:
    """What SQLite leaves of deleted rows, in its files and their logs."""
    for name in ("catalog.db", "journal.db"):
        if os.path.exists(folder / name):
            wipe_deleted(str(folder / name))
