"""Attacks on files: what is outside is read, changed, moved, watched or linked to."""

from __future__ import annotations

import ctypes
import ctypes.util
import fcntl
import os
import socket
import struct
from typing import Any

from .registry import LIBC, attack, call


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
    """It is one of those that the policy lets it read, and its permissions let every user write."""
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
    watcher = LIBC.inotify_init1(0)
    if watcher < 0 or LIBC.inotify_add_watch(watcher, host["folder"].encode(), 0xFFF) < 0:
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
    return [(fd, os.fstat(fd).st_mode) for fd in host["inherited"]]
