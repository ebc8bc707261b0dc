"""Settings of code: Python and a shell for requests. What the sandbox allows is the core's: pages are read in it, too."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from ronda.server.setting import CODE, Setting

MAX_POOL = 64  # Pythons that wait for a session

_code = partial(Setting, CODE)


class CodeSettings(Struct, frozen=True):
    enable_code_execution: Annotated[
        bool, _code("--enable-code-execution", "lets requests ask for Python, which runs in a sandbox for each session")
    ] = False
    code_exec_python: Annotated[
        str | None,
        _code(
            "--code-exec-python PATH",
            "the Python inside",
            default="the one that this server runs on",
            needs="enable_code_execution",
        ),
    ] = None
    code_exec_workdir: Annotated[
        str | None,
        _code(
            "--code-exec-workdir DIR",
            "the folder in which Python works, for all sessions",
            default="one for each session",
            needs="enable_code_execution",
            reads="path",
        ),
    ] = None
    code_exec_pool: Annotated[
        int,
        _code(
            "--code-exec-pool N",
            "Pythons that are kept ready for new sessions, so that a first call need not wait",
            least=0,
            most=MAX_POOL,
            needs="enable_code_execution",
        ),
    ] = 0
    code_exec_timeout: Annotated[
        float,
        _code(
            "--code-exec-timeout N",
            "seconds that a call of Python may take",
            unit="seconds",
            above=0,
            needs="enable_code_execution",
        ),
    ] = 60.0
    enable_shell: Annotated[
        bool, _code("--enable-shell", "lets requests ask for a shell, which runs in a sandbox for each session")
    ] = False
    offer: Annotated[
        tuple[Literal["code", "shell"], ...],
        _code(
            "--offer TOOL",
            "offer Python (code) or the shell (shell) to every request, also to those that do not ask; may be repeated",
            details="For clients that cannot ask. See [code for every request](sandbox.md#code-for-every-request).",
            choices=("code", "shell"),
        ),
    ] = ()
    shell_path: Annotated[str, _code("--shell-path PATH", "the shell inside", needs="enable_shell")] = "/bin/sh"
    shell_workdir: Annotated[
        str | None,
        _code(
            "--shell-workdir DIR",
            "where the folders of the sessions are",
            default="in the data folder",
            needs="enable_shell",
            reads="path",
        ),
    ] = None
    shell_timeout: Annotated[
        float,
        _code(
            "--shell-timeout N",
            "seconds that a call of the shell may take",
            unit="seconds",
            above=0,
            needs="enable_shell",
        ),
    ] = 600.0
