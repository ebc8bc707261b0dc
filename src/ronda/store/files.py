"""Files that clients sent and tools made: what is known of each. Their bytes are kept by `ronda.files`.

Bytes are known by their hash, and two files may share them. Adding the first of them places the bytes, removing
the last drops them, both while no other writes, so that no file loses bytes that it has just come to share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.core.files import StoredFile
from ronda.errors import TooLarge
from ronda.store import WriteConflict
from ronda.store.sql import Duplicate, Sql, TableStore

_INSERT: Final = """INSERT INTO file (id, owner, session, hash, size, created, expires, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

Place: TypeAlias = Callable[[], None]
Drop: TypeAlias = Callable[[str], None]  # by hash


_ALONE = "files"  # quotas are counted, and bytes are shared
_THERE = "(expires IS NULL OR expires > ?)"


class FileQuota(Struct, frozen=True):
    """What one owner may keep."""

    files: int = 4096
    size: int = 4 * 1024 * 1024 * 1024


class QuotaExceeded(TooLarge):
    def __init__(self, quota: FileQuota, files: int, size: int) -> None:
        usage = f"you keep {files} files of {size} bytes together"
        allowed = f"{quota.files} files and {quota.size} bytes are allowed"
        super().__init__(
            f"there is no room for this file: {usage}, and {allowed}; delete some", code="storage_limit_exceeded"
        )


class Files(TableStore):
    """A file is known by its owner and its id. One that has expired is not found, also before it is removed."""

    async def add(self, owner: str, file: StoredFile, quota: FileQuota, now: float, place: Place) -> None:
        """`place` is called once nothing stands in the way. Raises QuotaExceeded, or WriteConflict for an id that is taken."""

        def add(db: Sql) -> None:
            question = f"SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM file WHERE owner = ? AND {_THERE}"
            files, size = db.execute(question, (owner, now)).fetchone()
            if files + 1 > quota.files or size + file.size > quota.size:
                raise QuotaExceeded(quota, files, size)
            row = (
                file.id,
                owner,
                file.session,
                file.hash,
                file.size,
                file.created,
                file.expires,
                msgspec.json.encode(file),
            )
            db.execute(_INSERT, row)
            place()

        try:
            await self._tables.write(add, _ALONE)
        except Duplicate as error:
            raise WriteConflict(f"there is a file '{file.id}' already") from error

    async def total(self, now: float) -> tuple[int, int]:
        """How many there are of all owners, and their bytes: those that several files share count for each."""
        question = f"SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM file WHERE {_THERE}"
        found = await self._rows(question, (now,))
        return (found[0][0], found[0][1]) if found else (0, 0)

    async def find(self, owner: str, file_id: str, now: float) -> StoredFile | None:
        found = await self._select("owner = ? AND id = ?", (owner, file_id), now)
        return found[0] if found else None

    async def of(self, owner: str, now: float, session: str | None = None) -> list[StoredFile]:
        """All of an owner's, or of one session, in the order they came."""
        if session is None:
            return await self._select("owner = ?", (owner,), now)
        return await self._select("owner = ? AND session = ?", (owner, session), now)

    async def _select(self, condition: str, values: tuple[str, ...], now: float) -> list[StoredFile]:
        question = f"SELECT body, expires FROM file WHERE {condition} AND {_THERE} ORDER BY created, rowid"
        return [_read(body, expires) for body, expires in await self._rows(question, (*values, now))]

    async def prolong(self, owner: str, session: str, until: float) -> None:
        """Those of a session stay until then at least."""
        statement = "UPDATE file SET expires = ? WHERE owner = ? AND session = ? AND expires < ?"
        await self._change(statement, (until, owner, session, until))

    async def remove(self, owner: str, file_id: str, drop: Drop) -> bool:
        return await self._remove("owner = ? AND id = ?", (owner, file_id), drop) > 0

    async def remove_session(self, owner: str, session: str, drop: Drop) -> int:
        return await self._remove("owner = ? AND session = ?", (owner, session), drop)

    async def remove_owner(self, owner: str, drop: Drop) -> int:
        return await self._remove("owner = ?", (owner,), drop)

    async def remove_expired(self, now: float, drop: Drop) -> int:
        return await self._remove("expires <= ?", (now,), drop)

    async def _remove(self, condition: str, values: Sequence[Any], drop: Drop) -> int:
        def remove(db: Sql) -> int:
            gone = db.execute(f"DELETE FROM file WHERE {condition} RETURNING hash", values).fetchall()
            _drop_unknown(db, [digest for (digest,) in gone], drop)
            return len(gone)

        return await self._tables.write(remove, _ALONE) if self._tables.is_there else 0

    async def drop_unknown(self, hashes: list[str], drop: Drop) -> None:
        """Drops those of these bytes that no file has."""
        await self._tables.write(lambda db: _drop_unknown(db, hashes, drop), _ALONE)


def _drop_unknown(db: Sql, hashes: list[str], drop: Drop) -> None:
    for digest in dict.fromkeys(hashes):
        if db.execute("SELECT 1 FROM file WHERE hash = ? LIMIT 1", (digest,)).fetchone() is None:
            drop(digest)


def _read(body: bytes, expires: float | None) -> StoredFile:
    return replace(msgspec.json.decode(body, type=StoredFile), expires=expires)
