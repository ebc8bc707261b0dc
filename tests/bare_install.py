"""What `pip install ronda` brings, and nothing else: a folder with Ronda and some packages, for a Python that sees no others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.test_lock_files import PROJECT
from tests.timeouts import TIMEOUT

SOURCE = Path(__file__).parent.parent / "src" / "ronda"


def needed(extras: Iterable[str] = ()) -> set[str]:
    """The packages beside Ronda that an install with these extras has here, by their canonical names."""
    found: set[str] = set()
    asked = [*PROJECT["dependencies"]]
    for extra in extras:
        asked += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        _add(requirement, found)
    return found


def _add(requirement: Requirement, found: set[str]) -> None:
    name = canonicalize_name(requirement.name)
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return
    if name in found and not requirement.extras:
        return
    found.add(name)
    try:
        more = requires(name) or []
    except PackageNotFoundError:
        return
    for one in map(Requirement, more):
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            one.marker = None
            _add(one, found)


def install(folder: Path, extras: Iterable[str] = ()) -> None:
    """Links Ronda and what these extras need into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "ronda").symlink_to(SOURCE)
    for package in sorted(needed(extras)):
        try:
            files = distribution(package).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            top = file.parts[0]
            target = Path(str(file.locate())).parents[len(file.parts) - 2] if len(file.parts) > 1 else file.locate()
            if re.fullmatch(r"\.\.|__pycache__|bin", top) or (folder / top).is_symlink():
                continue
            (folder / top).symlink_to(str(target))


def python(folder: Path, *words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python that finds packages in the folder only: -S leaves out those of the machine."""
    known = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    return subprocess.run(
        [sys.executable, "-S", *words],
        env={**known, "HOME": str(cwd), "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
