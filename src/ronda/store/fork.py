"""What happens to open stores when a process forks: the parent notices nothing, and the child lets go of all of them.

    with GATE:            a thread uses SQLite. A fork waits for it: a lock that a thread holds is held for ever in the child,
                          which does not have that thread
    disown_after_fork(x)  in a child, `x.disown()` is called: it drops what it has inherited, and touches nothing of it

A child that closed an inherited connection to SQLite could delete a log that the parent still writes to.
"""

from __future__ import annotations

import os
import threading
from threading import get_ident
from typing import Final, Protocol
from weakref import WeakSet

LONGEST_WAIT: Final = 5.0  # seconds: for a thread that waits for a disk no fork waits for ever


class ForkGate:
    """Threads go in and out as they like, unless one of them forks. A thread that is inside may go further in.

    The garbage collector may close a store between any two steps of any thread, of those here too: a thread may always come in
    while it is itself at work on the gate, or forks. Each method leaves `_inside` as such a visit found it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._inside: dict[int, int] = {}  # by thread: how deep
        self._forks: list[int] = []  # threads that fork

    def __enter__(self) -> None:
        me = get_ident()
        with self._changed:
            while self._forks and me not in self._inside and me not in self._forks:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = get_ident()
        with self._changed:
            depth = self._inside[me] - 1
            if depth:
                self._inside[me] = depth
                return
            del self._inside[me]
            if self._forks:
                self._changed.notify_all()

    def close(self) -> None:
        me = get_ident()
        with self._changed:
            self._forks.append(me)
            self._changed.wait_for(lambda: self._inside.keys() <= {me}, LONGEST_WAIT)

    def open(self) -> None:
        with self._changed:
            self._forks.remove(get_ident())
            self._changed.notify_all()

    def open_in_child(self) -> None:
        """Where this thread is the only one."""
        me = get_ident()
        self._changed = threading.Condition(threading.RLock())
        self._inside = {me: self._inside[me]} if me in self._inside else {}
        self._forks = []


class Inherited(Protocol):
    def disown(self) -> None:
        """In a child: what this has is its parent's."""


GATE: Final = ForkGate()
_open: WeakSet[Inherited] = WeakSet()


def disown_after_fork(one: Inherited) -> None:
    _open.add(one)


def _disown_all() -> None:
    GATE.open_in_child()
    for one in list(_open):
        _open.discard(one)
        one.disown()


def keep_for_ever(one: object) -> None:
    """So that nothing is done at its end."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _prepare() -> None:
    if _open:
        import ctypes  # noqa: F401 - here: a child may hang when it loads a library that a thread was just loading
    GATE.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=GATE.open, after_in_child=_disown_all)
