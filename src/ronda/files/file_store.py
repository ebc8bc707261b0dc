"""The files of all owners. Bytes come in by an `Upload`, of any size in little memory; a file is found by its owner only.

async with store.receive("ann") as upload: await upload.write(piece) …, await upload.finish(facts) → StoredFile
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from ronda.core.files import FileSource, StoredFile
from ronda.errors import NotFound, TooLarge
from ronda.files.blobs import Blobs, NewBlob
from ronda.store.files import FileQuota, Files, QuotaExceeded
from ronda.wire.shared.file_kinds import OCTETS, format_of, mime_type_of

USER_UPLOAD: Final = FileSource("user_upload")
INPUT: Final = FileSource("input_file")

MADE: Final = ("tool_result", "agent_output")  # purposes of files that tools made

_PIECE: Final = 256 * 1024  # bytes that are written and read at a time: less than a millisecond of a thread's
_SPARE: Final = 64  # files for which there is room when some had to go, so that the next ones need not look again
_SWEPT: Final = 500  # that are looked up while no other writes


class FileLimits(Struct, frozen=True):
    """`size` is that of one file. One that belongs to a session stays for so long after the session was last used.

    Where an owner keeps as much as they may, a file that a tool makes takes the place of those that tools made in other sessions,
    the oldest first, if they have been there for `made_seconds`. What clients sent stays.
    """

    size: int = 512 * 1024 * 1024  # OpenAI's own
    quota: FileQuota = FileQuota()
    session_seconds: float = 30 * 86400.0
    made_seconds: float = 86400.0


class FileFacts(Struct, frozen=True):
    """What is said of a file that comes in. `lifetime` is in seconds; None for as long as its session lasts, or for good."""

    name: str
    purpose: str = "user_data"
    mime_type: str = ""
    format: str = ""
    source: FileSource = USER_UPLOAD
    session: str = ""
    lifetime: float | None = None
    id: str = ""  # "" for a new one


class FileStore:
    def __init__(
        self, rows: Files, blobs: Blobs, limits: FileLimits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.limits = limits or FileLimits()
        self._rows = rows
        self._blobs = blobs
        self._clock = clock

    @asynccontextmanager
    async def receive(self, owner: str) -> AsyncIterator[Upload]:
        """A file that comes in. What is not finished at the end is forgotten."""
        upload = Upload(self, owner, await asyncio.to_thread(self._blobs.begin))
        try:
            yield upload
        finally:
            await asyncio.shield(asyncio.to_thread(upload.blob.discard))

    async def add(self, owner: str, data: bytes, facts: FileFacts) -> StoredFile:
        async with self.receive(owner) as upload:
            await upload.write(data)
            return await upload.finish(facts)

    async def keep(self, owner: str, blob: NewBlob, facts: FileFacts) -> StoredFile:
        digest, is_text = await asyncio.to_thread(blob.finish)
        now = self._clock()
        file_format = format_of(facts.name, facts.format)
        lifetime = facts.lifetime
        if lifetime is None and facts.session:
            lifetime = self.limits.session_seconds
        file = StoredFile(
            id=facts.id or f"file-{secrets.token_hex(16)}",
            name=facts.name,
            size=blob.size,
            hash=digest,
            mime_type=facts.mime_type if facts.mime_type not in ("", OCTETS) else mime_type_of(file_format),
            created=now,
            purpose=facts.purpose,
            source=facts.source,
            format=file_format,
            is_text=is_text,
            session=facts.session,
            expires=None if lifetime is None else now + lifetime,
        )
        try:
            await self._rows.add(owner, file, self.limits.quota, now, blob.place)
        except QuotaExceeded:
            if file.purpose not in MADE or not await self._make_room(owner, file):
                raise
            await self._rows.add(owner, file, self.limits.quota, now, blob.place)
        return file

    async def _make_room(self, owner: str, new: StoredFile) -> bool:
        """Whether there is room now. If there could not be, nothing goes."""
        quota, known = self.limits.quota, await self.of(owner)
        over, spare = new.created - self.limits.made_seconds, min(_SPARE, quota.files // 16)
        old = [one for one in known if one.purpose in MADE and one.session != new.session and one.created <= over]
        files, size, going = len(known) + 1, sum([one.size for one in known]) + new.size, list[StoredFile]()
        for one in old:
            if files <= quota.files - spare and size <= quota.size:
                break
            files, size = files - 1, size - one.size
            going.append(one)
        if files > quota.files or size > quota.size:
            return False
        for one in going:
            await self._rows.remove(owner, one.id, self._blobs.drop)
        return True

    async def find(self, owner: str, file_id: str) -> StoredFile:
        file = await self._rows.find(owner, file_id, self._clock())
        if file is None:
            raise not_found(file_id)
        return file

    async def of(self, owner: str, session: str | None = None) -> list[StoredFile]:
        """In the order they came."""
        return await self._rows.of(owner, self._clock(), session)

    async def read(self, file: StoredFile, start: int = 0, most: int | None = None) -> bytes:
        """Its bytes from `start` on."""

        def read() -> bytes:
            try:
                with self._blobs.open(file.hash) as opened:
                    opened.seek(start)
                    return opened.read(file.size if most is None else most)
            except FileNotFoundError:  # deleted since it was found
                raise not_found(file.id) from None

        return await asyncio.to_thread(read)

    async def pieces(self, file: StoredFile) -> AsyncIterator[bytes]:
        """Its bytes, for one who reads as fast as they like: from one look at it to the end, also if it is deleted meanwhile."""
        try:
            opened = await asyncio.to_thread(self._blobs.open, file.hash)
        except FileNotFoundError:
            raise not_found(file.id) from None
        try:
            while piece := await asyncio.to_thread(opened.read, _PIECE):
                yield piece
        finally:
            opened.close()

    async def delete(self, owner: str, file_id: str) -> None:
        if not await self._rows.remove(owner, file_id, self._blobs.drop):
            raise not_found(file_id)

    async def prolong(self, owner: str, session: str) -> None:
        """A session was used: its files stay."""
        await self._rows.prolong(owner, session, self._clock() + self.limits.session_seconds)

    async def delete_session(self, owner: str, session: str) -> None:
        await self._rows.remove_session(owner, session, self._blobs.drop)

    async def delete_owner(self, owner: str) -> int:
        """All of an owner's, expired ones too; how many they were."""
        return await self._rows.remove_owner(owner, self._blobs.drop)

    async def remove_expired(self) -> None:
        await self._rows.remove_expired(self._clock(), self._blobs.drop)

    async def sweep(self) -> None:
        """Removes what has expired, and what a process that was killed left behind: at the start, and now and then."""
        await self.remove_expired()
        await asyncio.to_thread(self._blobs.sweep)
        hashes = await asyncio.to_thread(self._blobs.hashes)
        for index in range(0, len(hashes), _SWEPT):
            await self._rows.drop_unknown(hashes[index : index + _SWEPT], self._blobs.drop)


class Upload:
    """One file that comes in, piece by piece."""

    def __init__(self, store: FileStore, owner: str, blob: NewBlob) -> None:
        self.blob = blob
        self._store = store
        self._owner = owner
        self._waiting: list[bytes] = []
        self._size = 0  # of what waits
        self._total = 0

    async def write(self, data: bytes) -> None:
        self._total += len(data)
        limit = self._store.limits.size
        if self._total > limit:
            raise TooLarge(f"the file has more than the {limit} bytes this server takes", param="file")
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= _PIECE:
            await self._flush()

    async def finish(self, facts: FileFacts) -> StoredFile:
        await self._flush()
        return await self._store.keep(self._owner, self.blob, facts)

    async def _flush(self) -> None:
        if self._waiting:
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            await asyncio.to_thread(self.blob.write, data)


def not_found(file_id: str) -> NotFound:
    return NotFound(f"File '{file_id[:200]}' not found or expired", code="file_not_found")
