"""A machine without a library that the local engine was linked with: one sentence with the way out, at every door."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.timeouts import TIMEOUT

SENTENCE = (
    "the local engine needs the system library libgomp.so.1, which is missing here; 'sudo apt-get install libgomp1' "
    "(Debian, Ubuntu) or 'sudo dnf install libgomp' (Fedora) gets it"
)
LIBRARY = """
from ronda import Agent, invoke_agent
from ronda.errors import RondaError

try:
    invoke_agent(Agent(model="local:smollm2"), "hi")
except RondaError as error:
    print(f"ronda: {error}")
"""
DOORS = {
    "serve": ["-m", "ronda", "serve", "--port", "0", "--data-dir", ":memory:"],
    "run": ["-m", "ronda", "run", "hi"],
    "run --stream": ["-m", "ronda", "run", "--stream", "hi"],
    "library": ["-c", LIBRARY],
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a process in which importing the engine fails as the linker says it on a machine without the library."""
    package = tmp_path / "xllamacpp"
    package.mkdir()
    said = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (package / "__init__.py").write_text(f"raise ImportError({said!r})\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("command", DOORS.values(), ids=DOORS.keys())
def test_a_missing_library_is_one_sentence_with_the_way_out(environ: dict[str, str], command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )

    said = done.stdout + done.stderr
    assert SENTENCE in said
    assert len(said.splitlines()) == 1, said
    assert (done.returncode != 0) == (command[0] == "-m")
