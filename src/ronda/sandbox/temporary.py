"""Temporary folders, named after the process that made them: those of one that was killed are removed by another."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Final

from ronda.sandbox.folders import remove_tree
from ronda.sandbox.processes import has_ended
from ronda.sandbox.user import UIDS

_PREFIX: Final = "ronda-sandbox-"


def sweep_temporary(scratch: str | os.PathLike[str] | None = None) -> None:
    """Removes those of processes that are no more. Blocks."""
    root = tempfile.gettempdir() if scratch is None else os.fspath(scratch)
    for name in os.listdir(root):
        pid = name.removeprefix(_PREFIX).partition("-")[0]
        path = os.path.join(root, name)
        if not name.startswith(_PREFIX) or not pid.isdigit() or not has_ended(int(pid)):
            continue
        owner = os.lstat(path).st_uid
        if owner == os.getuid() or (os.getuid() == 0 and owner in UIDS):  # every user can make a folder of that name
            with contextlib.suppress(OSError):
                remove_tree(path)


def temporary_prefix() -> str:
    """Of folders that the next process removes, if this one is killed before it has."""
    return f"{_PREFIX}{os.getpid()}-"
