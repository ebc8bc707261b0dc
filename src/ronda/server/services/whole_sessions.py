"""A session with all that belongs to it: what was said, the files of its workspace, its containers, what was approved in it.

The same over HTTP and for a `Runner`. What a document of a session is, `host.session_documents` knows.
"""

from __future__ import annotations

from collections.abc import Callable

from ronda.host import session_documents
from ronda.host.leases import Key
from ronda.server.services.container_host import ContainerHost
from ronda.server.services.runs import Runs
from ronda.server.services.session_folders import SessionFolders
from ronda.store.catalog import Catalog
from ronda.store.marks import of_session
from ronda.wire.own.sessions import SessionDocument


class WholeSessions:
    """`folders`: what runs code here, if anything does."""

    def __init__(
        self, runs: Runs, catalog: Catalog, containers: ContainerHost, folders: Callable[[], SessionFolders | None]
    ) -> None:
        self._runs = runs
        self._catalog = catalog
        self._containers = containers
        self._folders = folders

    async def export(self, key: Key, branch: str | None = None) -> bytes:
        return await session_documents.export(self._runs.sessions, key, branch, self._workspaces())

    async def put(self, key: Key, document: SessionDocument) -> None:
        await session_documents.put(self._runs.sessions, key, document, self._workspaces())

    async def fork(
        self,
        key: Key,
        name: str | None = None,
        *,
        num_turns: int | None = None,
        run: str | None = None,
        round_index: int | None = None,
    ) -> str:
        made = await session_documents.fork(
            self._runs.sessions,
            key,
            name,
            num_turns=num_turns,
            run=run,
            round_index=round_index,
            workspaces=self._workspaces(),
        )
        await self._catalog.marks.copy(key[0], of_session(key[1]), of_session(made), self._runs.clock())
        return made

    async def delete(self, key: Key) -> bool:
        was_there = await session_documents.delete(self._runs.sessions, key)
        await self._containers.delete(*key)
        await self._catalog.approved_tools.forget(*key)
        await self._catalog.marks.forget(key[0], of_session(key[1]))
        return was_there

    def _workspaces(self) -> session_documents.WorkspaceFiles | None:
        return None if (folders := self._folders()) is None else folders.files
