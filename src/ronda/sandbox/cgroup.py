"""A cgroup (version 2) for each sandbox, where one has been delegated to this server: memory and processes counted by the kernel.

Nothing here moves the server itself: a group is used only if memory and pids are already enabled for the groups below it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from ronda.sandbox.limits import MB
from ronda.sandbox.policy import Policy
from ronda.sandbox.processes import has_ended

_PREFIX = "ronda-sandbox-"
_NEEDED = {"memory", "pids"}


def find_parent_group(mounts: str | None = None, own: str | None = None) -> Path | None:
    """The group in which groups for sandboxes can be made: this process's own, or the one above (`DelegateSubgroup=`)."""
    mount = _mount_point(Path("/proc/self/mountinfo").read_text() if mounts is None else mounts)
    lines = (Path("/proc/self/cgroup").read_text() if own is None else own).splitlines()
    place = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if mount is None or place is None:
        return None
    here = Path(mount + place)
    for group in (here, here.parent):
        if _can_hold(group):
            return group
    return None


def _mount_point(mountinfo: str) -> str | None:
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return before.split()[4].rstrip("/")
    return None


def _can_hold(group: Path) -> bool:
    """By doing: a group is made in it, and must have both limits."""
    try:
        if not set((group / "cgroup.subtree_control").read_text().split()) >= _NEEDED:
            return False
        trial = group / _group_name()
        trial.mkdir()
    except OSError:
        return False
    try:
        return os.access(trial / "memory.max", os.W_OK) and os.access(trial / "pids.max", os.W_OK)
    finally:
        _remove(trial)


def _group_name() -> str:
    """Says whose it is. Other servers may share the parent, also from a container, where the same number is another process."""
    return f"{_PREFIX}{_pid_namespace()}-{os.getpid()}-{secrets.token_hex(8)}"


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


class Group:
    """The group of one sandbox."""

    def __init__(self, parent: Path, policy: Policy) -> None:
        self._path = parent / _group_name()
        self._path.mkdir()
        (self._path / "memory.max").write_text(str(policy.max_memory_mb * MB))
        (self._path / "pids.max").write_text(str(policy.max_procs + 2))  # and bubblewrap's own
        with contextlib.suppress(OSError):  # where the kernel knows no swap limit there is no such file
            (self._path / "memory.swap.max").write_text("0")
        with contextlib.suppress(OSError):
            (self._path / "memory.oom.group").write_text("1")

    def add(self, pid: int) -> None:
        (self._path / "cgroup.procs").write_text(str(pid))

    def ran_out_of_memory(self) -> bool:
        try:
            counts = dict(line.split() for line in (self._path / "memory.events").read_text().splitlines())
        except OSError:
            return False
        return int(counts.get("oom_kill", 0)) > 0

    def remove(self) -> None:
        _remove(self._path)


def _remove(group: Path) -> None:
    """With all processes in it."""
    with contextlib.suppress(OSError), (group / "cgroup.kill").open("r+") as kill:
        kill.write("1")
    with contextlib.suppress(OSError):
        group.rmdir()


def sweep_groups(parent: Path) -> None:
    """Removes the groups of servers that are no more, as far as that can be told from here."""
    for group in parent.glob(f"{_PREFIX}{_pid_namespace()}-*"):
        pid = group.name.split("-")[-2]
        if pid.isdigit() and has_ended(int(pid)):
            _remove(group)
