"""Attacks that keep memory which is counted for no process."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from typing import Any

from .registry import attack, call


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
