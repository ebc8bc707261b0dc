"""What a request gave, put into a session's folder: its files, and its skills, before code runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ronda.core.supplies import Supplies
from ronda.drive import ToolContext
from ronda.files.skill_mounts import is_mounted, link, mount
from ronda.files.skill_store import SkillStore
from ronda.files.workspaces import WorkspaceInput, Workspaces
from ronda.sandbox.box import Sandbox
from ronda.sandbox.workspace import list_files, write_input
from ronda.server.services.input_files import mount_names
from ronda.tools.code.workbench import Workbench
from ronda.tools.files.session_files import SessionFiles


class Supplier:
    """For one run. Its calls never overlap with others of the session: their tools are exclusive."""

    def __init__(
        self, workbench: Workbench, workspaces: Workspaces, files: SessionFiles, supplies: Supplies, skills: SkillStore
    ) -> None:
        self._workbench = workbench
        self._workspaces = workspaces
        self._files = files
        self._supplies = supplies
        self._skills = skills
        self._is_in_use = False

    async def place(self, context: ToolContext) -> None:
        if not self._is_in_use:  # files that its code made before stay as long as it is used
            self._is_in_use = True
            await self._files.store.prolong(context.owner, context.session)
        await self._workbench.limit(context, self._supplies.limits)
        async with self._workbench.use(context) as session:
            sandbox = session.sandbox
            if brought := await self._files.brought(context):
                names = mount_names([file.name for file in brought])
                inputs = [
                    WorkspaceInput(file.id, name, file.size, partial(self._files.read, file))
                    for file, name in zip(brought, names, strict=True)
                ]
                if self._workbench.is_shared:
                    await _put_missing(sandbox, inputs)
                else:
                    await self._workspaces.put(context.owner, context.session, inputs, sandbox.user)
            if self._supplies.skills and sandbox.side_folder is not None:
                await self._mount(context.owner, Path(sandbox.workspace), sandbox.side_folder)

    async def _mount(self, owner: str, workspace: Path, target: str) -> None:
        wanted = [f"{skill.directory}/{skill.content}" for skill in self._supplies.skills]
        if not await asyncio.to_thread(is_mounted, workspace, wanted):
            folders = {
                skill.directory: await self._skills.files_of(owner, skill.content) for skill in self._supplies.skills
            }
            await asyncio.to_thread(mount, workspace, wanted, folders)
        await asyncio.to_thread(link, workspace, target)


async def _put_missing(sandbox: Sandbox, inputs: Sequence[WorkspaceInput]) -> None:
    """Into a folder that all sessions share: what is there under a name is left alone."""
    there = {file.name for file in await asyncio.to_thread(list_files, sandbox.workspace)}
    for one in inputs:
        if one.name not in there:
            await asyncio.to_thread(write_input, sandbox.workspace, one.name, await one.read(), sandbox.user)
