"""What the kernel tells about the processes of a sandbox: who they are, and what they use. Short, blocking reads of /proc."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from msgspec import Struct

from ronda.sandbox.folders import walk
from ronda.sandbox.syscalls import this_machine

_TICKS = os.sysconf("SC_CLK_TCK")
_VM = 1  # KCMP_VM
_libc = ctypes.CDLL(None, use_errno=True)


class Usage(Struct, frozen=True):
    """Of all processes together. `memory` counts a page that several share once for each."""

    pids: tuple[int, ...]
    tasks: int  # threads, as the kernel's own limit counts them
    memory: int
    cpu: float  # seconds; of those that have ended, too, once their parent has taken note


def has_ended(pid: int) -> bool:
    """Whether no such process runs. One that has ended stays in /proc until its parent takes note of it, which the first
    process of a container may never do: a process that lost its parent is left there as a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split(None, 1)[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:  # of a process that is there, perhaps
        return False
    return state in (b"Z", b"X")


def tree(root: int, *, lists_children: bool | None = None) -> list[int]:
    """The process and all below it. In a sandbox none can leave: who loses its parent becomes a child of the first one."""
    if lists_children is None:
        lists_children = _lists_children()
    children = _listed_children if lists_children else _scanned_children()
    found = [root]
    for pid in found:
        found += children(pid)
    return found


@cache
def _lists_children() -> bool:
    """Whether this kernel was built to tell; the usual ones were."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _listed_children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:  # it has ended meanwhile
        pass
    return found


def _scanned_children() -> Callable[[int], list[int]]:
    by_parent: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))):
            by_parent.setdefault(int(fields[1]), []).append(int(name))
    return lambda pid: by_parent.get(pid, [])


def _stat(pid: int) -> list[bytes]:
    """The fields after the name; none of a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def usage(root: int) -> Usage:
    """Of the processes below `root`, which is bubblewrap's or ours: of itself only the time of ended children counts."""
    pids = tree(root)[1:]
    tasks, memory = 0, 0
    ticks = sum(int(word) for word in _stat(root)[13:15])
    for pid in pids:
        fields = _stat(pid)
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                status = file.read()
        except OSError:
            continue
        tasks += _number(status, b"\nThreads:")
        memory += (_number(status, b"\nVmRSS:") + _number(status, b"\nVmSwap:")) * 1024
        ticks += sum(int(word) for word in fields[11:15])  # user and system time, its own and of its ended children
    return Usage(tuple(pids), tasks, memory, ticks / _TICKS)


def _number(status: bytes, name: bytes) -> int:
    at = status.find(name)
    return int(status[at + len(name) :].split(None, 1)[0]) if at >= 0 else 0


def exact_memory(pids: Iterable[int]) -> int | None:
    """The same with a shared page counted once. Costs more, and may not be ours to know: then None.

    A child that has not become another program yet may have the very memory of its parent (`vfork`): it counts as one, too.
    """
    total = 0
    counted: list[int] = []
    for pid in pids:
        if any(_have_one_memory(pid, other) for other in counted):
            continue
        counted.append(pid)
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                rollup = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return None
        total += (_number(rollup, b"\nPss:") + _number(rollup, b"\nSwapPss:")) * 1024
    return total


def _have_one_memory(pid: int, other: int) -> bool:
    kcmp = this_machine().number("kcmp")
    return kcmp is not None and int(_libc.syscall(ctypes.c_long(kcmp), pid, other, _VM, 0, 0)) == 0


def scratch_memory(pids: Iterable[int], folders: Sequence[str]) -> int:
    """What is in the folders that a sandbox has in memory, as the first process tells that still has them."""
    for pid in pids:
        try:
            return sum(_bytes_used(f"/proc/{pid}/root{folder}", folder) for folder in folders)
        except OSError:  # it has ended
            continue
    return 0


def _bytes_used(inside: str, outside: str) -> int:
    if os.stat(inside).st_dev == os.stat(outside).st_dev:
        return 0  # bubblewrap still sets it up: it is the host's own
    found = os.statvfs(inside)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


LEAST_FILE = 4096  # bytes that any file counts for: a block of most file systems


def disk_usage(folders: Iterable[str | os.PathLike[str]], most: int) -> int:
    """Bytes of the disk under these folders, each file at least a block: a million empty files are not nothing.

    Stops when it is more than `most`, so that a huge tree takes no longer than a full one.
    """
    total = 0
    for folder in folders:
        for entry in walk(folder):
            total += max(entry.status.st_blocks * 512, LEAST_FILE)
            if total > most:
                return total
    return total


def deleted_files(pids: Iterable[int]) -> int:
    """Bytes of files that have no name any more and are held open: no walk through a folder finds them."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                found = os.stat(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())
