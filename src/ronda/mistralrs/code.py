"""The original's words for code that runs → ours: the sandbox's policy, permissions, and what is asked of a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from ronda.errors import BadConfig
from ronda.mistralrs.runner import code_settings
from ronda.sandbox.policy import FullNetwork, Loopback, Network, NoNetwork, Policy

Ours = TypeVar("Ours", covariant=True)


class NetworkMode(StrEnum):
    NoNetwork = "none"
    Loopback = "loopback"
    Full = "full"


_NETWORKS: dict[NetworkMode, Network] = {
    NetworkMode.NoNetwork: NoNetwork(),
    NetworkMode.Loopback: Loopback(),
    NetworkMode.Full: FullNetwork(),
}


class AgentPermission(StrEnum):
    Auto = "auto"
    Ask = "ask"
    Deny = "deny"


CodeExecutionPermission = AgentPermission


class AgentToolApprovalDecisionKind(StrEnum):
    Approve = "approve"
    Deny = "deny"


@dataclass(frozen=True)
class AgentToolApprovalDecision:
    """What a callback returns."""

    decision: AgentToolApprovalDecisionKind
    remember_for_session: bool = False
    message: str | None = None

    @classmethod
    def approve(cls, remember_for_session: bool = False) -> AgentToolApprovalDecision:
        return cls(AgentToolApprovalDecisionKind.Approve, remember_for_session)

    @classmethod
    def deny(cls, message: str | None = None) -> AgentToolApprovalDecision:
        return cls(AgentToolApprovalDecisionKind.Deny, message=message)


@dataclass(frozen=True)
class SandboxPolicy:
    """The original's numbers. `strict` has no meaning: here what cannot be enforced is always refused."""

    max_memory_mb: int = 2048
    max_cpu_secs: int = 300
    max_procs: int = 64
    max_open_fds: int = 1024
    max_file_sz_mb: int = 256
    network: NetworkMode = NetworkMode.Loopback
    extra_fs_read: Sequence[str | os.PathLike[str]] = ()
    extra_fs_write: Sequence[str | os.PathLike[str]] = ()
    extra_env: Sequence[str] = ()
    strict: bool = False

    def as_ours(self) -> Policy:
        fields = {name: value for name, value in vars(self).items() if name not in ("strict", "network")}
        for name in ("extra_fs_read", "extra_fs_write", "extra_env"):
            fields[name] = tuple(map(os.fspath, fields[name]))
        return Policy(network=_NETWORKS[NetworkMode(self.network)], **fields)


@dataclass(frozen=True)
class CodeExecutionConfig:
    python_path: str | os.PathLike[str] | None = None
    timeout_secs: float | None = None
    working_directory: str | os.PathLike[str] | None = None
    sandbox_policy: SandboxPolicy | None = None
    permission: AgentPermission | None = None
    approval_callback: Callable[[dict[str, Any]], bool] | None = None

    def as_ours(self) -> code_settings.CodeExecutionConfig:
        return code_settings.CodeExecutionConfig(**_our_fields(self))


@dataclass(frozen=True)
class ShellConfig:
    shell_path: str | os.PathLike[str] | None = None
    timeout_secs: float | None = None
    working_directory: str | os.PathLike[str] | None = None
    sandbox_policy: SandboxPolicy | None = None
    permission: AgentPermission | None = None

    def as_ours(self) -> code_settings.ShellConfig:
        return code_settings.ShellConfig(**_our_fields(self))


def _our_fields(config: CodeExecutionConfig | ShellConfig) -> dict[str, Any]:
    """What was said, as ours has it; of the rest our defaults hold, which are the original's."""
    fields = {name: value for name, value in vars(config).items() if value is not None}
    if config.sandbox_policy is not None:
        fields["sandbox_policy"] = config.sandbox_policy.as_ours()
    if config.permission is not None:
        fields["permission"] = AgentPermission(config.permission).value
    return fields


class _Config(Protocol[Ours]):
    def as_ours(self) -> Ours: ...


def read_config(name: str, config: object, kind: type[_Config[Ours]]) -> Ours | None:
    """An argument of `Runner`, as ours."""
    if config is None:
        return None
    if not isinstance(config, kind):
        raise BadConfig(f"{name} is {config!r:.200}; write {kind.__name__}(…)")
    return config.as_ours()
