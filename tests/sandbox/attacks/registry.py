"""All attacks by their names, and what they share."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
from collections.abc import Callable
from typing import Any

Attack = Callable[[dict[str, Any]], Any]

ATTACKS: dict[str, Attack] = {}
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


class NotHere(Exception):
    """This machine has nothing to try it on."""


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def call(x86: int, arm: int | None, *arguments: Any) -> int:
    """A system call by its number, or the error it gives."""
    number = x86 if X86 else arm
    if number is None:
        raise NotHere
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    answer = int(LIBC.syscall(ctypes.c_long(number), *words))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
