"""Files that clients sent and tools made: what is known of each. Their bytes are somebody else's to keep (`ronda.files`).

Bytes are known by their hash, and two files may share them. Whoever adds the first of them places the bytes, whoever removes
the last drops them; both while nobody else writes, so that no file loses bytes that it has just come to share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from ronda.core.files import StoredFile
from ronda.errors import TooLarge
from ronda.store import WriteConflict

Place: TypeAlias = Callable[[], None]
Drop: TypeAlias = Callable[[str], None]  # by hash


class FileQuota(Struct, frozen=True):
    """What one owner may keep."""

    files: int = 4096
    size: int = 4 * 1024 * 1024 * 1024


class Files(Protocol):
    """A file is known by its owner and its id. One that has expired is not found, also before it is removed."""

    async def add(self, owner: str, file: StoredFile, quota: FileQuota, now: float, place: Place) -> None:
        """`place` is called once nothing stands in the way. Raises QuotaExceeded, or Taken for an id that is."""

    async def find(self, owner: str, id: str, now: float) -> StoredFile | None: ...

    async def of(self, owner: str, now: float, session: str | None = None) -> list[StoredFile]:
        """All of an owner's, or of one session, in the order they came."""

    async def prolong(self, owner: str, session: str, until: float) -> None:
        """Those of a session stay until then at least."""

    async def remove(self, owner: str, id: str, drop: Drop) -> bool: ...

    async def remove_session(self, owner: str, session: str, drop: Drop) -> int: ...

    async def remove_expired(self, now: float, drop: Drop) -> int: ...

    async def drop_unknown(self, hashes: list[str], drop: Drop) -> None:
        """Drops those of these bytes that no file has."""


class QuotaExceeded(TooLarge):
    def __init__(self, quota: FileQuota, files: int, size: int) -> None:
        kept = f"you keep {files} files of {size} bytes together"
        allowed = f"{quota.files} files and {quota.size} bytes are allowed"
        super().__init__(
            f"there is no room for this file: {kept}, and {allowed}; delete some", code="storage_limit_exceeded"
        )


def check_quota(quota: FileQuota, files: int, size: int, more: int) -> None:
    if files + 1 > quota.files or size + more > quota.size:
        raise QuotaExceeded(quota, files, size)


def file_taken(id: str) -> WriteConflict:
    return WriteConflict(f"there is a file '{id}' already")
