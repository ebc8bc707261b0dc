"""The seccomp program, run by a small machine of the test's own: for both kinds of processor, also the one this is not."""

from __future__ import annotations

import errno
import struct

import pytest

from ronda.errors import BadConfig
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, NoNetwork
from ronda.sandbox.seccomp import Filter, write_filter
from ronda.sandbox.syscalls import Machine

ALLOWED, KILLED = "allowed", "killed"
NAMESPACES = Filter(NoNetwork())
LANDLOCK = Filter(NoNetwork(), "landlock", 7, own_uid=False)


def run(program: bytes, audit: int, number: int, *arguments: int) -> str | int:
    """What the kernel would do: allow, kill, or give an error of this number."""
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number, audit, 0, *[word & (1 << 64) - 1 for word in words])
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x06:
            if operand == 0x7FFF0000:
                return ALLOWED
            return KILLED if operand == 0x80000000 else operand & 0xFFFF
        else:
            test = {0x15: accumulator == operand, 0x25: accumulator > operand, 0x45: accumulator & operand != 0}[code]
            at += if_true if test else if_false


class Kernel:
    def __init__(self, name: str, filter: Filter) -> None:
        self._machine = Machine(name)
        self._program = write_filter(filter, self._machine)

    def call(self, name: str, *arguments: int) -> str | int:
        number = self._machine.number(name)
        assert number is not None
        return self.number(number, *arguments)

    def number(self, number: int, *arguments: int) -> str | int:
        return run(self._program, self._machine.audit, number, *arguments)

    def of_another_machine(self) -> str | int:
        return run(self._program, 0x40000003, 20)


MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


@MACHINES
def test_what_changes_the_system_is_refused(machine: str) -> None:
    kernel = Kernel(machine, NAMESPACES)

    for call in (
        "mount",
        "unshare",
        "setns",
        "ptrace",
        "bpf",
        "keyctl",
        "pivot_root",
        "open_by_handle_at",
        "perf_event_open",
    ):
        assert kernel.call(call) == errno.EPERM
    for call in ("clone3", "io_uring_setup", "memfd_create", "shmget", "mq_open"):
        assert kernel.call(call) == errno.ENOSYS
    assert kernel.of_another_machine() == KILLED
    assert kernel.number(457) == kernel.number(0x40000000 + 1) == errno.ENOSYS
    assert kernel.number(63) == ALLOWED  # uname, or read


@MACHINES
def test_a_thread_is_allowed_and_a_namespace_is_not(machine: str) -> None:
    kernel = Kernel(machine, NAMESPACES)

    assert kernel.call("clone", 0x3D0F00) == ALLOWED
    for new in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x02000000, 0x04000000, 0x08000000):
        assert kernel.call("clone", new | 17) == errno.EPERM


UNIX, INET, INET6, NETLINK, VSOCK = 1, 2, 10, 16, 40
STREAM, DATAGRAM, NONBLOCK = 1, 2, 0o4000


@MACHINES
@pytest.mark.parametrize(
    ("wanted", "families"),
    [
        (Filter(NoNetwork()), {UNIX}),
        (Filter(Loopback()), {UNIX, INET, INET6}),
        (Filter(AllowedHosts(("x.org",))), {UNIX, INET, INET6}),
        (Filter(FullNetwork()), {INET, INET6}),
        (Filter(NoNetwork(), "landlock", 7), set()),
        (Filter(FullNetwork(), "landlock", 7), {INET, INET6}),
    ],
)
def test_sockets_by_network(machine: str, wanted: Filter, families: set[int]) -> None:
    kernel = Kernel(machine, wanted)

    allowed = {family for family in range(46) if kernel.call("socket", family, STREAM) == ALLOWED}
    assert allowed == families
    assert kernel.call("socket", UNIX | 1 << 32, STREAM) == kernel.call("socket", UNIX, STREAM)
    assert kernel.call("socketpair", UNIX, STREAM | NONBLOCK) == ALLOWED
    assert kernel.call("socketpair", UNIX, DATAGRAM) == (ALLOWED if UNIX in families else errno.EPERM)
    assert kernel.call("socketpair", NETLINK, STREAM) == errno.EPERM


@MACHINES
def test_behind_landlock_other_processes_are_left_alone(machine: str) -> None:
    fenced, spaced = Kernel(machine, LANDLOCK), Kernel(machine, NAMESPACES)

    for call in ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
        assert (fenced.call(call, 0), fenced.call(call, 77), spaced.call(call, 77)) == (ALLOWED, errno.EPERM, ALLOWED)
    assert [fenced.call("setpriority", *of) for of in ((0, 0), (0, 77), (1, 0), (2, 0))] == [ALLOWED] + [
        errno.EPERM
    ] * 3
    assert [fenced.call("ioprio_set", *of) for of in ((1, 0), (1, 77), (2, 0), (3, 0))] == [ALLOWED] + [errno.EPERM] * 3
    assert fenced.call("inotify_add_watch") == errno.EPERM


@MACHINES
def test_behind_landlock_modes_are_for_those_with_a_uid_of_their_own(machine: str) -> None:
    shared, own = Kernel(machine, LANDLOCK), Kernel(machine, Filter(NoNetwork(), "landlock", 7, own_uid=True))

    assert (shared.call("fchmodat"), own.call("fchmodat"), Kernel(machine, NAMESPACES).call("fchmodat")) == (
        0,
        ALLOWED,
        ALLOWED,
    )
    assert (shared.call("utimensat"), own.call("utimensat")) == (0, 0)
    assert (shared.call("setxattr"), own.call("setxattr")) == (errno.ENOTSUP, errno.ENOTSUP)


@MACHINES
@pytest.mark.parametrize(("abi", "answer"), [(2, errno.EPERM), (3, ALLOWED), (7, ALLOWED)])
def test_below_abi_3_truncation_is_the_filters(machine: str, abi: int, answer: str | int) -> None:
    kernel = Kernel(machine, Filter(NoNetwork(), "landlock", abi, own_uid=True))
    read, write, both, neither, truncate, create = 0, 1, 2, 3, 0o1000, 0o100

    assert kernel.call("truncate") == answer
    assert kernel.call("openat", 0, 0, read | truncate) == answer
    assert kernel.call("openat", 0, 0, neither | truncate) == answer
    assert kernel.call("openat2") == (errno.ENOSYS if abi < 3 else ALLOWED)
    for flags in (read, write | truncate | create, both | truncate, both | create):
        assert kernel.call("openat", 0, 0, flags) == ALLOWED


def test_another_machine_is_refused() -> None:
    with pytest.raises(BadConfig, match="knows no system calls of riscv64; it runs on x86_64 and aarch64"):
        Machine("riscv64")
