"""Landlock, the kernel's own fence for files: an ABI and a view → the rules that `supervisor` puts up before the program starts.

Each ABI knows more. Below 2 a file could be moved out of reach of its rule; what else is missing below 7, `seccomp` refuses.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from typing import Any

from ronda.sandbox.policy import FullNetwork, Network
from ronda.sandbox.view import View

LEAST_ABI = 2
SIGNALS_ABI = 6  # from here on signals and abstract sockets stay inside; before, only another uid keeps signals in

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_ABI_1 = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract unix sockets and signals

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROC_FILES = ("/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/filesystems", "/proc/version")


def landlock_abi() -> int:
    """What the kernel says it has; 0 where there is no Landlock."""
    if os.uname().sysname != "Linux":
        return 0
    create_ruleset, version_flag = 444, 1
    return max(0, int(ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), version_flag)))


def landlock_plan(abi: int, view: View, writable: Iterable[str], network: Network) -> dict[str, Any]:
    """What `supervisor` needs, as JSON: the rights that are taken away, and the paths that have some of them back."""
    handled = _handled_rights(abi)
    write = handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
    rules = [(path, _READ) for path in (*view.read, *_PROC_FILES)]
    rules += [(path, _READ_FILE | _WRITE_FILE | _TRUNCATE) for path in _DEVICES]
    rules += [(path, write) for path in (*view.write, *writable)]
    return {
        "fs": handled,
        "net": _TCP if abi >= 4 and not isinstance(network, FullNetwork) else 0,
        "scoped": _SCOPES if abi >= SIGNALS_ABI else 0,
        "size": 24 if abi >= SIGNALS_ABI else 16 if abi >= 4 else 8,  # of the structure, as that ABI had it
        "rules": [(path, _granted_rights(path, rights) & handled) for path, rights in rules if os.path.exists(path)],
    }


def _handled_rights(abi: int) -> int:
    rights = _ALL_OF_ABI_1
    for least, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        rights |= right if abi >= least else 0
    return rights


def _granted_rights(path: str, rights: int) -> int:
    return rights if stat.S_ISDIR(os.stat(path).st_mode) else rights & _OF_FILES
