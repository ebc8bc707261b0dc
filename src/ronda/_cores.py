"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def count_cores() -> int:
    """A container's share, not the host's."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        cores = os.cpu_count() or 1
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        cores = min(cores, max(1, round(int(quota[0]) / int(quota[1]))))
    return cores


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
