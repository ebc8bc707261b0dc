"""Commands as a person gives them: what they print, how they end, and a model that says what it is told to."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ronda.cli.main import main


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """How a command ends, and what it prints on standard output and standard error."""
    try:
        code = main(list(arguments))
    except SystemExit as ended:  # argparse's way to say it
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


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
