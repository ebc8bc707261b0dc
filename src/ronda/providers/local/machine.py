"""What this machine can carry: cores and memory → how many requests at once, with how much context each.

The memory of a local model is mostly its cache: so many bytes for every token of every slot, taken when the model is
loaded. `choose` is a pure function of what was found, and `Sizing` says in a line what it came to.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ronda.providers.local.gguf import Header

MAX_SLOTS = 8  # beyond that two cores only divide the same speed among more
MAX_CONTEXT = 32_768
SMALL_CONTEXT = 4096  # a tool round or two: better fewer slots than less than this
LEAST_CONTEXT = 512
COMFORT = 12  # of the free memory, one part in so many may become cache …
NEED = 2  # … and one in so many if that is what the least useful size takes

# One token at a time, a thread needs this much of the model to be worth waking: with less, two were slower than one
# (135 million weights in 98 MB: 57 tokens a second with one thread, 38 with two; a prompt 109 against 168).
WORTH_A_THREAD = 256 * 2**20


class Sizing(Struct, frozen=True):
    """`context` is per slot. `batch` prompt tokens are worked on at a time: what a cancellation waits for, and other streams."""

    slots: int
    context: int
    cache_mb: int
    spare_mb: int = 0  # for prompts that lost their slot, should they come back
    threads: int = 1  # for prompts and for several streams
    threads_alone: int = 1  # for one stream
    batch: int = 64

    def line(self, name: str) -> str:
        slots = f"{self.slots} slots" if self.slots > 1 else "one slot"
        return (
            f"{name}: {slots} of {self.context} tokens ({self.cache_mb} MB of cache), {_plural(self.threads, 'thread')}"
        )


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def choose(header: Header, cores: int, memory: int) -> Sizing:
    """As many slots as cores can feed, each with the model's full context: less of both until it fits in memory."""
    slots = max(2, min(MAX_SLOTS, 4 * cores))
    context = _rounded(min(header.context, MAX_CONTEXT))
    free = max(memory - header.size, memory // 8)
    while slots * context * header.cache_bytes > free // (COMFORT if slots > 2 or context > SMALL_CONTEXT else NEED):
        if context > SMALL_CONTEXT:
            context = max(SMALL_CONTEXT, _rounded(context // 2))
        elif slots > 1:
            slots //= 2
        elif context > LEAST_CONTEXT:
            context = _rounded(context // 2)
        else:
            break
    cache = slots * context * header.cache_bytes
    return Sizing(
        slots=slots,
        context=context,
        cache_mb=cache // 2**20,
        spare_mb=min(512, max(0, free // COMFORT - cache) // 2**20),
        threads=cores,
        threads_alone=min(cores, -(-header.size // WORTH_A_THREAD)),
        batch=max(64, min(512, 32 * cores)),
    )


def _rounded(context: int) -> int:
    """The engine takes a context in steps of 256."""
    return max(LEAST_CONTEXT, context // 256 * 256)


def count_cores() -> int:
    """Those this process may use: a container's share, not the host's."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        cores = os.cpu_count() or 1
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        cores = min(cores, max(1, round(int(quota[0]) / int(quota[1]))))
    return cores


def free_memory() -> int:
    """Bytes that can be had without swapping, within the container's limit. Where nobody says, four gigabytes."""
    free = 4 * 2**30
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return free


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
