"""Attacks on other processes: seen, signalled, read, limited, slowed."""

from __future__ import annotations

import ctypes
import ctypes.util
import fcntl
import os
import resource
import signal
import socket
import struct
from typing import Any

from .registry import attack, call


@attack
def list_the_hosts_processes(host: dict[str, Any]) -> Any:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if open(f"/proc/{pid}/cmdline").read().find(host["token"]) >= 0]


@attack
def read_the_servers_environment(host: dict[str, Any]) -> Any:
    return _with_token(f"/proc/{host['victim']}/environ", host)


@attack
def read_the_environment_of_the_first_process(host: dict[str, Any]) -> Any:
    return _with_token("/proc/1/environ", host)


def _with_token(path: str, host: dict[str, Any]) -> str | None:
    with open(path) as file:
        text = file.read()
    return text if host["token"] in text else None


@attack
def reach_the_hosts_root_through_proc(host: dict[str, Any]) -> Any:
    for pid in (1, host["victim"], os.getppid()):
        try:
            return open(f"/proc/{pid}/root{host['secret']}").read()
        except OSError:
            continue
    return None


@attack
def read_memory_through_proc(host: dict[str, Any]) -> Any:
    return open(f"/proc/{host['victim']}/mem", "rb")


@attack
def signal_the_server(host: dict[str, Any]) -> Any:
    os.kill(host["victim"], signal.SIGUSR1)
    return "sent"


@attack
def signal_by_pidfd(host: dict[str, Any]) -> Any:
    signal.pidfd_send_signal(os.pidfd_open(host["victim"]), signal.SIGUSR1)
    return "sent"


@attack
def signal_by_queue(host: dict[str, Any]) -> Any:
    info = ctypes.create_string_buffer(struct.pack("iii", signal.SIGUSR1, 0, -1).ljust(128, b"\0"))
    return call(129, 138, host["victim"], signal.SIGUSR1, ctypes.byref(info)) or "sent"


@attack
def signal_by_input(host: dict[str, Any]) -> Any:
    """The kernel sends SIGIO for this process; the host looks whether the victim lives."""
    one, other = socket.socketpair()
    fcntl.fcntl(one, fcntl.F_SETSIG, signal.SIGUSR1)
    fcntl.fcntl(one, fcntl.F_SETOWN, host["victim"])
    fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    other.send(b"x")


@attack
def signal_the_first_process(host: dict[str, Any]) -> Any:
    """bubblewrap's own, or the supervisor: if it dies, nothing of this is ever reported."""
    os.kill(host["parent"], signal.SIGKILL)


@attack
def trace_the_server(host: dict[str, Any]) -> Any:
    return call(101, 117, 16, host["victim"], 0, 0) or "attached"


@attack
def trace_the_parent(host: dict[str, Any]) -> Any:
    return call(101, 117, 0x4206, os.getppid(), 0, 0) or "seized"


@attack
def read_memory_of_the_server(host: dict[str, Any]) -> Any:
    buffer = ctypes.create_string_buffer(8)
    vector = struct.pack("PN", ctypes.addressof(buffer), 8)
    return call(310, 270, host["victim"], ctypes.c_char_p(vector), 1, ctypes.c_char_p(vector), 1, 0) or "read"


@attack
def take_a_descriptor_of_the_server(host: dict[str, Any]) -> Any:
    return call(438, 438, os.pidfd_open(host["victim"]), 0, 0) or "taken"


@attack
def compare_processes(host: dict[str, Any]) -> Any:
    return call(312, 272, os.getpid(), host["victim"], 1, 0, 0) or "compared"


@attack
def be_spared_when_memory_runs_out(host: dict[str, Any]) -> Any:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-500")
    return "spared"


@attack
def raise_its_own_limits(host: dict[str, Any]) -> Any:
    for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        most = resource.getrlimit(kind)[1]
        if most == resource.RLIM_INFINITY:
            return f"no limit of kind {kind}"
        try:
            resource.setrlimit(kind, (most + 1, most + 1))
        except (OSError, ValueError):
            continue
        return f"a limit of kind {kind}"
    return None


@attack
def leave_a_core(host: dict[str, Any]) -> Any:
    if os.fork() == 0:
        os.abort()
    _, status = os.wait()
    return os.WCOREDUMP(status)


@attack
def limit_the_server(host: dict[str, Any]) -> Any:
    import resource

    resource.prlimit(host["victim"], resource.RLIMIT_NOFILE, (10, 10))
    return "limited"


@attack
def pin_the_server(host: dict[str, Any]) -> Any:
    os.sched_setaffinity(host["victim"], {0})
    return "pinned"


@attack
def slow_the_server(host: dict[str, Any]) -> Any:
    os.setpriority(os.PRIO_PROCESS, host["victim"], 19)
    return "slowed"


@attack
def slow_everything_of_this_user(host: dict[str, Any]) -> Any:
    os.setpriority(os.PRIO_USER, 0, 19)  # in a pid namespace only what is in it: the host looks at the victim


@attack
def schedule_the_server(host: dict[str, Any]) -> Any:
    os.sched_setscheduler(host["victim"], os.SCHED_IDLE, os.sched_param(0))
    return "scheduled"


@attack
def slow_the_servers_disk(host: dict[str, Any]) -> Any:
    return call(251, 30, 1, host["victim"], 3 << 13) or "slowed"


@attack
def slow_the_disk_of_this_user(host: dict[str, Any]) -> Any:
    call(251, 30, 3, os.getuid(), 3 << 13)
