"""A data folder → one file, while servers work on it; and back, into a folder that is empty.

    backup.tar.gz
      ronda-backup.json     when, by which version, and the SHA-256 of every file
      data/…                catalog.db, journal.db, files/, workspaces/, and whatever else is in the folder

Databases are copied by SQLite's own backup, which sees one moment of each. The catalog is copied first, the journal second,
files last: what the first names is there in the next. Locks, logs of SQLite and links are left out: they mean nothing elsewhere.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct

from ronda._version import __version__
from ronda.errors import BadConfig

FORMAT: Final = 1
MANIFEST: Final = "ronda-backup.json"
MAX_MANIFEST: Final = 256_000_000  # bytes: about two million files
_DATA: Final = "data"
_SQLITE: Final = b"SQLite format 3\0"
_PASSING: Final = re.compile(
    r"(-wal|-shm|-journal|-open-[0-9a-f]+)$"
)  # what SQLite and `Presence` put next to a database
_FIRST: Final = ("catalog.db", "journal.db")
_CHUNK: Final = 1_000_000


class Manifest(Struct, frozen=True):
    format: int
    ronda: str
    created: float
    files: dict[str, str]  # path → SHA-256


class BackupResult(Struct, frozen=True):
    files: int
    bytes: int
    left_out: int  # links, sockets and the like


def write_backup(folder: Path, target: Path) -> BackupResult:
    """`target` is made anew, and only its owner may read it: it has all that was said."""
    if not (folder / "journal.db").is_file() and not (folder / "catalog.db").is_file():
        raise BadConfig(f"there is nothing to back up in {folder}; --data-dir says where the server keeps its data")
    if target.resolve().is_relative_to(folder.resolve()):
        raise BadConfig(f"the backup would be part of itself: choose a file outside {folder}")
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadConfig(f"{target} is there already; choose another name") from None
    except OSError as error:
        raise BadConfig(f"cannot write {target}: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=3) as archive:
            return _fill(archive, folder)
    except BaseException:
        target.unlink(missing_ok=True)  # half a backup is none
        raise


def _fill(archive: tarfile.TarFile, folder: Path) -> BackupResult:
    hashes: dict[str, str] = {}
    total = left_out = 0
    with tempfile.TemporaryDirectory(prefix="ronda-backup-") as scratch:
        for name, path in _in_order(folder):
            if path is None:
                left_out += 1
                continue
            copied = Path(scratch) / "file"
            try:
                _copy(path, copied)
            except FileNotFoundError:
                continue  # deleted meanwhile
            hashes[name] = _hash(copied)
            total += copied.stat().st_size
            archive.add(copied, f"{_DATA}/{name}", filter=_plain)
            copied.unlink()
    manifest = msgspec.json.encode(Manifest(FORMAT, __version__, time.time(), hashes))
    entry = tarfile.TarInfo(MANIFEST)
    entry.size, entry.mtime, entry.mode = len(manifest), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(manifest))
    return BackupResult(len(hashes), total, left_out)


def _in_order(folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Names and files; None for what is left out."""
    found = {str(PurePosixPath(path.relative_to(folder))): path for path in _walk(folder)}
    for name in _FIRST:
        if name in found:
            yield name, found.pop(name)
    for name, path in sorted(found.items()):
        if not _PASSING.search(name):
            yield name, path if path.is_file() and not path.is_symlink() else None


def _walk(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):  # follows no link
        for name in [*names, *(one for one in folders if os.path.islink(os.path.join(where, one)))]:
            yield Path(where) / name


def _copy(path: Path, to: Path) -> None:
    if path.suffix == ".db" and _is_database(path):
        try:
            with closing(sqlite3.connect(path, timeout=30)) as source, closing(sqlite3.connect(to)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log next to it
        except sqlite3.Error as error:
            raise BadConfig(f"cannot back {path} up: {error}") from error
        return
    shutil.copyfile(path, to, follow_symlinks=False)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of who made it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o600
    return entry


# ---- and back -----------------------------------------------------------------------------------------------------------


def restore_backup(source: Path, folder: Path) -> Manifest:
    """Into a folder that is not there, or empty. Either all of it is there in the end, or nothing."""
    if folder.exists() and any(folder.iterdir()):
        raise BadConfig(f"{folder} is not empty; restore into a new folder, and start the server with --data-dir")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise BadConfig(f"cannot write to {folder.parent}: {error.strerror}") from error
    try:
        manifest = _unpack(source, scratch)
        if folder.exists():
            folder.rmdir()
        scratch.rename(folder)  # one step, in one file system
        return manifest
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _unpack(source: Path, folder: Path) -> Manifest:
    manifest: Manifest | None = None
    hashes: dict[str, str] = {}
    try:
        with tarfile.open(source, "r:gz") as archive:
            for entry in archive:
                if entry.name == MANIFEST:
                    manifest = _manifest(archive, entry, source)
                elif entry.isfile():
                    name = _safe_name(entry.name, source)
                    hashes[name] = _extract(archive, entry, folder / name)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BadConfig(f"{source} is no backup, or is damaged: {error}") from error
    if manifest is None:
        raise BadConfig(f"{source} is no backup, or breaks off: it has no {MANIFEST}")
    if hashes != manifest.files:
        wrong = sorted(name for name in {*hashes, *manifest.files} if hashes.get(name) != manifest.files.get(name))
        raise BadConfig(f"{source} is damaged: '{wrong[0]}' is not as it was written")
    return manifest


def _manifest(archive: tarfile.TarFile, entry: tarfile.TarInfo, source: Path) -> Manifest:
    file = archive.extractfile(entry)
    if file is None or entry.size > MAX_MANIFEST:
        raise BadConfig(f"{source} is no backup: its {MANIFEST} is too large")
    try:
        manifest = msgspec.json.decode(file.read(), type=Manifest)
    except msgspec.DecodeError as error:
        raise BadConfig(f"{source} is no backup: {error}") from error
    if manifest.format > FORMAT:
        raise BadConfig(f"{source} was made by Ronda {manifest.ronda}; this is {__version__}, which cannot read it")
    return manifest


def _safe_name(name: str, source: Path) -> str:
    parts = PurePosixPath(name).parts
    if len(parts) < 2 or parts[0] != _DATA or ".." in parts or "\\" in name:
        raise BadConfig(f"{source} is no backup: it has a file {name[:200]!r}")
    return str(PurePosixPath(*parts[1:]))


def _extract(archive: tarfile.TarFile, entry: tarfile.TarInfo, to: Path) -> str:
    to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = archive.extractfile(entry)
    assert file is not None  # it is a file
    digest = hashlib.sha256()
    with open(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()
