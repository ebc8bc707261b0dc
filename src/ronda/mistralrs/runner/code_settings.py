"""Python and shell of a `Runner`: what a program says about them → settings of a server.

    Runner(model=…, code_execution_config=CodeExecutionConfig(timeout_secs=10), shell_config=ShellConfig())

The names are mistral.rs's. Code is isolated as that of `ronda serve` is, also where no policy is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ronda.core.plan import Approval, PermissionRule
from ronda.errors import BadConfig
from ronda.sandbox.policy import Policy, check_policy


@dataclass(frozen=True, kw_only=True)
class CodeExecutionConfig:
    """Requests may ask for Python. `approval_callback` decides about calls where `permission` says "ask"."""

    python_path: str | os.PathLike[str] | None = None  # None: the Python of this program
    timeout_secs: float = 60.0
    working_directory: str | os.PathLike[str] | None = None  # of all sessions; None: one for each
    sandbox_policy: Policy | None = None
    permission: Approval | None = None
    approval_callback: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True)
class ShellConfig:
    """Requests may ask for a shell."""

    shell_path: str | os.PathLike[str] = "/bin/sh"
    timeout_secs: float = 600.0
    working_directory: str | os.PathLike[str] | None = None  # where each session has a folder
    sandbox_policy: Policy | None = None
    permission: Approval | None = None


def code_settings(code: CodeExecutionConfig | None, shell: ShellConfig | None) -> dict[str, Any]:
    """Settings of a server, under its names."""
    settings: dict[str, Any] = {"sandbox": _policy(code, shell), "permission": tuple(_rules(code, shell))}
    if code is not None:
        settings |= {
            "enable_code_execution": True,
            "code_exec_python": _path(code.python_path),
            "code_exec_timeout": code.timeout_secs,
            "code_exec_workdir": _path(code.working_directory),
        }
    if shell is not None:
        settings |= {
            "enable_shell": True,
            "shell_path": os.fspath(shell.shell_path),
            "shell_timeout": shell.timeout_secs,
            "shell_workdir": _path(shell.working_directory),
        }
    return settings


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _policy(code: CodeExecutionConfig | None, shell: ShellConfig | None) -> Policy:
    """Both work in one folder, so they are in one sandbox."""
    policies = [one.sandbox_policy for one in (code, shell) if one is not None and one.sandbox_policy is not None]
    if len(policies) == 2 and policies[0] != policies[1]:
        raise BadConfig("Python and the shell share a sandbox: give both the same sandbox_policy, or one of them none")
    policy = policies[0] if policies else Policy()
    check_policy(policy)
    return policy


def _rules(code: CodeExecutionConfig | None, shell: ShellConfig | None) -> list[PermissionRule]:
    permissions = {
        "mistralrs_execute_python": None if code is None else code.permission,
        "mistralrs_shell": None if shell is None else shell.permission,
    }
    return [PermissionRule(mode, tool) for tool, mode in permissions.items() if mode is not None]
