"""A session with all that belongs to it: what was said, the files of its workspace, its containers, what was approved in it.

The same over HTTP and for a `Runner`. What a document of a session is, `host.session_documents` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ronda.host import session_documents
from ronda.host.leases import Key
from ronda.store.marks import of_session
from ronda.wire.sessions import SessionDocument

if TYPE_CHECKING:
    from ronda.server.app import Server


async def export_session(server: Server, key: Key, branch: str | None = None) -> bytes:
    return await session_documents.export(server.runs.sessions, key, branch, _workspaces(server))


async def import_session(server: Server, key: Key, document: SessionDocument) -> None:
    await session_documents.put(server.runs.sessions, key, document, _workspaces(server))


async def fork_session(
    server: Server,
    key: Key,
    name: str | None = None,
    *,
    num_turns: int | None = None,
    run: str | None = None,
    round: int | None = None,
) -> str:
    where = {"num_turns": num_turns, "round": round}
    made = await session_documents.fork(
        server.runs.sessions, key, name, run=run, workspaces=_workspaces(server), **where
    )
    await server.catalog.marks.copy(key[0], of_session(key[1]), of_session(made), server.clock())
    return made


async def delete_session(server: Server, key: Key) -> bool:
    was_there = await session_documents.delete(server.runs.sessions, key)
    await server.containers.delete(*key)
    await server.catalog.approved_tools.forget(*key)
    await server.catalog.marks.forget(key[0], of_session(key[1]))
    return was_there


def _workspaces(server: Server) -> session_documents.WorkspaceFiles | None:
    return None if server.code is None else server.code.files
