"""The files in a session's workspace, as its document has them. What is too large, or too much, is named without its bytes.

Code may have arranged its folder as it likes: no link is followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from ronda.errors import BadRequest, RondaError
from ronda.files.workspaces import Workspaces
from ronda.sandbox.user import server_user
from ronda.sandbox.workspace import list_files, read_output, write_input
from ronda.wire.own.sessions import SessionFile

MOST_FILES: Final = 256
MOST_BYTES: Final = 24 << 20  # of all of them: as base64 they must fit into the body of an import


class WorkspaceFiles:
    """`close` ends the processes of a session, which must not see its files change."""

    def __init__(self, workspaces: Workspaces, close: Callable[[str, str], Awaitable[None]]) -> None:
        self._workspaces = workspaces
        self._close = close

    async def read(self, owner: str, session: str) -> list[SessionFile]:
        return await asyncio.to_thread(self._read, owner, session)

    def _read(self, owner: str, session: str) -> list[SessionFile]:
        folder = self._workspaces.existing_folder(owner, session)
        found: list[SessionFile] = []
        left = MOST_BYTES
        for file in [] if folder is None else list_files(folder)[:MOST_FILES]:
            content = None if file.size > left else _content(folder, file.name, left)
            left -= 0 if content is None else len(content)
            found.append(SessionFile(file.name, content))
        return found

    async def write(self, owner: str, session: str, files: Sequence[SessionFile]) -> None:
        """In the place of what is there."""
        _check_names(files)
        await self.delete(owner, session)
        if files:
            await asyncio.to_thread(self._write, owner, session, files)

    async def delete(self, owner: str, session: str) -> None:
        await self._close(owner, session)
        await self._workspaces.delete(owner, session)

    def _write(self, owner: str, session: str, files: Sequence[SessionFile]) -> None:
        folder, user = self._workspaces.folder(owner, session), server_user()
        for index, file in enumerate(files):
            if file.content is None:
                continue
            try:
                write_input(folder, file.name, file.content, user)
            except (OSError, BadRequest) as error:
                raise BadRequest(
                    f"'files[{index}]' cannot be put into the workspace: {error}", param="files"
                ) from error


def _check_names(files: Sequence[SessionFile]) -> None:
    """Before anything is touched."""
    for index, file in enumerate(files):
        parts = file.name.split("/")
        if "\0" in file.name or any(part in ("", ".", "..") for part in parts):
            raise BadRequest(
                f"'files[{index}].name' is {file.name[:100]!r}; it must be a path inside the workspace", param="files"
            )


def _content(folder: Path | None, name: str, limit: int) -> bytes | None:
    """None of a file that is gone by now, or has become something else."""
    assert folder is not None
    try:
        return read_output(folder, name, limit)
    except RondaError:
        return None
