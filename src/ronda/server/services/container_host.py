"""Containers: sessions that clients made ahead, or that runs of theirs work in, with files and skills of their own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from msgspec.structs import replace

from ronda.core.containers import StoredContainer
from ronda.core.files import StoredFile
from ronda.core.supplies import NO_LIMITS, CodeLimits, SkillMount
from ronda.errors import BadRequest, NotFound
from ronda.files.file_store import FileFacts, FileStore, not_found
from ronda.server.services.session_folders import SessionFolders
from ronda.store.containers import Containers
from ronda.wire.shared.containers import session_of

_MOST_CONTAINERS = 1000
_TOUCH_SECONDS = 30.0  # its last use is noted no more often


class ContainerHost:
    def __init__(
        self,
        rows: Containers,
        files: FileStore,
        folders: Callable[[], SessionFolders | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rows = rows
        self._files = files
        self._folders = folders
        self._clock = clock

    async def create(
        self,
        owner: str,
        name: str,
        skills: tuple[SkillMount, ...] = (),
        minutes: int | None = None,
        limits: CodeLimits = NO_LIMITS,
    ) -> StoredContainer:
        if len(await self._rows.of(owner)) >= _MOST_CONTAINERS:
            raise BadRequest(f"you have {_MOST_CONTAINERS} containers, and no more are allowed; delete some")
        now = self._clock()
        made = StoredContainer(secrets.token_hex(16), name, now, now, minutes, skills, limits)
        await self._rows.put(owner, made)
        return made

    async def find(self, owner: str, container_id: str) -> StoredContainer:
        """One that was made, or the session of a run that has left something: a folder, or files."""
        session = session_of(container_id)
        found = None if session is None else await self._find(owner, session)
        if found is None:
            raise NotFound(
                f"Container '{container_id[:200]}' not found.", param="container_id", code="container_not_found"
            )
        return found

    async def _find(self, owner: str, session: str) -> StoredContainer | None:
        known = await self._rows.find(owner, session)
        if known is not None:
            if not self._is_over(owner, known):
                return known
            await self.delete(owner, session)
            return None
        files = await self._files.of(owner, session)
        if files:
            return StoredContainer(session, session, files[0].created, files[-1].created)
        if (folders := self._folders()) is not None and (used := folders.last_use(owner, session)) is not None:
            return StoredContainer(session, session, used, used)
        return None

    def _is_over(self, owner: str, container: StoredContainer) -> bool:
        """It was unused for its minutes: no request, and no call of a run that may have begun long before."""
        now = self._clock()
        if not container.is_over(now):
            return False
        used = None if (folders := self._folders()) is None else folders.last_use(owner, container.session)
        return used is None or replace(container, active=used).is_over(now)

    async def sweep(self) -> None:
        """Remove those whose time is up, with their files."""
        for owner, container in await self._rows.expiring():
            if self._is_over(owner, container):
                await self.delete(owner, container.session)

    async def of(self, owner: str) -> list[StoredContainer]:
        """In the order they were made: by a client, or by a run that has made files."""
        made = {one.session: one for one in await self._rows.of(owner) if not self._is_over(owner, one)}
        for file in await self._files.of(owner):
            if file.session and file.session not in made:
                made[file.session] = StoredContainer(file.session, file.session, file.created, file.created)
        return sorted(made.values(), key=lambda one: one.created)

    async def use(self, owner: str, container_id: str) -> StoredContainer:
        """A run works in it."""
        container, now = await self.find(owner, container_id), self._clock()
        if await self._rows.find(owner, container.session) is not None and now - container.active > _TOUCH_SECONDS:
            await self._rows.put(owner, replace(container, active=now))
        return container

    async def delete(self, owner: str, session: str) -> None:
        """With its folder, and all of its files."""
        if (folders := self._folders()) is not None:
            await folders.files.delete(owner, session)
        await self._files.delete_session(owner, session)
        await self._rows.delete(owner, session)

    async def files(self, owner: str, session: str) -> list[StoredFile]:
        return await self._files.of(owner, session)

    async def file(self, owner: str, session: str, file_id: str) -> StoredFile:
        file = await self._files.find(owner, file_id)
        if file.session != session:
            raise not_found(file_id)
        return file

    async def copy(self, owner: str, session: str, file_id: str) -> StoredFile:
        """A file of the owner's, for this container: the same bytes under an id of its own."""
        file = await self._files.find(owner, file_id)
        async with self._files.receive(owner) as upload:
            async for piece in self._files.pieces(file):
                await upload.write(piece)
            return await upload.finish(FileFacts(file.name, "user_data", file.mime_type, file.format, session=session))
