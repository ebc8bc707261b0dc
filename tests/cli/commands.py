"""Commands as a person gives them: what they print, how they end, and a model that says what it is told to."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from tests.timeouts import TIMEOUT

from ronda.cli.main import main


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """How a command ends, and what it prints on standard output and standard error."""
    try:
        code = main(list(arguments))
    except SystemExit as ended:  # argparse's way to say it
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def shown_at_terminal(*arguments: str, columns: int = 80, **environ: str) -> tuple[int, str]:
    """How a command ends, and all that it writes to a terminal, colours included."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ronda", *arguments], stdin=secondary, stdout=secondary, stderr=secondary,
        env={**environment, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path), **environ}, start_new_session=True,
    )  # fmt: skip
    os.close(secondary)
    written = bytearray()
    try:
        while data := os.read(primary, 65536):
            written += data
    except OSError:  # Linux says so where the last program that had the terminal open has ended
        pass
    finally:
        os.close(primary)
    return process.wait(TIMEOUT), written.decode().replace("\r\n", "\n")


def startup(process: subprocess.Popen[str]) -> list[str]:
    """The lines with which a server says that it is up; of one that cannot start, what it says instead."""
    assert process.stderr is not None
    lines: list[str] = []
    while not (lines and lines[-1].startswith("  curl ")) and (line := process.stderr.readline()):
        lines.append(line)
    return lines


def script(folder: Path, *turns: Any) -> str:
    file = folder / "script.json"
    file.write_text(json.dumps(turns or ["Hello."]))
    return f"script:{file}"
