"""Ways out of a sandbox, tried inside one. Run as a program beside a JSON of what is outside; prints a JSON of what each one got.

An attack that raises was stopped, as was one that returns nothing. What it returns else is what it got hold of.
Imports nothing of ours: it runs where nothing of ours is.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from typing import Any

Attack = Callable[[dict[str, Any]], Any]

ATTACKS: dict[str, Attack] = {}
_libc = ctypes.CDLL(None, use_errno=True)
_X86 = platform.machine() == "x86_64"


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def call(x86: int, arm: int | None, *arguments: Any) -> int:
    """A system call by its number, or the error it gives."""
    number = x86 if _X86 else arm
    if number is None:
        raise NotImplementedError
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    answer = int(_libc.syscall(ctypes.c_long(number), *words))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


# Files.


@attack
def read_a_file_outside(host: dict[str, Any]) -> Any:
    return open(host["secret"]).read()


@attack
def read_the_shadow_file(host: dict[str, Any]) -> Any:
    return open("/etc/shadow").read()


@attack
def read_the_accounts(host: dict[str, Any]) -> Any:
    return [line for line in open("/etc/passwd") if line.startswith(("root:", "daemon:"))]


@attack
def list_a_folder_outside(host: dict[str, Any]) -> Any:
    return os.listdir(host["folder"])


@attack
def list_a_home(host: dict[str, Any]) -> Any:
    return [found for home in ("/root", "/home") if os.path.isdir(home) for found in os.listdir(home)]


@attack
def leave_the_workspace_upwards(host: dict[str, Any]) -> Any:
    up = os.path.join(*[".."] * 40)
    return open(os.path.join(up, host["secret"].lstrip("/"))).read()


@attack
def write_to_a_file_outside(host: dict[str, Any]) -> Any:
    with open(host["outside"], "a") as file:
        return file.write("x")


@attack
def make_a_file_outside(host: dict[str, Any]) -> Any:
    return os.open(os.path.join(host["folder"], "made"), os.O_CREAT | os.O_WRONLY)


@attack
def make_a_folder_outside(host: dict[str, Any]) -> Any:
    os.mkdir(os.path.join(host["folder"], "made-folder"))
    return "made"


@attack
def make_a_pipe_outside(host: dict[str, Any]) -> Any:
    os.mkfifo(os.path.join(host["folder"], "made-pipe"))
    return "made"


@attack
def make_a_link_outside(host: dict[str, Any]) -> Any:
    os.symlink("/etc/passwd", os.path.join(host["folder"], "made-link"))
    return "made"


@attack
def make_a_socket_outside(host: dict[str, Any]) -> Any:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.join(host["folder"], "made-socket"))
    return "made"


@attack
def remove_a_file_outside(host: dict[str, Any]) -> Any:
    os.unlink(host["outside"])
    return "removed"


@attack
def rename_a_file_outside(host: dict[str, Any]) -> Any:
    os.rename(host["outside"], host["outside"] + ".renamed")
    return "renamed"


@attack
def move_a_file_in(host: dict[str, Any]) -> Any:
    os.rename(host["outside"], "moved-in")
    return open("moved-in").read()


@attack
def move_a_file_out(host: dict[str, Any]) -> Any:
    open("moved", "w").close()
    os.rename("moved", os.path.join(host["folder"], "made-moved"))
    return "moved"


@attack
def link_a_secret_in(host: dict[str, Any]) -> Any:
    os.link(host["secret"], "linked")
    return open("linked").read()


@attack
def follow_a_link_to_a_secret(host: dict[str, Any]) -> Any:
    os.symlink(host["secret"], "followed")
    return open("followed").read()


@attack
def truncate_by_path(host: dict[str, Any]) -> Any:
    os.truncate(host["outside"], 0)
    return "truncated"


@attack
def truncate_by_opening_to_read(host: dict[str, Any]) -> Any:
    return os.open(host["outside"], os.O_RDONLY | os.O_TRUNC)


@attack
def truncate_by_opening_for_nothing(host: dict[str, Any]) -> Any:
    return os.open(host["outside"], 3 | os.O_TRUNC)


@attack
def truncate_by_openat2(host: dict[str, Any]) -> Any:
    how = struct.pack("QQQ", os.O_RDONLY | os.O_TRUNC, 0, 0)
    return call(437, 437, -100, ctypes.c_char_p(host["outside"].encode()), ctypes.c_char_p(how), len(how))


@attack
def truncate_a_file_that_may_be_read(host: dict[str, Any]) -> Any:
    """It is one of those that the policy lets it read, and its permissions let anybody write."""
    return os.open(host["readable"], os.O_RDONLY | os.O_TRUNC)


@attack
def write_to_a_file_that_may_be_read(host: dict[str, Any]) -> Any:
    return os.open(host["readable"], os.O_WRONLY | os.O_APPEND)


@attack
def change_a_mode_outside(host: dict[str, Any]) -> Any:
    os.chmod(host["outside"], 0o777)
    return os.stat(host["outside"]).st_mode & 0o777 == 0o777


@attack
def change_a_mode_of_what_may_be_read(host: dict[str, Any]) -> Any:
    os.chmod(host["readable"], 0o777)
    return os.stat(host["readable"]).st_mode & 0o777 == 0o777


@attack
def change_a_mode_by_descriptor(host: dict[str, Any]) -> Any:
    os.fchmod(os.open(host["readable"], os.O_RDONLY), 0o777)
    return os.stat(host["readable"]).st_mode & 0o777 == 0o777


@attack
def change_a_mode_by_fchmodat2(host: dict[str, Any]) -> Any:
    call(452, 452, -100, ctypes.c_char_p(host["outside"].encode()), 0o777, 0)
    return os.stat(host["outside"]).st_mode & 0o777 == 0o777


@attack
def change_times_outside(host: dict[str, Any]) -> Any:
    os.utime(host["outside"], (1, 1))
    return os.stat(host["outside"]).st_mtime == 1


@attack
def touch_a_file_outside(host: dict[str, Any]) -> Any:
    before = os.stat(host["readable"]).st_mtime
    os.utime(host["readable"])
    return os.stat(host["readable"]).st_mtime != before


@attack
def change_an_owner_outside(host: dict[str, Any]) -> Any:
    before = os.stat(host["outside"]).st_ctime_ns
    os.chown(host["outside"], os.getuid(), os.getgid())
    return os.stat(host["outside"]).st_ctime_ns != before


@attack
def set_an_attribute_outside(host: dict[str, Any]) -> Any:
    os.setxattr(host["outside"], "user.attack", b"x")
    return "set"


@attack
def watch_a_folder_outside(host: dict[str, Any]) -> Any:
    watcher = _libc.inotify_init1(0)
    if watcher < 0 or _libc.inotify_add_watch(watcher, host["folder"].encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    return "watching"


@attack
def read_an_attribute_outside(host: dict[str, Any]) -> Any:
    return os.getxattr(host["secret"], "user.token")


@attack
def set_flags_of_a_file_that_may_be_read(host: dict[str, Any]) -> Any:
    """Its owner may, by a descriptor that only reads."""
    file, flags = os.open(host["readable"], os.O_RDONLY), bytearray(8)
    fcntl.ioctl(file, 0x80086601, flags)  # FS_IOC_GETFLAGS
    fcntl.ioctl(file, 0x40086602, bytes([flags[0] | 0x40, *flags[1:]]))  # not to be saved in backups
    return "set"


@attack
def seal_a_file_that_may_be_read(host: dict[str, Any]) -> Any:
    argument = struct.pack("=IIIIQII11Q", 1, 1, 4096, 0, 0, 0, 0, *[0] * 11)  # FS_IOC_ENABLE_VERITY
    fcntl.ioctl(os.open(host["readable"], os.O_RDONLY), 0x40806685, argument)
    return "sealed"


@attack
def lease_a_file_that_may_be_read(host: dict[str, Any]) -> Any:
    return fcntl.fcntl(os.open(host["readable"], os.O_RDONLY), 1024, fcntl.F_RDLCK) or "leased"


@attack
def be_told_of_changes_in_a_folder(host: dict[str, Any]) -> Any:
    folder = os.open(os.path.dirname(host["readable"]), os.O_RDONLY)
    return fcntl.fcntl(folder, 1026, 0x80000004) or "told"  # F_NOTIFY: DN_MULTISHOT, DN_CREATE


@attack
def open_by_a_path_alone(host: dict[str, Any]) -> Any:
    """A descriptor that opens nothing, and what is behind it by its number."""
    at = os.open(host["secret"], os.O_PATH)
    return open(f"/proc/self/fd/{at}").read()


@attack
def lock_a_file_outside(host: dict[str, Any]) -> Any:
    file = os.open(host["outside"], os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked"


@attack
def write_to_the_hosts_shared_memory(host: dict[str, Any]) -> Any:
    with open("/dev/shm/" + host["token"], "w") as file:
        file.write("x")  # in a sandbox's own it may: the host looks whether its own has it


@attack
def write_to_the_hosts_temporary_folder(host: dict[str, Any]) -> Any:
    with open("/tmp/" + host["token"], "w") as file:
        file.write("x")


@attack
def write_below_usr(host: dict[str, Any]) -> Any:
    return [
        os.open(folder + "/attack", os.O_CREAT | os.O_WRONLY) for folder in ("/usr/lib", "/usr/local/bin", "/usr/bin")
    ]


@attack
def write_to_the_root(host: dict[str, Any]) -> Any:
    return os.open("/attack", os.O_CREAT | os.O_WRONLY)


@attack
def write_to_the_standard_library(host: dict[str, Any]) -> Any:
    return os.open(os.path.dirname(os.__file__) + "/attack.py", os.O_CREAT | os.O_WRONLY)


@attack
def open_by_handle(host: dict[str, Any]) -> Any:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    path = ctypes.c_char_p(host["secret"].encode())
    call(303, 264, -100, path, ctypes.byref(handle), ctypes.byref(mount), 0)
    return call(304, 265, os.open("/", os.O_RDONLY), ctypes.byref(handle), 0)


@attack
def find_open_files_of_the_server(host: dict[str, Any]) -> Any:
    found = []
    for fd in range(3, 256):
        if fd == host["report"]:
            continue
        try:
            found.append((fd, os.fstat(fd).st_mode))
        except OSError:
            continue
    return found


# Devices and the kernel's own files.


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


# Other processes.


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


# Namespaces, mounts, privileges.


@attack
def make_a_user_namespace(host: dict[str, Any]) -> Any:
    return call(272, 97, 0x10000000) or "made"


@attack
def make_a_mount_namespace(host: dict[str, Any]) -> Any:
    return call(272, 97, 0x00020000) or "made"


@attack
def clone_into_a_user_namespace(host: dict[str, Any]) -> Any:
    pid = call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid


@attack
def clone3_into_a_user_namespace(host: dict[str, Any]) -> Any:
    arguments = struct.pack("Q" * 11, 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call(435, 435, ctypes.c_char_p(arguments), len(arguments))
    if pid == 0:
        os._exit(0)
    return pid


@attack
def join_the_hosts_namespaces(host: dict[str, Any]) -> Any:
    for kind in ("mnt", "net", "user"):
        try:
            return call(308, 268, os.open(f"/proc/{host['victim']}/ns/{kind}", os.O_RDONLY), 0) or kind
        except OSError:
            continue
    return None


@attack
def mount_a_filesystem(host: dict[str, Any]) -> Any:
    return (
        call(165, 40, ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/tmp"), ctypes.c_char_p(b"tmpfs"), 0, 0) or "mounted"
    )


@attack
def mount_the_root_to_write(host: dict[str, Any]) -> Any:
    return call(165, 40, 0, ctypes.c_char_p(b"/"), 0, 32, 0) or "mounted"


@attack
def mount_the_new_way(host: dict[str, Any]) -> Any:
    return call(430, 430, ctypes.c_char_p(b"tmpfs"), 0)


@attack
def copy_a_mount(host: dict[str, Any]) -> Any:
    return call(428, 428, -100, ctypes.c_char_p(b"/"), 1)


@attack
def unmount(host: dict[str, Any]) -> Any:
    return call(166, 39, ctypes.c_char_p(b"/proc"), 2) or "unmounted"


@attack
def change_the_root(host: dict[str, Any]) -> Any:
    os.chroot(".")
    return "changed"


@attack
def pivot_the_root(host: dict[str, Any]) -> Any:
    return call(155, 41, ctypes.c_char_p(b"."), ctypes.c_char_p(b".")) or "changed"


@attack
def become_root(host: dict[str, Any]) -> Any:
    os.setuid(0)
    return "root"


@attack
def become_another_user(host: dict[str, Any]) -> Any:
    os.setresuid(1, 1, 1)
    return "daemon"


@attack
def have_capabilities(host: dict[str, Any]) -> Any:
    header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    call(125, 90, ctypes.c_char_p(header), ctypes.byref(data))
    return any(data.raw) or None


@attack
def gain_rights_by_a_program(host: dict[str, Any]) -> Any:
    no_new_privileges = 39
    return None if _libc.prctl(no_new_privileges, 0, 0, 0, 0) == 1 else "may gain"


# Other doors of the kernel.


@attack
def load_a_module(host: dict[str, Any]) -> Any:
    return call(175, 105, 0, 0, ctypes.c_char_p(b"")) or "loaded"


@attack
def load_a_program_into_the_kernel(host: dict[str, Any]) -> Any:
    attributes = ctypes.create_string_buffer(128)
    struct.pack_into("IIII", attributes, 0, 2, 4, 4, 1)
    return call(321, 280, 0, ctypes.byref(attributes), 128)


@attack
def watch_the_processor(host: dict[str, Any]) -> Any:
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0).ljust(128, b"\0"))
    return call(298, 241, ctypes.byref(attributes), 0, -1, -1, 0)


@attack
def use_io_uring(host: dict[str, Any]) -> Any:
    return call(425, 425, 4, ctypes.create_string_buffer(120))


@attack
def use_userfaultfd(host: dict[str, Any]) -> Any:
    return call(323, 282, 1)


@attack
def keep_a_key(host: dict[str, Any]) -> Any:
    text = ctypes.c_char_p(b"attack")
    return call(248, 217, ctypes.c_char_p(b"user"), text, text, 6, -4)


@attack
def read_keys(host: dict[str, Any]) -> Any:
    return call(250, 219, 0, -4, 1)


@attack
def use_another_personality(host: dict[str, Any]) -> Any:
    return call(135, 92, 0x0400000) or "changed"  # READ_IMPLIES_EXEC


@attack
def name_the_machine(host: dict[str, Any]) -> Any:
    return call(170, 161, ctypes.c_char_p(b"attack"), 6) or "named"


@attack
def set_the_clock(host: dict[str, Any]) -> Any:
    return call(227, 112, 0, ctypes.c_char_p(struct.pack("qq", 1, 0))) or "set"


@attack
def restart_the_machine(host: dict[str, Any]) -> Any:
    return call(169, 142, 0xFEE1DEAD, 672274793, 0, 0) or "may"  # it turns Ctrl-Alt-Del off, which does no harm


@attack
def swap(host: dict[str, Any]) -> Any:
    return call(167, 224, ctypes.c_char_p(b"swap"), 0) or "swapping"


@attack
def keep_accounts(host: dict[str, Any]) -> Any:
    return call(163, 89, ctypes.c_char_p(b"accounts")) or "accounting"


@attack
def use_ports_of_the_machine(host: dict[str, Any]) -> Any:
    return call(172, None, 3) or "may"


@attack
def call_a_32_bit_kernel(host: dict[str, Any]) -> Any:
    """`int 0x80`: another table of calls, which the filter knows nothing of. The kernel ends who tries."""
    if not _X86:
        raise NotImplementedError
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # getpid
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    pid = function()
    return pid if pid > 0 else None


@attack
def call_an_x32_kernel(host: dict[str, Any]) -> Any:
    return call(0x40000000 | 39, None)


@attack
def call_what_is_newer_than_the_filter(host: dict[str, Any]) -> Any:
    return call(457, 457, 0, 0, 0, 0) or "statmount"


# Memory that is counted for no process.


@attack
def keep_memory_in_a_descriptor(host: dict[str, Any]) -> Any:
    return os.memfd_create("attack")


@attack
def keep_secret_memory(host: dict[str, Any]) -> Any:
    return call(447, 447, 0)


@attack
def keep_shared_memory(host: dict[str, Any]) -> Any:
    return call(29, 194, 0, 1 << 20, 0o1666) or "kept"


@attack
def keep_messages(host: dict[str, Any]) -> Any:
    return call(68, 186, 0, 0o1666) or "kept"


@attack
def keep_semaphores(host: dict[str, Any]) -> Any:
    return call(64, 190, 0, 100, 0o1666) or "kept"


@attack
def keep_a_message_queue(host: dict[str, Any]) -> Any:
    return call(240, 180, ctypes.c_char_p(b"attack"), os.O_CREAT | os.O_RDWR, 0o666, 0)


@attack
def attach_the_hosts_shared_memory(host: dict[str, Any]) -> Any:
    return call(30, 196, host["shared_memory"], 0, 0)


# The network.


@attack
def connect_to_the_hosts_loopback(host: dict[str, Any]) -> Any:
    return socket.create_connection(("127.0.0.1", host["tcp"]), 2)


@attack
def connect_to_the_hosts_loopback_by_ipv6(host: dict[str, Any]) -> Any:
    return socket.create_connection(("::1", host["tcp"]), 2)


@attack
def connect_while_sending(host: dict[str, Any]) -> Any:
    with socket.socket() as sender:
        return sender.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", host["tcp"]))


@attack
def send_a_datagram_to_the_host(host: dict[str, Any]) -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(host["token"].encode(), ("127.0.0.1", host["udp"]))


@attack
def connect_to_a_unix_socket(host: dict[str, Any]) -> Any:
    client = socket.socket(socket.AF_UNIX)
    client.connect(host["unix"])
    return "connected"


@attack
def connect_to_an_abstract_socket(host: dict[str, Any]) -> Any:
    client = socket.socket(socket.AF_UNIX)
    client.connect("\0" + host["abstract"])
    return "connected"


@attack
def send_to_an_abstract_socket_from_a_pair(host: dict[str, Any]) -> Any:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", "\0" + host["abstract_datagrams"])


@attack
def send_to_a_unix_socket_from_a_pair(host: dict[str, Any]) -> Any:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", host["unix_datagrams"])


@attack
def connect_a_pair_to_a_unix_socket(host: dict[str, Any]) -> Any:
    for kind, address in ((socket.SOCK_DGRAM, host["unix_datagrams"]), (socket.SOCK_STREAM, host["unix"])):
        one, _ = socket.socketpair(socket.AF_UNIX, kind)
        try:
            one.connect(address)
            return one.send(b"x")
        except OSError:
            continue
    return None


@attack
def list_the_hosts_connections(host: dict[str, Any]) -> Any:
    return [line for line in open("/proc/net/tcp") if f":{host['tcp']:04X} " in line]


@attack
def list_the_hosts_unix_sockets(host: dict[str, Any]) -> Any:
    return [line for line in open("/proc/net/unix") if host["abstract"] in line or host["unix"] in line]


@attack
def list_the_hosts_devices(host: dict[str, Any]) -> Any:
    return os.listdir("/sys/class/net")


@attack
def use_vsock(host: dict[str, Any]) -> Any:
    return socket.socket(40, socket.SOCK_STREAM)


@attack
def use_netlink(host: dict[str, Any]) -> Any:
    return socket.socket(16, socket.SOCK_RAW, 0)


@attack
def use_packets(host: dict[str, Any]) -> Any:
    return socket.socket(17, socket.SOCK_RAW, 0)


@attack
def use_raw_sockets(host: dict[str, Any]) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


@attack
def use_crypto_sockets(host: dict[str, Any]) -> Any:
    return socket.socket(38, socket.SOCK_SEQPACKET, 0)


@attack
def make_other_pairs(host: dict[str, Any]) -> Any:
    pair = (ctypes.c_int * 2)()
    return call(53, 199, 30, 1, 0, pair) or "made"  # AF_TIPC


def attempt(function: Attack, host: dict[str, Any]) -> str | None:
    """What an attack got, tried in a process of its own. None: it was stopped."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        host["report"] = write
        signal.alarm(10)
        try:
            got = function(host)
            if got:
                os.write(write, repr(got)[:500].encode())
        except (OSError, MemoryError, NotImplementedError, PermissionError):
            pass
        except BaseException:
            os.write(write, ("a mistake in the attack: " + traceback.format_exc(limit=3)).encode()[:2000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        got = file.read().decode()
    os.waitpid(child, 0)
    return got or None


if __name__ == "__main__":
    with open("outside.json") as file:
        told = json.load(file) | {"parent": os.getppid()}
    names = [name for name in ATTACKS if name not in told["leave_out"]]
    os.write(1, json.dumps({name: attempt(ATTACKS[name], told) for name in names}).encode())
