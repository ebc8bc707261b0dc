"""Attacks by calls that change the machine, or that a filter may have forgotten."""

from __future__ import annotations

import ctypes
import ctypes.util
import fcntl
import mmap
import os
import struct
from typing import Any

from .registry import X86, NotHere, attack, call


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
def reserve_the_disk(host: dict[str, Any]) -> Any:
    """More than a file may have: in blocks that are no part of it (FALLOC_FL_KEEP_SIZE)."""
    file = os.open("reserved", os.O_CREAT | os.O_RDWR)
    try:
        call(285, 47, file, 1, 0, 300 << 20)
        return os.fstat(file).st_blocks
    finally:
        os.unlink("reserved")


@attack
def reserve_the_disk_by_ioctl(host: dict[str, Any]) -> Any:
    file = os.open("reserved", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.ioctl(file, 0x4030582A, struct.pack("hhqqiI4i", 0, 0, 0, 300 << 20, 0, 0, 0, 0, 0, 0))  # FS_IOC_RESVSP64
        return os.fstat(file).st_blocks
    finally:
        os.unlink("reserved")


@attack
def use_ports_of_the_machine(host: dict[str, Any]) -> Any:
    return call(172, None, 3) or "may"


@attack
def call_a_32_bit_kernel(host: dict[str, Any]) -> Any:
    """`int 0x80`: another table of calls, which the filter knows nothing of. The kernel ends who tries."""
    if not X86:
        raise NotHere
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
