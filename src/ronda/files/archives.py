"""A folder that a client sends, as a zip or file by file → its files by path, or what is wrong with it. In memory, and bounded.

An archive is hostile until it is read: one of a few bytes may unpack to more than the machine has, and a name may lead anywhere.
"""

from __future__ import annotations

import io
import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from ronda.errors import BadRequest, TooLarge

# What zipfile raises at bytes that are no zip, or a damaged one: it checks little before it uses it.
_UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError,
    LookupError, ValueError, RuntimeError, OverflowError,
)  # fmt: skip
_PIECE: Final = 64 * 1024
_LONGEST_PATH: Final = 512
_JUNK: Final = ("__MACOSX/", ".DS_Store")  # what a Mac puts into each zip


class ArchiveLimits(Struct, frozen=True):
    files: int = 500
    size: int = 50 * 1024 * 1024  # of all files together, unpacked
    ratio: int = 200  # unpacked to packed: text seldom packs better than to a twentieth
    depth: int = 10


DEFAULT_LIMITS: Final = ArchiveLimits()
# Of what was within the limits when it came: its folder has one name more, and it may pack better here than there.
STORED_LIMITS: Final = ArchiveLimits(ratio=10_000, depth=11)


def is_zip(name: str, data: bytes) -> bool:
    return name.lower().endswith(".zip") or data.startswith(b"PK\x03\x04")


def unpack_zip(data: bytes, limits: ArchiveLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """Blocks for as long as the unpacking takes: for a thread."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_junk(entry.filename)]
            if len(entries) > limits.files:
                raise TooLarge(f"the zip has {len(entries)} files; {limits.files} are allowed")
            room = min(limits.size, max(len(data), _PIECE) * limits.ratio)
            found: list[tuple[str, bytes]] = []
            for entry in entries:
                if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                    raise BadRequest("Skill zip may not contain symlinks.")
                if entry.flag_bits & 1:
                    raise BadRequest(f"the zip's {entry.filename[:100]!r} is encrypted; send it without a password")
                content = _read_entry(archive, entry, room)
                room -= len(content)
                found.append((entry.filename, content))
    except BadRequest:
        raise
    except _UNREADABLE as error:
        raise BadRequest(f"the zip cannot be read: {error}") from error
    return folder_of(found, limits)


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, room: int) -> bytes:
    """No more than fits: what an entry says of its own size is not believed."""
    content = bytearray()
    with archive.open(entry) as opened:
        while piece := opened.read(_PIECE):
            content += piece
            if len(content) > room:
                raise TooLarge("the zip unpacks to more than is allowed")
    return bytes(content)


def _is_junk(path: str) -> bool:
    return path.startswith(_JUNK[0]) or path.rpartition("/")[2] == _JUNK[1]


def folder_of(files: Iterable[tuple[str, bytes]], limits: ArchiveLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """Files by their paths, each of which stays below the folder and is there once."""
    folder: dict[str, bytes] = {}
    size = 0
    for path, content in files:
        checked = _check_path(path, limits)
        size += len(content)
        if len(folder) >= limits.files or size > limits.size:
            raise TooLarge(f"at most {limits.files} files of {limits.size} bytes together are allowed")
        if checked in folder:
            raise BadRequest(f"the path {path[:100]!r} is there twice")
        folder[checked] = content
    for path in folder:
        parts = path.split("/")
        if any("/".join(parts[:upto]) in folder for upto in range(1, len(parts))):
            raise BadRequest(f"the path {path[:100]!r} leads through a file")
    return folder


def _check_path(path: str, limits: ArchiveLimits) -> str:
    parts = path.split("/")
    is_plain = path.isprintable() and "\\" not in path and ":" not in parts[0] and len(path) <= _LONGEST_PATH
    if not is_plain or any(part in ("", ".", "..") for part in parts) or len(parts) > limits.depth:
        raise BadRequest("Skill zip contains an unsafe path.")
    return path


def pack_zip(files: Mapping[str, bytes]) -> bytes:
    """The same files always give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[path])
    return packed.getvalue()
