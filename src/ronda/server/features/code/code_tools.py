"""Python and shell for the sessions of a server, where its operator has switched them on: each call in its session's sandbox."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from ronda.core.supplies import Supplies
from ronda.drive import Tool
from ronda.errors import BadConfig, RondaError
from ronda.files.file_store import FileStore
from ronda.files.skill_store import SkillStore
from ronda.files.workspaces import SKILLS, WorkspaceLimits, Workspaces
from ronda.sandbox.box import sweep_sandboxes
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.server.config import ServerConfig
from ronda.server.features.code.settings import CodeSettings
from ronda.server.features.code.workspace_files import WorkspaceFiles
from ronda.server.features.code.workspace_supplies import Supplier
from ronda.tools.code.folders import check_shared_folder, temporary_root
from ronda.tools.code.python import PythonTool, ResetTool
from ronda.tools.code.requested_files import PreparedTool, RequestedFiles
from ronda.tools.code.shell import ShellTool, SurfaceTool
from ronda.tools.code.workbench import Workbench
from ronda.tools.files.session_files import SessionFiles
from ronda.wire.shared.capabilities import Capability

log = logging.getLogger("ronda.server")

TIDY_SECONDS: Final = 300.0


class CodeTools:
    def __init__(
        self,
        config: CodeSettings,
        sandbox: Policy,
        files: FileStore,
        workspaces: Workspaces,
        environ: Mapping[str, str],
        layers: Layers | None = None,
        temporary: Path | None = None,
    ) -> None:
        """`environ` is where the sandbox takes the few variables from that it passes on. `temporary` is the folder of all
        workspaces, where they are not needed after this."""
        self._workspaces = workspaces
        self.python = config.code_exec_python or sys.executable
        self.is_offered = bool(config.offer)
        self._is_swept = False
        self._temporary = temporary
        if temporary is not None:
            weakref.finalize(self, remove_tree, temporary)  # also at the end of the process

        def workbench(shared: str | None = None, pool: int = 0) -> Workbench:
            return Workbench(
                sandbox,
                lambda context: workspaces.folder(context.owner, context.session),
                outside=environ,
                python=self.python,
                layers=layers,
                files=files,
                find_marker=lambda context: workspaces.folder(context.owner, context.session).with_name("python"),
                shared=None if shared is None else Path(shared),
                spares=workspaces,
                pool=pool,
                side_folder=SKILLS,
            )

        # Both are at work in the session's folder, unless Python has one for all sessions.
        python = workbench(config.code_exec_workdir, config.code_exec_pool)
        shell = python if config.code_exec_workdir is None else workbench()
        self._python, self._shell = python, shell
        self._workbenches = (python,) if shell is python else (python, shell)
        self.files = WorkspaceFiles(workspaces, self._close_session)
        self.capabilities: dict[Capability, Sequence[Tool]] = {}
        if config.enable_code_execution:
            self.capabilities["python"] = (PythonTool(python, timeout=config.code_exec_timeout), ResetTool(python))
        if config.enable_shell:
            run = ShellTool(shell, shell=config.shell_path, timeout=config.shell_timeout)
            self.capabilities["shell"] = (run, SurfaceTool(shell))

    def last_use(self, owner: str, session: str) -> float | None:
        """When a session's folder was last used, if it has one."""
        folder = self._workspaces.existing_folder(owner, session)
        return None if folder is None else folder.with_name("used").stat().st_mtime

    def count_sandboxes(self) -> Counter[str]:
        """By what they are at; of the shell and of Python, where these are two."""
        return sum([Counter(workbench.count_sessions()) for workbench in self._workbenches], Counter())

    async def _close_session(self, owner: str, session: str) -> None:
        await asyncio.gather(*[workbench.close_session(owner, session) for workbench in self._workbenches])

    def prepare_tools(
        self, tools: Mapping[str, Tool], files: SessionFiles, supplies: Supplies, skills: SkillStore
    ) -> dict[str, Tool]:
        """The same tools for one run: what its request gave is in their folder when they are called."""
        requested = RequestedFiles(supplies.outputs)
        found: dict[str, Tool] = {}
        for name, tool in tools.items():
            workbench = self._shell if tool.spec.tool_type == "shell" else self._python
            supplier = Supplier(workbench, self._workspaces, files, supplies, skills)
            found[name] = PreparedTool(tool, supplier.place, requested)
        return found

    async def tidy(self) -> None:
        """End what is unused, and remove what has no owner. Fills the pool, too."""
        if not self._is_swept:  # what processes that were killed have left
            self._is_swept = True
            await asyncio.to_thread(sweep_sandboxes)
        try:
            for workbench in self._workbenches:
                await workbench.close_idle()
                await workbench.fill_pool()
            await self._workspaces.sweep()
        except (RondaError, OSError) as error:
            log.warning("unused sessions cannot be removed: %s", error)

    async def close(self) -> None:
        await asyncio.gather(*[workbench.close() for workbench in self._workbenches])
        if self._temporary is not None:  # made again if a session continues
            await asyncio.to_thread(remove_tree, self._temporary)


