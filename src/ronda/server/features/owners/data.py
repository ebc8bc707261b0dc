"""All that is kept of one owner: counted, written to an archive, deleted. For a command, while servers work on the same data.

    owner.tar.gz
      ronda-owner.json      whose, when, by which version, and how much of each
      runs/ID.jsonl         the events of a run, one in a line; runs/ID.previews.json is what is kept of its previews
      sessions/N.json       documents of sessions, as `ronda sessions export` writes them
      files/ID              bytes; tables/file.jsonl has their names
      skills/ID.zip
      folders/NAME/…        what features keep in folders
      tables/NAME.jsonl     rows of the catalog, without secrets

Deleting is done again and again until nothing is found, and may be called again after it broke off: a run that a server drives is
cancelled there first (`features.owners`), and only then forgotten.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import tarfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ronda._version import __version__
from ronda.errors import BadConfig
from ronda.files.file_store import FileStore
from ronda.files.skill_store import zip_owner
from ronda.host import session_documents
from ronda.host.sessions import SessionHost
from ronda.journal import Journal, JournalConflict, RunQuery, RunSummary
from ronda.server.features.contract import Feature
from ronda.server.features.owners.feature import Owners, Removals
from ronda.store.audit import Act
from ronda.store.catalog import Catalog
from ronda.store.keys import new_key
from ronda.store.owners import OWNER_ROWS, OwnerRows, count_rows, delete_rows, read_rows, table_names
from ronda.store.sql import Sql

FORMAT: Final = 1
MANIFEST: Final = "ronda-owner.json"
# The owner of a revoked key that stays, so that a server whose last key is gone does not open.
NO_OWNER: Final = "(deleted)"
_PAGE: Final = 100
_PASS_SECONDS: Final = 0.25  # between two looks at runs that servers still drive
_PATIENCE: Final = 30.0  # seconds that servers have to end them
_LETTER_SECONDS: Final = 30  # after which no process waits for the answer to a letter


class WorkspaceFiles(session_documents.WorkspaceFiles, Protocol):
    async def delete(self, owner: str, session: str) -> None: ...


class Manifest(Struct, frozen=True):
    format: int
    ronda: str
    created: float
    owner: str
    kept: dict[str, int]  # what → how many


class OwnerData:
    def __init__(
        self,
        catalog: Catalog,
        journal: Journal | None,
        sessions: SessionHost,
        files: FileStore | None,
        workspaces: WorkspaceFiles | None,
        folder: Path | None,
        features: Sequence[type[Feature]],
        clock: Callable[[], float],
    ) -> None:
        """`folder` is the data folder of servers, where there is one; `features` are all that may have kept something."""
        self._catalog = catalog
        self._journal = journal
        self._sessions = sessions
        self._files = files
        self._workspaces = workspaces
        self._folder = folder
        self._features = features
        self._clock = clock
        # The mark that the owner is being deleted goes last, by itself.
        of_features = [row for feature in features if feature is not Owners for row in feature.owned]
        self._rows: tuple[OwnerRows, ...] = (*of_features, *OWNER_ROWS)

    async def count(self, owner: str) -> dict[str, int]:
        """Of each kind of thing, how many are kept; nothing for an owner of whom nothing is."""
        counts = (
            await self._catalog.read(lambda db: count_rows(db, self._rows, owner)) if self._catalog.is_there else {}
        )
        runs = len([run async for run in self._runs(owner)])
        folders = len([path for _, path in self._folders(owner) if path.exists()])
        more = {"run": runs, "folder": folders}
        return {**{name: count for name, count in more.items() if count}, **counts}

    async def _runs(self, owner: str) -> AsyncIterator[RunSummary]:
        if self._journal is None:
            return
        before: int | None = None
        while True:
            page = await self._journal.list_runs(RunQuery(owner, limit=_PAGE, before=before))
            for run in page.runs:
                yield run
            if (before := page.before) is None:
                return

    def _folders(self, owner: str) -> Iterator[tuple[str, Path]]:
        if self._folder is not None:
            for feature in self._features:
                for path in feature.owned_folders(self._folder, owner):
                    yield feature.name, path

    # ---- export ------------------------------------------------------------------------------------------------------

    async def export(self, owner: str, archive: tarfile.TarFile) -> None:
        manifest = Manifest(FORMAT, __version__, time.time(), owner, await self.count(owner))
        _add(archive, MANIFEST, msgspec.json.encode(manifest))
        await self._export_runs(owner, archive)
        await self._export_sessions(owner, archive)
        await self._export_files(owner, archive)
        for name, path in self._folders(owner):
            _add_folder(archive, f"folders/{name}", path)
        if self._catalog.is_there:
            for table, rows in await self._catalog.read(lambda db: list(read_rows(db, self._rows, owner))):
                _add(archive, f"tables/{table}.jsonl", _lines(rows))

    async def _export_runs(self, owner: str, archive: tarfile.TarFile) -> None:
        journal = self._journal
        if journal is None:
            return
        async for run in self._runs(owner):
            events = await journal.read(run.run)
            _add(archive, f"runs/{run.run}.jsonl", _lines(events))
            if previews := await journal.previews(run.run):
                _add(archive, f"runs/{run.run}.previews.json", msgspec.json.encode(previews))

    async def _export_sessions(self, owner: str, archive: tarfile.TarFile) -> None:
        for number, name in enumerate(await self._session_names(owner), 1):
            document = await session_documents.export(self._sessions, (owner, name), None, self._workspaces)
            _add(archive, f"sessions/{number:05d}.json", document)

    async def _session_names(self, owner: str) -> list[str]:
        found: list[str] = []
        page = await self._sessions.store.page(owner, _PAGE)
        while True:
            found += [row.name for row in page.sessions]
            if page.before is None:
                return found
            page = await self._sessions.store.page(owner, _PAGE, page.before)

    async def _export_files(self, owner: str, archive: tarfile.TarFile) -> None:
        if self._files is None:
            return
        for file in await self._files.of(owner):
            _add(archive, f"files/{file.id}", await self._files.read(file))
        for file in await self._files.of(zip_owner(owner)):
            _add(archive, f"skills/{file.id}.zip", await self._files.read(file))

    # ---- delete ------------------------------------------------------------------------------------------------------

    async def delete(self, owner: str) -> dict[str, int]:
        """How much of each is gone. Raises BadConfig where a server does not end a run in time: all else is gone then, and the
        command may be called again."""
        gone = await self.count(owner)
        removals = Removals(self._catalog)
        await removals.add(owner, self._clock())
        until = time.monotonic() + _PATIENCE
        while await self._delete_what_is_there(owner):
            if time.monotonic() >= until:
                raise BadConfig(
                    f"a server still drives runs of '{owner}'; stop it, and call this again: what is not under way is gone"
                )
            await asyncio.sleep(_PASS_SECONDS)
        await self._catalog.audit.add(
            Act(
                self._clock(),
                "",
                "",
                "owner.delete",
                _digest(owner),
                "",
                ", ".join(f"{n} {what}" for what, n in gone.items()),
            )
        )
        await removals.remove(owner)
        return gone

    async def _delete_what_is_there(self, owner: str) -> bool:
        """Whether there was something, or a run is still driven."""
        is_busy = False
        sessions = {*await self._session_names(owner), *await self._sessions_elsewhere(owner)}
        for entry in await self._catalog.queue.list(self._clock(), owner):
            await self._catalog.queue.cancel(entry.run, self._clock())
        runs = [run async for run in self._runs(owner)]
        sessions |= {run.session for run in runs if run.session}
        for run in runs:
            assert self._journal is not None
            try:
                await self._journal.forget(run.run)
            except JournalConflict:
                is_busy = True
        files = 0
        if self._files is not None:
            files = await self._files.delete_owner(owner) + await self._files.delete_owner(zip_owner(owner))
        if self._workspaces is not None:
            for session in sessions:
                await self._workspaces.delete(owner, session)
        for _, path in self._folders(owner):
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        rows = await self._catalog.write(lambda db: _delete_rows(db, self._rows, owner, self._clock()))
        return is_busy or bool(runs or files or rows)

    async def _sessions_elsewhere(self, owner: str) -> set[str]:
        """Sessions that have a container or files, and no conversation."""

        def find(db: Sql) -> set[str]:
            question = (
                "SELECT session FROM container WHERE owner = :owner UNION SELECT session FROM file WHERE owner = :owner"
            )
            return {session for (session,) in db.execute(question, {"owner": owner}) if session}

        return await self._catalog.read(find)


def _delete_rows(db: Sql, rows: Sequence[OwnerRows], owner: str, now: float) -> dict[str, int]:
    gone = delete_rows(db, rows, owner)
    db.execute(
        """UPDATE audit SET details = 'owner deleted' WHERE details = 'owner ' || CAST(:owner AS TEXT)
        OR substr(details, 1, length(CAST(:owner AS TEXT)) + 7) = 'owner ' || CAST(:owner AS TEXT) || ';'""",
        {"owner": owner},
    )
    if "key" in gone and not db.execute("SELECT count(*) FROM key").fetchone()[0]:
        _, row = new_key(NO_OWNER, now)
        statement = "INSERT INTO key (id, owner, hash, created, revoked) VALUES (?, ?, ?, ?, ?)"
        db.execute(statement, (row.id, row.owner, row.hash, now, now))
    if "letter" in table_names(db):  # what processes have told each other is of no use any more
        db.execute(f"DELETE FROM letter WHERE sent < clock_timestamp() - interval '{_LETTER_SECONDS} seconds'")
    return gone


def _digest(owner: str) -> str:
    """By which an operator who knows the name can tell that it was this owner: the name itself is gone."""
    return blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=8, person=b"ronda owner").hexdigest()


@contextmanager
def new_archive(target: Path) -> Iterator[tarfile.TarFile]:
    """Made anew; only the user who calls the command may read it. Half of it is none."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadConfig(f"{target} is there already; choose another name") from None
    except OSError as error:
        raise BadConfig(f"cannot write {target}: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            yield archive
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _lines(values: Sequence[object]) -> bytes:
    return b"".join([msgspec.json.encode(value) + b"\n" for value in values])


def _add_folder(archive: tarfile.TarFile, name: str, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            _add(archive, f"{name}/{path.relative_to(folder)}", path.read_bytes())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(data))
