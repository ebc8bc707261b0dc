"""What sandboxed code may ask of the kernel: a list of refusals → a program that the kernel runs at each call (seccomp BPF).

Everything is allowed but what is named here, what is newer than the table of calls, and calls of another machine's kind.
A refusal is an error the program sees (EPERM; ENOSYS where programs then try an older way), not its end.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Literal, assert_never

from msgspec import Struct

from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, Network, NoNetwork
from ronda.sandbox.syscalls import LAST_KNOWN, Machine


def _calls(names: str) -> tuple[str, ...]:
    return tuple(names.split())


# Calls that change the system, look into other processes, or have been the way out of sandboxes before.
_REFUSED = _calls(
    "acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init fanotify_mark finit_module "
    "fsconfig fsmount fsopen fspick init_module ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie "
    "migrate_pages modify_ldt mount mount_setattr move_mount move_pages name_to_handle_at open_by_handle_at open_tree "
    "perf_event_open pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv process_vm_writev ptrace quotactl "
    "quotactl_fd reboot request_key setdomainname sethostname setns settimeofday swapoff swapon sysfs syslog umount2 "
    "unshare uselib userfaultfd ustat vhangup"
)
# Calls that are not there: programs have another way. `clone3` keeps its flags where a filter cannot look; `io_uring` makes
# calls that no filter sees; memory of the others would be counted for no process.
_ABSENT = _calls(
    "clone3 io_uring_enter io_uring_register io_uring_setup memfd_create memfd_secret mq_open msgget semget shmat shmget"
)
# Landlock looks only at who opens a file, not at these. They seem to succeed and do nothing, so that what copies or unpacks a
# file with its mode and times still can.
_TIMES = _calls("futimesat utime utimensat utimes")
_MODES = _calls("chmod chown fchmod fchmodat fchmodat2 fchown fchownat lchown")
_ATTRIBUTES = _calls(
    "fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr lsetxattr removexattr setxattr"
)
_WATCHES = _calls("inotify_add_watch inotify_init inotify_init1")
# Calls whose first argument is a process; 0 is the caller.
_OF_A_PROCESS = _calls("prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler")

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… that `clone` takes
_TERMINAL_TRICKS = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
# Flags, versions, keys and seals of a file, which its owner may set by a descriptor that only reads: FS_IOC_SETFLAGS (two sizes),
# SETVERSION, FSSETXATTR, SET_ENCRYPTION_POLICY, ENABLE_VERITY.
_FILE_FLAGS = (0x40086602, 0x40046602, 0x40087602, 0x401C5820, 0x800C6613, 0x40806685)
# Room on the disk that nothing is written to. No limit of the kernel's covers it, and in a moment it would be all there is.
# Programs do without, since not every disk has that: FS_IOC_RESVSP, RESVSP64, ZERO_RANGE; `fallocate`, unless it gives room back.
_RESERVATIONS = (0x40305828, 0x4030582A, 0x40305839)
_PUNCH_HOLE = 2
_PERSONALITIES = (0, 0x0040000, 0xFFFFFFFF)  # plain, addresses not random, "which is it?"
_LEASES_AND_NOTICES = (1024, 1026)  # F_SETLEASE, F_NOTIFY
_SET_DUMPABLE = 4  # PR_SET_DUMPABLE
_ACCESS_MODE = 0o3
_TRUNCATE = 0o1000

_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16


class Filter(Struct, frozen=True):
    """Which program is wanted.

    `hides` says who keeps the host's files and processes away: namespaces, or Landlock, which leaves more to the filter.
    """

    network: Network
    hides: Literal["namespaces", "landlock"] = "namespaces"
    abi: int = 0  # of Landlock
    own_uid: bool = False  # whether nothing but this sandbox has its uid


def families(rules: Filter) -> tuple[int, ...]:
    """The kinds of socket that may be made. Pairs of unix sockets that stay a pair may be made always."""
    # A unix socket of the host is in reach where the host's files or its network are: by path, or by abstract name.
    unix = (int(socket.AF_UNIX),) if rules.hides == "namespaces" else ()
    internet = (int(socket.AF_INET), int(socket.AF_INET6))
    match rules.network:
        case NoNetwork():
            return unix
        case Loopback() | AllowedHosts():
            return unix + internet
        case FullNetwork():
            return internet
        case _ as never:
            assert_never(never)


def write_filter(rules: Filter, machine: Machine) -> bytes:
    """The program, as `bwrap --seccomp` and the system call `seccomp` take it."""
    return _Program(machine).write(rules)


_Step = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def _error(number: int) -> _Step:
    return (_RETURN, 0, 0, _ERROR | number)


class _Program:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._steps: list[_Step] = []

    def write(self, rules: Filter) -> bytes:
        self._begin()
        for call in _REFUSED:
            self._when(call, [_error(errno.EPERM)])
        for call in _ABSENT:
            self._when(call, [_error(errno.ENOSYS)])
        self._when("clone", self._unless_set(0, _NEW_NAMESPACES))
        self._when("socket", self._only(0, *families(rules)))
        self._when("socketpair", self._pairs(alone=socket.AF_UNIX not in families(rules)))
        flags = _FILE_FLAGS if rules.hides == "landlock" else ()
        self._when("ioctl", self._none_of(1, *_TERMINAL_TRICKS, *_RESERVATIONS, *flags))
        self._when(
            "fallocate",
            [
                self._argument(1),
                (_JUMP_SET, 1, 0, _PUNCH_HOLE),
                _error(errno.EOPNOTSUPP),
                (_RETURN, 0, 0, _ALLOW),
            ],
        )
        self._when("personality", self._only(0, *_PERSONALITIES))
        self._when("fcntl", self._none_of(1, *_LEASES_AND_NOTICES))
        if rules.hides == "landlock":
            self._instead_of_namespaces(rules)
        self._steps.append((_RETURN, 0, 0, _ALLOW))
        return b"".join(struct.pack("=HBBI", *step) for step in self._steps)

    def _instead_of_namespaces(self, rules: Filter) -> None:
        """What a process could do to the host's files and processes although Landlock is there."""
        for call in _WATCHES:
            self._when(call, [_error(errno.EPERM)])
        for call in _TIMES:
            self._when(call, [_error(0)])
        for call in _ATTRIBUTES:
            self._when(call, [_error(errno.ENOTSUP)])
        if not rules.own_uid:  # else the kernel refuses it for files of others, and it may for its own
            for call in _MODES:
                self._when(call, [_error(0)])
        for call in _OF_A_PROCESS:
            self._when(call, self._only(0, 0))
        self._when("setpriority", self._both_zero(0))
        self._when("ioprio_set", self._both_zero(1))
        self._when("prctl", self._none_of(0, _SET_DUMPABLE))  # the watchdog must be able to look at its files
        if rules.abi < 3:  # Landlock learned of truncation there: by path, and by opening only to read
            self._when("truncate", [_error(errno.EPERM)])
            self._when("openat2", [_error(errno.ENOSYS)])  # its flags are where a filter cannot look
            self._when("open", self._not_truncating(1))
            self._when("openat", self._not_truncating(2))

    def _begin(self) -> None:
        self._steps += [
            (_LOAD, 0, 0, _MACHINE_AT),
            (_JUMP_EQUAL, 1, 0, self._machine.audit),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, _NUMBER_AT),
            (_JUMP_GREATER, 0, 1, LAST_KNOWN),  # those of x32, which begin at 0x40000000, too
            _error(errno.ENOSYS),
        ]

    def _when(self, call: str, then: list[_Step]) -> None:
        """`then` always ends in a return: what it loads is not the number any more."""
        number = self._machine.number(call)
        if number is not None:
            self._steps += [(_JUMP_EQUAL, 0, len(then), number), *then]

    # An argument is looked at in its lower 32 bits: all that the kernel takes of those named here.

    def _argument(self, place: int) -> _Step:
        return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * place)

    def _only(self, place: int, *values: int) -> list[_Step]:
        tests = [(_JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
        return [self._argument(place), *tests, _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]

    def _none_of(self, place: int, *values: int) -> list[_Step]:
        tests = [(_JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
        return [self._argument(place), *tests, (_RETURN, 0, 0, _ALLOW), _error(errno.EPERM)]

    def _unless_set(self, place: int, bits: int) -> list[_Step]:
        return [self._argument(place), (_JUMP_SET, 0, 1, bits), _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]

    def _pairs(self, *, alone: bool) -> list[_Step]:
        """Unix pairs; where other unix sockets are in reach only those that stay a pair: one for datagrams can send anywhere."""
        kinds = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET) if alone else tuple(range(1, 16))
        which = [self._argument(1), (_AND, 0, 0, 0xF), *self._only(1, *kinds)[1:]]
        return [self._argument(0), (_JUMP_EQUAL, 1, 0, int(socket.AF_UNIX)), _error(errno.EPERM), *which]

    def _both_zero(self, kind: int) -> list[_Step]:
        """(kind, 0): of one process, the caller."""
        return [
            self._argument(0),
            (_JUMP_EQUAL, 0, 3, kind),
            self._argument(1),
            (_JUMP_EQUAL, 0, 1, 0),
            (_RETURN, 0, 0, _ALLOW),
            _error(errno.EPERM),
        ]

    def _not_truncating(self, place: int) -> list[_Step]:
        return [
            self._argument(place),
            (_AND, 0, 0, _ACCESS_MODE | _TRUNCATE),
            (_JUMP_EQUAL, 1, 0, _TRUNCATE),
            (
                _JUMP_EQUAL,
                0,
                1,
                _ACCESS_MODE | _TRUNCATE,
            ),  # mode 3: neither to read nor to write, and truncates anyway
            _error(errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