# Opens the tools that run code, for the files of one server.
OpenCode: TypeAlias = Callable[[FileStore], CodeTools]


def code_opener(settings: ServerConfig, folder: Path | None) -> OpenCode:
    """BadConfig on a machine that cannot isolate code. `folder` is where the server keeps what it keeps. Waits for a process: a
    tenth of a second."""
    config = _with_programs(settings.part(CodeSettings))
    layers = find_layers()
    choice = choose_layer(settings.sandbox, layers)
    if config.code_exec_workdir is not None:
        check_shared_folder(Path(config.code_exec_workdir), "--code-exec-workdir", takes_over=choice.own_uid)
    if config.shell_workdir is not None:
        root = _chosen_root(Path(config.shell_workdir))
    else:
        root = temporary_root() if folder is None else workspaces_root(folder, is_root=os.getuid() == 0)
    temporary = root if folder is None and config.shell_workdir is None else None
    limits = WorkspaceLimits(seconds=settings.session_max_days * 86400)
    return lambda files: CodeTools(
        config, settings.sandbox, files, Workspaces(root, limits), os.environ, layers, temporary
    )


def _with_programs(config: CodeSettings) -> CodeSettings:
    """With the paths of what is to be started, where its name was given: a program inside looks for none."""
    python, shell = config.code_exec_python, config.shell_path
    if config.enable_code_execution and python is not None and shutil.which(python) is None:
        raise BadConfig(
            f"--code-exec-python is {python!r}, and there is no such program; name one like /usr/bin/python3"
        )
    if not config.enable_shell:
        return config
    if (found := shutil.which(shell)) is None:
        raise BadConfig(f"--shell-path is {shell!r}, and there is no such program; name one like /bin/sh")
    return msgspec.structs.replace(config, shell_path=os.path.abspath(found))


def _chosen_root(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfig(f"--shell-workdir is {str(folder)!r}, and cannot be made: {error.strerror}") from error
    return folder


def workspaces_root(folder: Path, *, is_root: bool, instead: Path = Path("/var/lib/ronda")) -> Path:
    """In the data folder, or where code gets that runs under a uid of its own: so it does if the server is root's.

    To pass through a folder such code needs its x. The data folder gets that, since all that is kept in it is closed itself;
    a home does not.
    """
    if not is_root:
        return folder / "workspaces"
    try:  # with a database nothing has needed it yet
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfig(
            f"cannot make the data folder {folder}: {error.strerror}; choose another with --data-dir"
        ) from error
    if all(part.stat().st_mode & 0o001 for part in folder.resolve().parents):
        folder.chmod(folder.stat().st_mode | 0o011)
        return folder / "workspaces"
    return instead / blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
