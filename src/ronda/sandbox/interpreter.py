"""The Python that runs inside: a configured name or path → the real executable and the folders it needs.

It is asked outside, once. So a shim (a script that looks for the interpreter) is resolved here and never run inside.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ronda.errors import BadConfig
from ronda.sandbox.user import User, closed_folder

SYSTEM_PYTHON = "/usr/bin/python3"
_PATIENCE = 20.0  # seconds for an interpreter to say where it is
_QUESTION = """
import json, sys, sysconfig
print(json.dumps({
    "executable": sys.executable, "version": list(sys.version_info[:2]), "prefixes": [sys.prefix, sys.base_prefix],
    "folders": sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} - {None}),
}))
"""
_PARTS = (
    "bin",
    "lib",
    "lib64",
    "share",
    "include",
    "pyvenv.cfg",
)  # of a prefix; the prefix itself may be a person's home


class Interpreter(Struct, frozen=True):
    """A Python that a sandbox's user can reach. `note` says why it is not the one that was asked for."""

    executable: str
    version: tuple[int, int]
    needs: tuple[str, ...]  # files and folders besides the system's
    note: str | None = None


_found: dict[tuple[str, float], Interpreter] = {}


async def find_interpreter(python: str, user: User) -> Interpreter:
    """The interpreter of that name or path if this user can reach it, else the system's, else a sentence that helps."""
    wanted = await _ask(python)
    closed = _closed_folder(wanted, user)
    if closed is None:
        return wanted
    why = f"{wanted.executable} cannot be used in the sandbox: its user may not enter {closed}"
    help_ = f"make that folder accessible (chmod o+x {closed}), or name another Python"
    system = await _ask(SYSTEM_PYTHON) if shutil.which(SYSTEM_PYTHON) else None
    if system is None or _closed_folder(system, user) is not None:
        raise BadConfig(f"{why}; {help_}")
    return Interpreter(system.executable, system.version, system.needs, f"{why}, so {SYSTEM_PYTHON} is used; {help_}")


def _closed_folder(interpreter: Interpreter, user: User) -> Path | None:
    for path in (interpreter.executable, *interpreter.needs):
        if (closed := closed_folder(path, user)) is not None:
            return closed
    return None


async def _ask(python: str) -> Interpreter:
    path = shutil.which(python)
    if path is None:
        raise BadConfig(
            f"there is no Python {python!r} for the sandbox; name one that is installed, such as {SYSTEM_PYTHON}"
        )
    key = (path, os.stat(path).st_mtime)
    if key not in _found:
        _found[key] = await asyncio.to_thread(_answer, path)
    return _found[key]


def _answer(path: str) -> Interpreter:
    try:
        said = subprocess.run(
            [path, "-I", "-c", _QUESTION], capture_output=True, timeout=_PATIENCE, check=True, stdin=subprocess.DEVNULL
        ).stdout
        answer = json.loads(said.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise BadConfig(f"{path} does not run as a Python for the sandbox: {error}") from error
    version = (answer["version"][0], answer["version"][1])
    if version < (3, 8):
        raise BadConfig(f"{path} is Python {version[0]}.{version[1]}; the sandbox needs 3.8 or newer")
    parts = [os.path.join(prefix, part) for prefix in answer["prefixes"] for part in _PARTS]
    needs = [path for path in (*parts, *answer["folders"]) if os.path.exists(path) and not _is_system(path)]
    return Interpreter(answer["executable"], version, tuple(dict.fromkeys(needs)))


def _is_system(path: str) -> bool:
    return path == "/usr" or path.startswith(("/usr/", "/lib", "/bin"))


def installed_packages(interpreter: Interpreter, names: Sequence[str]) -> list[str]:
    """Those of these packages that code inside can import. Waits for a process."""
    question = f"import importlib.util; print(*[name for name in {list(names)!r} if importlib.util.find_spec(name)])"
    try:
        answer = subprocess.run(
            [interpreter.executable, "-I", "-c", question],
            capture_output=True, timeout=_PATIENCE, check=True, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return answer.stdout.split()
