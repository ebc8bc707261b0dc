"""What the rest of a server asks of the feature that runs code: the folders that sessions work in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ronda.core.supplies import Supplies
from ronda.drive import Tool
from ronda.host.session_documents import WorkspaceFiles

if TYPE_CHECKING:
    from ronda.files.skill_store import SkillStore
    from ronda.tools.files.session_files import SessionFiles


class FilesOfSessions(WorkspaceFiles, Protocol):
    async def delete(self, owner: str, session: str) -> None: ...


class SessionFolders(Protocol):
    @property
    def python(self) -> str:
        """The Python that code runs on."""

    @property
    def is_offered(self) -> bool:
        """Whether requests get what runs code without asking for it."""

    @property
    def files(self) -> FilesOfSessions: ...

    def last_use(self, owner: str, session: str) -> float | None:
        """When a session's folder was last used, if it has one."""

    def prepare_tools(
        self, tools: Mapping[str, Tool], files: SessionFiles, supplies: Supplies, skills: SkillStore
    ) -> dict[str, Tool]:
        """The same tools for one run: what its request gave is in their folder when they are called."""

    async def close(self) -> None: ...
