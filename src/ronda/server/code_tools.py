"""Python and shell for the sessions of a server, where its operator has switched them on: each call in its session's sandbox."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from ronda.drive import Tool
from ronda.errors import RondaError
from ronda.files.file_store import FileStore
from ronda.files.workspaces import Workspaces
from ronda.sandbox.box import sweep_temporary
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.server.config import ServerConfig
from ronda.server.workspace_files import WorkspaceFiles
from ronda.tools.code.python import PythonTool, ResetTool
from ronda.tools.code.shell import ShellTool, SurfaceTool
from ronda.tools.code.workbench import Workbench
from ronda.wire.capabilities import Capability

log = logging.getLogger("ronda.server")

_TIDY_SECONDS: Final = 300.0


class CodeTools:
    def __init__(
        self,
        config: ServerConfig,
        files: FileStore,
        workspaces: Workspaces,
        environ: Mapping[str, str],
        layers: Layers | None = None,
    ) -> None:
        """`environ` is where the sandbox takes the few variables from that it passes on."""
        self._workspaces = workspaces
        self._workbench = Workbench(
            config.sandbox,
            lambda context: workspaces.folder(context.owner, context.session),
            outside=environ,
            python=config.code_exec_python,
            layers=layers,
            files=files,
            find_marker=lambda context: workspaces.folder(context.owner, context.session).with_name("python"),
        )
        self.files = WorkspaceFiles(workspaces, self._workbench.close_session)
        self.capabilities: dict[Capability, Sequence[Tool]] = {}
        if config.enable_code_execution:
            python = PythonTool(self._workbench, timeout=config.code_exec_timeout)
            self.capabilities["python"] = (python, ResetTool(self._workbench))
        if config.enable_shell:
            shell = ShellTool(self._workbench, shell=config.shell_path, timeout=config.shell_timeout)
            self.capabilities["shell"] = (shell, SurfaceTool(self._workbench))

    async def keep_tidy(self, every: float = _TIDY_SECONDS) -> None:
        """Ends what nobody uses and removes what nobody owns, for as long as the server runs."""
        await asyncio.to_thread(sweep_temporary)
        while True:
            try:
                await self._workbench.close_idle()
                await self._workspaces.sweep()
            except (RondaError, OSError) as error:
                log.warning("sessions that nobody uses cannot be removed: %s", error)
            await asyncio.sleep(every)

    async def close(self) -> None:
        await self._workbench.close()


def code_opener(config: ServerConfig, folder: Path | None) -> Callable[[FileStore], CodeTools] | None:
    """What opens the tools that run code, if the operator wants any; BadConfig on a machine that cannot isolate it.

    `folder` is where the server keeps what it keeps. Waits for a process: a tenth of a second.
    """
    if not (config.enable_code_execution or config.enable_shell):
        return None
    layers = find_layers()
    choose_layer(config.sandbox, layers)
    root = _temporary_root() if folder is None else workspaces_root(folder, is_root=os.getuid() == 0)
    return lambda files: CodeTools(config, files, Workspaces(root), os.environ, layers)


def _temporary_root() -> Path:
    """Named as a sandbox's own, so that the next server removes what one that was killed leaves."""
    root = Path(tempfile.mkdtemp(prefix=f"ronda-sandbox-{os.getpid()}-"))
    root.chmod(0o711)
    atexit.register(remove_tree, root)
    return root


def workspaces_root(folder: Path, *, is_root: bool, instead: Path = Path("/var/lib/ronda")) -> Path:
    """In the data folder, or where code gets that runs under a uid of its own: so it does if the server is root's.

    To pass through a folder such code needs its x. The data folder gets that, since all that is kept in it is closed itself;
    a home does not.
    """
    if not is_root:
        return folder / "workspaces"
    if all(part.stat().st_mode & 0o001 for part in folder.resolve().parents):
        folder.chmod(folder.stat().st_mode | 0o011)
        return folder / "workspaces"
    return instead / blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
