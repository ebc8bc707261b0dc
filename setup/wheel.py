"""Builds Ronda's wheel, installs it without extras into a new venv of each Python that is named, and prints what that takes.

    python setup/wheel.py                        with this Python
    python setup/wheel.py python3.12 python3.13  with those

Ends with 1 where an install is larger than it may be, or an agent does not run. It needs hatchling, and pip's way to packages.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
MOST_PACKAGES: Final = 7  # beside Ronda
MOST_DOWNLOAD: Final = 11.0  # MB
MOST_ON_DISK: Final = 30.0  # MB, without bytecode

PROGRAM: Final = """
from ronda import Agent, run_agent, tool
from ronda.testing import ScriptedModel, calls, says

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

result = run_agent(Agent(ScriptedModel(calls("add", a=1, b=2), says("three")), tools=[add]), "add")
assert (result.output, result.tool_calls[0].content) == ("three", "3"), result
"""


def build(folder: Path) -> Path:
    """The wheel, made without fetching anything."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("ronda-*.whl")
    return wheel


def measure(python: str, wheel: Path, folder: Path) -> bool:
    venv, downloads = folder / "venv", folder / "downloads"
    subprocess.run([python, "-m", "venv", str(venv)], check=True)
    own = str(venv / "bin" / "python")
    pip = [own, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    before = set(_packages(own))
    subprocess.run([*pip, "download", "--only-binary", ":all:", "--dest", str(downloads), str(wheel)], check=True)
    install = ["install", "--no-index", "--no-compile", "--find-links", str(downloads), str(wheel)]
    subprocess.run([*pip, *install], check=True)
    [site] = venv.glob("lib/python*/site-packages")
    brought = sorted(set(_packages(own)) - before - {"ronda"})
    download = _megabytes(downloads)
    on_disk = _megabytes(site) - _megabytes(site / "pip") - _megabytes(site / "setuptools")
    subprocess.run([own, "-B", "-c", PROGRAM], check=True)
    subprocess.run([str(venv / "bin" / "ronda"), "--version"], check=True, stdout=subprocess.DEVNULL)
    print(f"{python}: {len(brought)} packages beside ronda ({', '.join(brought)})")
    print(f"  downloads {download:.1f} MB of {MOST_DOWNLOAD:.0f}, on disk {on_disk:.1f} MB of {MOST_ON_DISK:.0f}")
    return len(brought) <= MOST_PACKAGES and download < MOST_DOWNLOAD and on_disk < MOST_ON_DISK


def _packages(python: str) -> list[str]:
    code = "import importlib.metadata as m; print(*{d.name for d in m.distributions()})"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def _megabytes(folder: Path) -> float:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files) / 1e6


def main(pythons: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        fits = []
        for number, python in enumerate(pythons or [sys.executable]):
            place = Path(folder) / str(number)
            place.mkdir()
            fits.append(measure(python, wheel, place))
    return 0 if all(fits) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
