"""Counts what the kernel does not count over all processes of a sandbox together, and ends a sandbox that has too much of it.

Two threads for all sandboxes of a process: one looks at memory, tasks and time, five times a second while they work; one walks
through folders, at once if their disk has lost as much room as they may take. An error in looking ends the sandbox that was
looked at: what is not watched does not run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Literal

from ronda.sandbox import processes
from ronda.sandbox.folders import TooDeep
from ronda.sandbox.limits import MB
from ronda.sandbox.policy import Policy

Excess = Literal["memory", "cpu", "processes", "disk", "watchdog"]

INTERVAL = 0.2  # seconds; what can be allocated in between is bounded by RLIMIT_DATA for each process
IDLE_INTERVAL = 1.0  # of a sandbox that used no time since the last look
DISK_INTERVAL = 1.0
_SECOND_LOOK = 0.02
_HURRY = 0.05
_MOST_EMPTY = 60  # looks that find no process
_DISK_SHARE = 20  # a walk may take this part of the time, so that large trees are walked less often
_GLANCE = 0.1  # seconds between two questions to the file system, which costs some microseconds whatever is on it
_HURRIED_SHARE = 3  # as _DISK_SHARE, of walks through folders that have probably become too large


class WatchedSandbox:
    """One sandbox under watch. `end` is called once, from a thread, with what there was too much of."""

    def __init__(
        self,
        root: int,
        policy: Policy,
        folders: tuple[str, ...],
        scratch: tuple[str, ...],
        end: Callable[[Excess], None],
        disk: int = 0,
    ) -> None:
        """`disk` are the bytes that its files took when it began, where that was too much: it may take no more than those."""
        self.root = root
        self._policy = policy
        self._folders = folders
        self._scratch = scratch
        self._end = end
        self._most_disk = max(policy.max_disk_mb * MB, disk)
        self._cpu = -1.0
        self._room = 0  # bytes that its files may still take, as the last walk found
        self._free: dict[str, tuple[int, int]] = {}  # folder → inodes and bytes of its disk that were free then …
        self._cpu_then = -1.0  # … and the time that its programs had used
        self._walk_due = 0.0
        self._hurried_due = 0.0
        self._empty = 0
        self._was_over = False
        self.due = 0.0
        self.disk_due = 0.0
        self.is_over = False

    def look(self) -> None:
        """Memory, tasks and time."""
        usage = processes.usage(self.root)
        self.due = time.monotonic() + (INTERVAL if usage.cpu != self._cpu else IDLE_INTERVAL)
        self._cpu = usage.cpu
        policy = self._policy
        if usage.tasks > policy.max_procs + 2:  # bubblewrap's own, and one that is about to end
            self.stop("processes")
        elif usage.cpu > policy.max_cpu_secs:
            self.stop("cpu")
        elif not usage.pids:  # it has not begun, or has just ended; for longer nothing is known about it
            self._empty += 1
            if self._empty > _MOST_EMPTY:
                self.stop("watchdog")
        else:
            self._empty = 0
            self._look_at_memory(usage)

    def _look_at_memory(self, usage: processes.Usage) -> None:
        """What is read while processes come and go can be wrong once, so a second look a moment later must say the same."""
        most = self._policy.max_memory_mb * MB
        scratch = processes.scratch_memory(usage.pids, self._scratch)
        is_over = usage.memory + scratch > most
        if is_over:
            exact = processes.exact_memory(usage.pids)
            is_over = (usage.memory if exact is None else exact) + scratch > most
        if is_over and self._was_over:
            self.stop("memory")
        elif is_over:
            self.due = time.monotonic() + _SECOND_LOOK
        self._was_over = is_over

    def look_at_disk(self) -> None:
        """A walk through its folders when one is due; or when its disks have lost as much room since the last one as it may take.
        Others may have taken that room: so a walk is what decides."""
        begun = time.monotonic()
        if begun >= self._walk_due or (begun >= self._hurried_due and self._may_have_grown()):
            self._walk()
            took = time.monotonic() - begun
            self._walk_due = begun + took + max(DISK_INTERVAL, took * _DISK_SHARE)
            self._hurried_due = begun + took * (1 + _HURRIED_SHARE)
        self.disk_due = time.monotonic() + _GLANCE

    def _walk(self) -> None:
        most = self._most_disk
        self._free = {folder: _free(folder) for folder in self._folders}
        self._cpu_then = self._cpu
        try:
            used = processes.disk_usage(self._folders, most)
        except TooDeep:
            used = most + 1  # how much is down there is unknown
        used += processes.deleted_files(processes.tree(self.root)[1:])
        self._room = most - used
        if used > most:
            self.stop("disk")

    def _may_have_grown(self) -> bool:
        if self._cpu == self._cpu_then:  # its programs have done nothing since
            return False
        for folder, (inodes, room) in self._free.items():
            inodes_now, room_now = _free(folder)
            if max((inodes - inodes_now) * processes.LEAST_FILE, room - room_now) > self._room:
                return True
        return False

    def stop(self, excess: Excess) -> None:
        if not self.is_over:
            self.is_over = True
            self._end(excess)


def _free(folder: str) -> tuple[int, int]:
    """Inodes and bytes that are free on the disk of a folder. Some file systems have no number of inodes: then 0, always."""
    found = os.statvfs(folder)
    return found.f_ffree, found.f_bfree * found.f_frsize


class Watchdog:
    """The two threads; started with the first sandbox, and idle without one."""

    def __init__(self) -> None:
        self._watched: set[WatchedSandbox] = set()
        self._changed = threading.Condition()
        self._pid = 0

    def watch(self, watched: WatchedSandbox) -> None:
        with self._changed:
            if self._pid != os.getpid():  # a fork has no threads
                self._pid = os.getpid()
                for look, due in ((WatchedSandbox.look, "due"), (WatchedSandbox.look_at_disk, "disk_due")):
                    threading.Thread(
                        target=self._run, args=(look, due), daemon=True, name="ronda-sandbox-watchdog"
                    ).start()
            self._watched.add(watched)
            self._changed.notify_all()

    def forget(self, watched: WatchedSandbox) -> None:
        with self._changed:
            self._watched.discard(watched)

    def hurry(self, watched: WatchedSandbox) -> None:
        """It is about to work: look at it soon, however idle it was; not at once, since most calls are over by then."""
        with self._changed:
            soon = time.monotonic() + _HURRY
            if watched.due > soon:
                watched.due = soon
                self._changed.notify_all()

    def _run(self, look: Callable[[WatchedSandbox], None], due: str) -> None:
        while True:
            with self._changed:
                while not self._watched:
                    self._changed.wait()
                now = time.monotonic()
                ready = [watched for watched in self._watched if getattr(watched, due) <= now]
                if not ready:
                    self._changed.wait(max(0.01, min(getattr(watched, due) for watched in self._watched) - now))
                    continue
            for watched in ready:
                try:
                    look(watched)
                except Exception:  # unwatched code must not go on, whatever the reason is
                    if watched in self._watched:  # else its folder was moved, and it is watched there
                        watched.stop("watchdog")
                    setattr(watched, due, time.monotonic() + IDLE_INTERVAL)


watchdog = Watchdog()
