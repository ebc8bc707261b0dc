"""Files of a catalog that forgets with its process."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ronda.core.files import StoredFile
from ronda.store.files import Drop, FileQuota, Place, check_quota, file_taken


class MemoryFiles:
    def __init__(self) -> None:
        self._files: dict[tuple[str, str], StoredFile] = {}  # by owner and id, in the order they came

    async def add(self, owner: str, file: StoredFile, quota: FileQuota, now: float, place: Place) -> None:
        if any(id == file.id for _, id in self._files):
            raise file_taken(file.id)
        mine = await self.of(owner, now)
        check_quota(quota, len(mine), sum(one.size for one in mine), file.size)
        place()
        self._files[owner, file.id] = file

    async def find(self, owner: str, id: str, now: float) -> StoredFile | None:
        file = self._files.get((owner, id))
        return None if file is None or _is_over(file, now) else file

    async def of(self, owner: str, now: float, session: str | None = None) -> list[StoredFile]:
        mine = [file for (whose, _), file in self._files.items() if whose == owner and not _is_over(file, now)]
        return [file for file in mine if session is None or file.session == session]

    async def prolong(self, owner: str, session: str, until: float) -> None:
        for key, file in self._files.items():
            if key[0] == owner and file.session == session and file.expires is not None:
                self._files[key] = replace(file, expires=max(file.expires, until))

    async def remove(self, owner: str, id: str, drop: Drop) -> bool:
        return self._remove(lambda whose, file: (whose, file.id) == (owner, id), drop) > 0

    async def remove_session(self, owner: str, session: str, drop: Drop) -> int:
        return self._remove(lambda whose, file: (whose, file.session) == (owner, session), drop)

    async def remove_expired(self, now: float, drop: Drop) -> int:
        return self._remove(lambda whose, file: _is_over(file, now), drop)

    async def drop_unknown(self, hashes: list[str], drop: Drop) -> None:
        known = {file.hash for file in self._files.values()}
        for hash in hashes:
            if hash not in known:
                drop(hash)

    def _remove(self, matches: Callable[[str, StoredFile], bool], drop: Drop) -> int:
        gone = [(key, file) for key, file in self._files.items() if matches(key[0], file)]
        for key, _ in gone:
            del self._files[key]
        known = {file.hash for file in self._files.values()}
        for hash in {file.hash for _, file in gone} - known:
            drop(hash)
        return len(gone)


def _is_over(file: StoredFile, now: float) -> bool:
    return file.expires is not None and file.expires <= now
