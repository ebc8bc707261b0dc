"""For programs: tools with which a model runs Python and shell commands, in a sandbox.

agent = Agent("openai-chat:NAME", tools=[python(), shell()])
agent = Agent("openai-chat:NAME", tools=[python(approval="ask", sandbox={"network": "allow:pypi.org"})])

A run has a folder of its own, and runs of one `session` share theirs; Python and shell work in the same one. The Python stays
for as long as the event loop: its variables are there in the next call, and in the next run of the session on that loop.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from ronda.core.plan import Approval
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import BadConfig
from ronda.files.workspaces import WorkspaceLimits, Workspaces
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy, read_policy
from ronda.tools.code.folders import check_shared_folder, temporary_root
from ronda.tools.code.python import PythonTool, ResetTool
from ronda.tools.code.shell import ShellTool
from ronda.tools.code.workbench import Workbench

_TIDY_SECONDS: Final = 300.0  # as a server tidies its sessions
_KEPT_SECONDS: Final = 86_400.0  # that a session's folder is kept after its last use, while the program runs

_Key = tuple[Policy, str, str | None]
_benches: dict[_Key, CodeSessions] = {}


def python(
    *,
    approval: Approval = "auto",
    timeout: float = 60.0,
    interpreter: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    sandbox: Mapping[str, Any] | None = None,
) -> list[Tool]:
    """Tools with which a model runs Python code, and begins with a new Python. Raises BadConfig where code cannot be isolated.

    Args:
        approval: "ask": a person approves each call before it runs (`approve=` of the run). "deny": none runs.
        timeout: Seconds that a call may take.
        interpreter: The Python inside; without one, the Python of this program.
        folder: A folder for all runs; without one, each session has a temporary folder.
        sandbox: What the code may do, as `[sandbox]` of a server's settings: `{"network": "full", "max_memory_mb": 4096}`.
    """
    sessions = _sessions(sandbox, interpreter, folder)
    return [
        _CodeTool("python", sessions, approval, lambda bench: PythonTool(bench, timeout=timeout)),
        _CodeTool("reset_python", sessions, "auto", ResetTool),
    ]


def shell(
    *,
    approval: Approval = "auto",
    timeout: float = 600.0,
    path: str = "/bin/sh",
    folder: str | os.PathLike[str] | None = None,
    sandbox: Mapping[str, Any] | None = None,
) -> Tool:
    """A tool with which a model runs shell commands. Raises BadConfig where commands cannot be isolated.

    Args:
        approval: As of `python`.
        timeout: Seconds that a call may take.
        path: The shell.
        folder: As of `python`.
        sandbox: As of `python`. With the same `folder` and `sandbox` both work in the same folder.
    """
    if (found := shutil.which(path)) is None:
        raise BadConfig(f"there is no shell {path!r}; name one like path='/bin/sh'")
    sessions = _sessions(sandbox, None, folder)
    program = os.path.abspath(found)
    return _CodeTool("shell", sessions, approval, lambda bench: ShellTool(bench, shell=program, timeout=timeout))


def _sessions(
    sandbox: Mapping[str, Any] | None, interpreter: str | None, folder: str | os.PathLike[str] | None
) -> CodeSessions:
    """One for all tools that are made with the same words: Python and shell share the folder of their session."""
    policy = read_policy(sandbox or {}, None, os.environ)
    program = sys.executable if interpreter is None else shutil.which(interpreter)
    if program is None:
        raise BadConfig(f"there is no Python {interpreter!r}; name one like interpreter='/usr/bin/python3'")
    key = (policy, program, None if folder is None else os.path.abspath(folder))
    if (found := _benches.get(key)) is None:
        found = _benches[key] = CodeSessions(*key)
    return found


class CodeSessions:
    """The sandboxes of a program's runs: for each event loop its own, which end with it."""

    def __init__(self, policy: Policy, interpreter: str, folder: str | None) -> None:
        choice = choose_layer(policy, find_layers())  # said now, and not by a failing call
        if folder is not None:
            check_shared_folder(Path(folder), "folder", takes_over=choice.own_uid)
        self._policy = policy
        self._interpreter = interpreter
        self._folder = folder
        self._workspaces: Workspaces | None = None
        self._here: WeakKeyDictionary[asyncio.AbstractEventLoop, _OnLoop] = WeakKeyDictionary()

    def workbench(self) -> Workbench:
        return Workbench(
            self._policy,
            lambda context: self._open_workspaces().folder(context.owner, context.session),
            outside=os.environ,
            python=self._interpreter,
            find_marker=lambda context: (
                self._open_workspaces().folder(context.owner, context.session).with_name("python")
            ),
            shared=None if self._folder is None else Path(self._folder),
        )

    def _open_workspaces(self) -> Workspaces:
        """Made with the first call; removed at the end of the program."""
        if self._workspaces is None:
            root = temporary_root()
            weakref.finalize(self, remove_tree, root)
            self._workspaces = Workspaces(root, WorkspaceLimits(seconds=_KEPT_SECONDS))
        return self._workspaces

    async def here(self) -> _OnLoop:
        loop = asyncio.get_running_loop()
        if (found := self._here.get(loop)) is None:
            found = self._here[loop] = _OnLoop(self.workbench())
            await found.keeper.__anext__()
        return found

    async def tidy(self, here: _OnLoop) -> None:
        """Ends what was not used for long, now and then."""
        if time.monotonic() - here.tidied > _TIDY_SECONDS:
            here.tidied = time.monotonic()
            await here.workbench.close_idle()
            if self._workspaces is not None:
                await self._workspaces.sweep()


class _OnLoop:
    """The sandboxes of one event loop."""

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        self.tidied = time.monotonic()
        self.keeper = self._until_the_loop_ends()

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        # An event loop closes the async generators it knows before it closes itself: the one hook every runner calls.
        try:
            yield
        finally:
            await self.workbench.close()


class _CodeTool:
    """A tool of the server's under a plain name, at work in the sandbox that the running loop has for its session."""

    def __init__(
        self, name: str, sessions: CodeSessions, approval: Approval, make: Callable[[Workbench], Tool]
    ) -> None:
        if approval not in get_args(Approval):
            raise BadConfig(f"approval is {approval!r}; it can be 'auto', 'ask' or 'deny'")
        self.spec = replace(make(sessions.workbench()).spec, name=name, approval=approval)
        self._sessions = sessions
        self._make = make

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        here = await self._sessions.here()
        own = context if context.session else replace(context, session=context.run)
        try:
            return await self._make(here.workbench).run(arguments, own)
        finally:
            await self._sessions.tidy(here)
