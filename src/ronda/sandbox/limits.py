"""A policy's limits as the kernel counts them for each process; what is counted over all of them together is in `watchdog`."""

from __future__ import annotations

from ronda.sandbox.policy import Policy

MB = 1 << 20


def process_limits(policy: Policy, *, may_write: bool = True) -> dict[str, tuple[int, int]]:
    """Names of `RLIMIT_…` → (soft, hard). Who may not write can still delete files, and make them shorter.

    DATA and not AS: programs reserve address space that they never use (WebAssembly, browsers, allocators).
    """
    memory = policy.max_memory_mb * MB
    size = policy.max_file_sz_mb * MB if may_write else 0
    return {
        "DATA": (memory, memory),
        "CPU": (policy.max_cpu_secs, policy.max_cpu_secs + 1),
        "NPROC": (policy.max_procs, policy.max_procs),
        "NOFILE": (policy.max_open_fds, policy.max_open_fds),
        "FSIZE": (size, size),
        "CORE": (
            1,
            1,
        ),  # with 0 the kernel still starts a program of the host's for the core, where it has one (core(5))
        "MSGQUEUE": (0, 0),
        "MEMLOCK": (64 * 1024, 64 * 1024),
    }


def scratch_bytes(policy: Policy) -> int:
    """Of each of the two folders that are in memory, /tmp and /dev/shm: what is in them counts as memory, too."""
    return policy.max_memory_mb * MB // 4
