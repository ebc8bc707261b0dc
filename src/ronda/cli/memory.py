"""What a server's process tells its C library about memory: large blocks go back to the system as soon as they are free."""

from __future__ import annotations

import os
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # of mallopt(3)
# Bytes. Bodies, answers and what is written of them are larger; what a usual request takes is smaller, and reused.
_LARGE: Final = 1 << 20
_GROWN: Final = 96 << 20  # bytes: twice what an idle server has. One that stays below it is spared the import of ctypes


class LargeMemory:
    """Sees to it once the process has grown."""

    def __init__(self) -> None:
        self._is_done = not os.path.exists("/proc/self/statm") or "MALLOC_MMAP_THRESHOLD_" in os.environ

    def look(self) -> None:
        """Called once in a while."""
        if self._is_done:
            return
        try:  # the maximum of `getrusage` may be that of the process that has started us
            with open("/proc/self/statm", "rb") as file:
                pages = int(file.read().split()[1])
        except OSError:  # no file descriptor is left
            return
        if pages * os.sysconf("SC_PAGESIZE") > _GROWN:
            self._is_done = True
            give_large_memory_back()


def give_large_memory_back() -> None:
    """Without this, glibc keeps blocks of up to 32 MB in its heaps once one of that size was freed, and a small one that comes to
    lie behind them keeps all of them: after ten streams of 30 MB a server had 320 to 350 MB, and has 178 to 222 MB with it. An
    operator who has set MALLOC_MMAP_THRESHOLD_ knows better; other C libraries have no such function, or no such habit."""
    import ctypes  # 2 ms

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
