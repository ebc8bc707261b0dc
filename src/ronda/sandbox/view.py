"""What of the host sandboxed code sees: a policy and an interpreter → files and folders to read, and those to write.

Both layers use it: bubblewrap binds these paths and nothing else is there; Landlock lets these be opened and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct

from ronda.errors import BadConfig
from ronda.sandbox.environment import LOCATIONS
from ronda.sandbox.interpreter import Interpreter
from ronda.sandbox.policy import FullNetwork, Policy
from ronda.sandbox.user import User, closed_folder

# Merged into /usr on most systems, where they are links.
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What programs read to start, to know the time and the fonts, and to trust a certificate. No accounts, no keys.
SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/matplotlibrc",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
# A browser's own settings, and the index of fonts, which takes a second to make.
BROWSER_FILES = ("/etc/chromium", "/etc/chromium.d", "/opt/google/chrome", "/var/cache/fontconfig")
NETWORK_FILES = ("/etc/gai.conf", "/etc/hosts", "/etc/protocols", "/etc/resolv.conf", "/etc/services")


class View(Struct, frozen=True):
    """Paths of the host, each of them there."""

    read: tuple[str, ...]
    write: tuple[str, ...]


def view_of(policy: Policy, interpreter: Interpreter | None, outside: Mapping[str, str], user: User) -> View:
    """As this user may see it, whose code it is."""
    read = [*SYSTEM_FOLDERS, *SYSTEM_FILES]
    if isinstance(policy.network, FullNetwork):
        read += NETWORK_FILES
    if interpreter is not None:
        read += interpreter.needs
    match policy.profile:
        case "developer":
            read += [folder for folder in _tools(outside) if closed_folder(folder, user) is None]
        case "browser":
            read += BROWSER_FILES
        case "restricted":
            pass
        case _ as never:
            assert_never(never)
    for name, paths in (("extra_fs_read", policy.extra_fs_read), ("extra_fs_write", policy.extra_fs_write)):
        for path in paths:
            if not os.path.exists(path):
                raise BadConfig(f"the sandbox's {name} has {path!r}, and there is no such file or folder")
    read += policy.extra_fs_read
    return View(tuple(dict.fromkeys(path for path in read if os.path.exists(path))), policy.extra_fs_write)


def _tools(outside: Mapping[str, str]) -> list[str]:
    """Where a developer's compilers and package managers are: never a home, nor a folder that holds one."""
    home = os.path.realpath(outside.get("HOME", "/root"))
    folders = ["/opt", *outside.get("PATH", "").split(os.pathsep), *(outside.get(name, "") for name in LOCATIONS)]
    found = []
    for folder in folders:
        real = os.path.realpath(folder) if folder.startswith("/") else ""
        is_home = (home + "/").startswith(real.rstrip("/") + "/")
        if real and not is_home and os.path.isdir(real) and not real.startswith(("/proc", "/sys", "/dev", "/tmp")):
            found += [folder.rstrip("/"), real]
    return found
