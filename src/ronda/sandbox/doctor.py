"""What `ronda doctor` tells about isolation: layers → lines for a person, each with what is missing and what helps.

Pure but for `examine_machine` and `examine_python`: it looks at nothing but what was found, and at where the process runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from msgspec import Struct

from ronda._doctor import Line
from ronda.errors import BadConfig
from ronda.sandbox.interpreter import find_interpreter, installed_packages
from ronda.sandbox.landlock import LEAST_ABI, SIGNALS_ABI
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.sandbox.user import UIDS, User, server_user


class Place(Struct, frozen=True):
    """Where the server runs, as far as it changes what helps."""

    is_root: bool
    in_container: bool
    userns_clone: str | None = None  # the settings that forbid user namespaces to users other than root
    apparmor_userns: str | None = None
    max_userns: str | None = None


def this_place() -> Place:
    def setting(name: str) -> str | None:
        try:
            return Path("/proc/sys", name).read_text().strip()
        except OSError:
            return None

    return Place(
        is_root=os.getuid() == 0,
        in_container=os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"),
        userns_clone=setting("kernel/unprivileged_userns_clone"),
        apparmor_userns=setting("kernel/apparmor_restrict_unprivileged_userns"),
        max_userns=setting("user/max_user_namespaces"),
    )


def examine(layers: Layers, place: Place) -> list[Line]:
    """From what is used down to what it rests on."""
    return [
        _verdict(layers, place),
        _bubblewrap(layers, place),
        _landlock(layers, place),
        _seccomp(layers, place),
        _counting(layers),
        _user(layers, place),
    ]


def _verdict(layers: Layers, place: Place) -> Line:
    try:
        chosen = choose_layer(Policy(), layers, is_root=place.is_root)
    except BadConfig as error:
        return Line("isolation", "missing", f"Python and shell tools are refused: {error}")
    limits = "" if chosen.layer == "bubblewrap" else "; its network can be none or full"
    return Line("isolation", "works", f"Python and shell tools run under {chosen.layer}{limits}")


def _bubblewrap(layers: Layers, place: Place) -> Line:
    if layers.bwrap is not None:
        return Line("bubblewrap", "works", f"{layers.bwrap} makes user, mount, pid and network namespaces")
    if layers.bwrap_problem == "it is not installed":
        return Line("bubblewrap", "missing", layers.bwrap_problem, "apt-get install bubblewrap")
    return Line("bubblewrap", "missing", f"it does not work: {layers.bwrap_problem}", _namespace_help(layers, place))


def _namespace_help(layers: Layers, place: Place) -> str:
    if place.in_container:
        options = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        if "proc" in layers.bwrap_problem.lower():  # parts of /proc are masked, and then no new one can be mounted
            options += " --security-opt systempaths=unconfined"
        return options
    if place.userns_clone == "0":
        return "sysctl -w kernel.unprivileged_userns_clone=1"
    if place.apparmor_userns == "1":
        return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap that has 'userns,'"
    if place.max_userns == "0":
        return "sysctl -w user.max_user_namespaces=15000"
    return "a kernel with CONFIG_USER_NS"


def _landlock(layers: Layers, place: Place) -> Line:
    newer = f"a kernel with Landlock ABI {SIGNALS_ABI} (6.12 or newer)"
    if layers.landlock >= SIGNALS_ABI:
        return Line("landlock", "works", f"ABI {layers.landlock}")
    if layers.landlock >= LEAST_ABI and place.is_root:
        return Line(
            "landlock", "works", f"ABI {layers.landlock}; what it lacks, seccomp and a uid of its own make up for"
        )
    if layers.landlock >= LEAST_ABI:
        return Line(
            "landlock",
            "partly",
            f"ABI {layers.landlock}: code could signal the server",
            f"{newer}, or a server that is root",
        )
    if layers.landlock == 1:
        return Line("landlock", "missing", "ABI 1: files could be moved past its rules", newer)
    return Line(
        "landlock",
        "missing",
        "the kernel has none, or it is turned off",
        f"'landlock' in the kernel's lsm= list; {newer}",
    )


def _seccomp(layers: Layers, place: Place) -> Line:
    if layers.seccomp:
        return Line("seccomp", "works", "filters can be installed")
    helps = (
        "docker run --security-opt seccomp=unconfined" if place.in_container else "a kernel with CONFIG_SECCOMP_FILTER"
    )
    return Line("seccomp", "missing", layers.seccomp_problem or "the kernel has none", helps)


def _counting(layers: Layers) -> Line:
    if layers.cgroup is not None:
        return Line("cgroup", "works", f"memory and processes are counted by the kernel, in {layers.cgroup}")
    return Line(
        "cgroup",
        "partly",
        "none is delegated to this server, so a watchdog counts memory and processes five times a second",
        "systemd-run --user --scope -p Delegate=yes, or Delegate=yes and DelegateSubgroup=server in the service's unit",
    )


def _user(layers: Layers, place: Place) -> Line:
    if not place.is_root:
        return Line("user", "works", "the server is not root; sandboxed code has its uid, in namespaces of its own")
    if layers.user_problem:
        return Line("user", "missing", layers.user_problem, "start the server as an ordinary user")
    return Line("user", "works", "the server is root; each sandbox has a uid of its own")


_PACKAGES = ("numpy", "pandas", "matplotlib")  # that models like to use


async def examine_python(python: str) -> Line:
    """The Python that code runs on. Waits for processes."""
    user = User(UIDS.start, UIDS.start, own=True) if os.getuid() == 0 else server_user()
    try:
        interpreter = await find_interpreter(python, user)
    except BadConfig as error:
        return Line("python", "missing", str(error))
    found = await asyncio.to_thread(installed_packages, interpreter, _PACKAGES)
    version = ".".join(map(str, interpreter.version))
    text = f"code runs on {interpreter.executable} ({version}), with {', '.join(found) or 'its own modules only'}"
    if interpreter.note is not None:
        return Line("python", "partly", text, interpreter.note)
    missing = [name for name in _PACKAGES if name not in found]
    helps = f"{interpreter.executable} -m pip install {' '.join(missing)}" if missing else None
    return Line("python", "works", text, helps)


async def examine_machine() -> list[Line]:
    """How code that a model writes is isolated here, and what it runs on. Waits for processes."""
    layers = await asyncio.to_thread(find_layers)
    return [*examine(layers, this_place()), await examine_python(sys.executable)]
