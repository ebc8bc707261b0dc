"""`make serve`: the Makefile's own words around the server, without anything being set up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import startup
from tests.timeouts import TIMEOUT

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def make(tmp_path: Path) -> list[str]:
    """`make serve`, with an environment that is ready and has the ronda of these tests in it."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / ".ready").touch()  # newer than any file it is made from
    (venv / ".ready-ui").touch()
    command = venv / "bin" / "ronda"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ronda "$@"\n')
    command.chmod(0o755)
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["Hello."]))
    return ["make", "serve", f"VENV={venv}", f"MODEL=script:{script}", "ARGS=--data-dir :memory:"]


def started(*command: str) -> subprocess.Popen[str]:
    """In a process group of its own, as a terminal would have it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_ctrl_c_ends_it_without_a_complaint_of_make(make: list[str]) -> None:
    with started(*make, "PORT=0") as process:
        up = startup(process)
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
        out, err = process.communicate(timeout=TIMEOUT)

    assert up[0].startswith("ronda ")
    assert "Error" not in out + err
    assert "***" not in out + err


def test_a_model_that_the_shell_has_set_for_something_else_is_not_served(
    make: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL", "openai-chat:gpt-5.5")
    monkeypatch.setenv("RONDA_MODEL", "openai-chat:gpt-5.5")
    command = [word for word in make if not word.startswith("MODEL=")]
    printed = subprocess.run([*command, "-n"], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=True)

    assert "serve --model local:smollm2 " in printed.stdout


def test_a_port_in_use_is_told_in_the_words_of_make(make: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = started(*make, f"PORT={port}")
        _, err = process.communicate(timeout=TIMEOUT)

    assert process.returncode == 2
    assert f"choose another port with 'make serve PORT={port + 1}'" in err.splitlines()[0]
