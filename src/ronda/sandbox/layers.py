"""Which layers of isolation work on this machine, found by doing, and which of them a policy gets: or why it gets none.

What is found holds for the life of the process; a test of a machine with less says so in `Layers`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Literal, assert_never

from msgspec import Struct

from ronda.errors import BadConfig
from ronda.sandbox.bubblewrap import Descriptors, accounts, bubblewrap_command
from ronda.sandbox.cgroup import find_parent_group
from ronda.sandbox.landlock import LEAST_ABI, SIGNALS_ABI, landlock_abi
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, NoNetwork, Policy
from ronda.sandbox.seccomp import Filter, write_filter
from ronda.sandbox.syscalls import Machine, this_machine
from ronda.sandbox.user import User, claim_user
from ronda.sandbox.view import SYSTEM_FOLDERS, View

Layer = Literal["bubblewrap", "landlock", "off"]

_PATIENCE = 20.0  # seconds for a trial of bubblewrap
_GET_ACTION_AVAIL, _RET_ERRNO = 2, 0x00050000


class Layers(Struct, frozen=True):
    """What this machine has. A text says why it has not; it is what the kernel or bubblewrap answered."""

    bwrap: str | None = None  # the path of a bubblewrap that works
    bwrap_problem: str = ""
    landlock: int = 0  # the ABI
    seccomp: bool = False
    seccomp_problem: str = ""
    cgroup: str | None = None  # the group in which groups can be made
    user_problem: str = ""  # why a server that is root has no user to go to


class Choice(Struct, frozen=True):
    """The layer a policy gets here."""

    layer: Layer
    abi: int = 0
    own_uid: bool = False


def choose_layer(policy: Policy, layers: Layers, *, is_root: bool | None = None) -> Choice:
    """The strongest layer that can enforce this policy; BadConfig where none can, and the way out."""
    root = os.getuid() == 0 if is_root is None else is_root
    if policy.mode == "off":
        return Choice("off")
    problems = []
    if not layers.seccomp:
        problems.append(f"seccomp does not work ({layers.seccomp_problem or 'the kernel has none'})")
    if root and layers.user_problem:
        problems.append(layers.user_problem)
    if not problems:
        if layers.bwrap is not None:
            return Choice("bubblewrap", own_uid=root)
        problems.append(f"bubblewrap does not work ({layers.bwrap_problem or 'it is not installed'})")
        problem = _landlock_problem(policy, layers, root)
        if problem is None:
            return Choice("landlock", layers.landlock, own_uid=root)
        problems.append(problem)
    raise BadConfig(
        f"code cannot be isolated on this machine: {'; '.join(problems)}. 'ronda doctor' tells what helps; "
        "'--sandbox off' runs it without isolation"
    )


def _landlock_problem(policy: Policy, layers: Layers, root: bool) -> str | None:
    if layers.landlock < LEAST_ABI:
        return f"Landlock does not work (the kernel has ABI {layers.landlock}, and {LEAST_ABI} is needed)"
    if layers.landlock < SIGNALS_ABI and not root:
        return (
            f"Landlock's ABI {layers.landlock} lets code signal the server ({SIGNALS_ABI} does not), and only a server that is "
            "root can give it another uid"
        )
    match policy.network:
        case NoNetwork() | FullNetwork():
            return None
        case Loopback() | AllowedHosts():
            return "Landlock by itself cannot give it a network of its own: the network can be none or full"
        case _ as never:
            assert_never(never)


_found: Layers | None = None


async def probe_layers() -> Layers:
    """What this machine has, found once."""
    global _found
    if _found is None:
        _found = await asyncio.to_thread(find_layers)
    return _found


def find_layers() -> Layers:
    """Tries everything. Takes a tenth of a second, in which it waits for a process."""
    if platform.system() != "Linux":
        return Layers(seccomp_problem=f"{platform.system()} has no such thing", bwrap_problem="it is for Linux")
    user_problem = ""
    claim = None
    try:
        machine = this_machine()
    except BadConfig as error:
        return Layers(seccomp_problem=str(error))
    try:
        claim = claim_user()
    except (BadConfig, OSError) as error:
        user_problem = str(error)
    try:
        bwrap, bwrap_problem = (None, user_problem) if claim is None else _try_bubblewrap(claim.user, machine)
    finally:
        if claim is not None:
            claim.release()
    seccomp_problem = _seccomp_problem(machine)
    group = find_parent_group()
    return Layers(
        bwrap=bwrap,
        bwrap_problem=bwrap_problem,
        landlock=landlock_abi(),
        seccomp=not seccomp_problem,
        seccomp_problem=seccomp_problem,
        cgroup=None if group is None else str(group),
        user_problem=user_problem,
    )


def _seccomp_problem(machine: Machine) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    action = ctypes.c_uint32(_RET_ERRNO)
    number = machine.number("seccomp")
    if libc.syscall(number, _GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0:
        return ""
    return os.strerror(ctypes.get_errno())


def _try_bubblewrap(user: User, machine: Machine) -> tuple[str | None, str]:
    """Starts `true` with the namespaces, mounts and filter of a real sandbox."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return None, "it is not installed"
    true = shutil.which("true") or "/bin/true"
    info = os.memfd_create("info")
    block = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    files = [data_file(data) for data in (write_filter(Filter(NoNetwork()), machine), *accounts(user))]
    view = View(tuple(path for path in SYSTEM_FOLDERS if os.path.exists(path)), ())
    try:
        with tempfile.TemporaryDirectory(prefix="ronda-sandbox-trial-") as folder:
            os.chown(folder, user.uid, user.gid)
            descriptors = Descriptors(seccomp=files[0], info=info, block=block, passwd=files[1], group=files[2])
            done = subprocess.run(
                bubblewrap_command(bwrap, Policy(), view, folder, descriptors, [true]),
                pass_fds=(*files, info, block),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                timeout=_PATIENCE,
                check=False,
                **become(user),
            )
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    finally:
        for fd in (*files, info, block):
            os.close(fd)
    if done.returncode == 0:
        return bwrap, ""
    return None, done.stderr.decode(errors="replace").strip()[:400] or f"it ended with {done.returncode}"


def become(user: User) -> dict[str, Any]:
    """Arguments of `Popen` for a process of another user's; none for the server's own."""
    return {"user": user.uid, "group": user.gid, "extra_groups": []} if user.own else {}


def data_file(data: bytes) -> int:
    """A descriptor from which `data` can be read, once."""
    fd = os.memfd_create("ronda-sandbox", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def group_path(layers: Layers) -> Path | None:
    return None if layers.cgroup is None else Path(layers.cgroup)
