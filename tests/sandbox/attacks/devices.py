"""Attacks on devices, and on the kernel's own files below /proc and /sys."""

from __future__ import annotations

import ctypes
import ctypes.util
import fcntl
import os
from typing import Any

from .registry import attack, call


@attack
def read_memory_of_the_machine(host: dict[str, Any]) -> Any:
    return [os.open(path, os.O_RDONLY) for path in ("/dev/mem", "/dev/kmem", "/proc/kcore") if os.path.exists(path)]


@attack
def read_a_disk(host: dict[str, Any]) -> Any:
    names = [name for name in os.listdir("/dev") if name.startswith(("sd", "vd", "nvme", "loop", "dm-", "xvd"))]
    return [os.open("/dev/" + name, os.O_RDONLY) for name in names]


@attack
def make_a_device(host: dict[str, Any]) -> Any:
    os.mknod("disk", 0o666 | 0o060000, os.makedev(254, 0))
    return open("disk", "rb").read(1)


@attack
def make_a_terminal_type(host: dict[str, Any]) -> Any:
    master, _ = os.openpty()
    fcntl.ioctl(master, 0x5412, b"x")  # TIOCSTI
    return "typed"


@attack
def set_the_core_pattern(host: dict[str, Any]) -> Any:
    return os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attack
def press_sysrq(host: dict[str, Any]) -> Any:
    return os.open("/proc/sysrq-trigger", os.O_WRONLY)


@attack
def write_to_sys(host: dict[str, Any]) -> Any:
    for path in (
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/release_agent",
        "/sys/power/state",
        "/sys/kernel/profiling",
    ):
        try:
            return os.open(path, os.O_WRONLY)
        except OSError:
            continue
    return None


@attack
def escape_by_a_cgroup(host: dict[str, Any]) -> Any:
    os.mkdir("/sys/fs/cgroup/attack")
    return "made"


@attack
def read_the_kernels_log(host: dict[str, Any]) -> Any:
    return call(103, 116, 3, ctypes.create_string_buffer(64), 64) or "read"
