"""bubblewrap's command line: a view and a policy → namespaces in which nothing else of the host exists.

`WORKSPACE` is where the workspace is inside; the root, /dev and all of the host's folders are read-only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from ronda.sandbox.limits import scratch_bytes
from ronda.sandbox.policy import FullNetwork, Policy
from ronda.sandbox.user import User
from ronda.sandbox.view import SYSTEM_FOLDERS, View

WORKSPACE = "/workspace"
TEMPORARY = "/tmp"
SHARED_MEMORY = "/dev/shm"

_NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns"),
    *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox"),
)


class Descriptors(Struct, frozen=True):
    """Files that bubblewrap reads or writes while it starts."""

    seccomp: int  # the filter
    info: int  # it tells the pid of what it started …
    block: int  # … which waits until something is read here
    passwd: int
    group: int


def accounts(user: User) -> tuple[bytes, bytes]:
    """What stands in for /etc/passwd and /etc/group: the sandbox's user, and the system's `nobody`."""
    passwd = f"sandbox:x:{user.uid}:{user.gid}::{WORKSPACE}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n"
    group = f"sandbox:x:{user.gid}:\nnogroup:x:65534:\n"
    return passwd.encode(), group.encode()


def bubblewrap_command(
    bwrap: str,
    policy: Policy,
    view: View,
    workspace: str,
    descriptors: Descriptors,
    program: Sequence[str],
    mounts: Sequence[str] = (),
) -> list[str]:
    """`mounts` are more of them, made before the root is closed.

    Its environment is that of the program: it is given to bubblewrap as such, since every user can read a command line.
    """
    command = [bwrap, *_NAMESPACES]
    if not isinstance(policy.network, FullNetwork):
        command += ["--unshare-net"]
    command += _mounts(policy, view, workspace, descriptors)
    command += [*mounts, "--remount-ro", "/dev", "--remount-ro", "/"]
    command += ["--chdir", WORKSPACE, "--seccomp", str(descriptors.seccomp)]
    command += ["--info-fd", str(descriptors.info), "--block-fd", str(descriptors.block)]
    return [*command, "--", *program]


def _mounts(policy: Policy, view: View, workspace: str, descriptors: Descriptors) -> list[str]:
    scratch = ["--perms", "1777", "--size", str(scratch_bytes(policy)), "--tmpfs"]
    mounts = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    mounts += [*scratch, SHARED_MEMORY, *scratch, TEMPORARY]
    for path in sorted(view.read, key=lambda path: path.count("/")):  # a folder before what is in it
        if os.path.islink(path) and path in SYSTEM_FOLDERS:
            mounts += ["--symlink", os.readlink(path), path]  # /bin, where it is a part of /usr
        else:
            mounts += ["--ro-bind", path, path]
    mounts += [
        "--ro-bind-data",
        str(descriptors.passwd),
        "/etc/passwd",
        "--ro-bind-data",
        str(descriptors.group),
        "/etc/group",
    ]
    for path in view.write:
        mounts += ["--bind", path, path]
    return [*mounts, "--bind", workspace, WORKSPACE]
