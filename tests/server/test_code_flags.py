"""What flags of `ronda serve` do to the code that a model writes: each is shown to act."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.server.coding import post, serving
from tests.server.coding import root as root

from ronda.cli.main import parse
from ronda.cli.settings import read_config
from ronda.core.parts import ToolTurn
from ronda.testing import ScriptedModel, calls, says

PYTHON, SHELL = "mistralrs_execute_python", "mistralrs_shell"
MEMORY = "try: x = bytearray(200 << 20); print('had')\nexcept MemoryError: print('refused')"
FORKS = """
import subprocess
started = []
try:
    while len(started) < 40:
        started.append(subprocess.Popen(["sleep", "60"]))
except OSError:
    print("stopped in time" if len(started) < 10 else len(started))
for process in started:
    process.kill()
"""
LIMIT = "import resource; print(resource.getrlimit(resource.RLIMIT_{}))"
CASES: dict[str, tuple[list[str], str, dict[str, Any], str]] = {
    "--code-exec-timeout": (["--code-exec-timeout", "0.5"], PYTHON, {"code": "while True: pass"}, '"timeout_secs":0.5'),
    "--code-exec-python": (
        ["--code-exec-python", "/usr/bin/python3"], PYTHON, {"code": "import sys; sys.executable"}, "/usr/bin/python3",
    ),
    "--shell-path": (["--shell-path", "/bin/bash"], SHELL, {"commands": ["echo ${BASH_VERSION:+bash}"]}, "bash"),
    "--shell-timeout": (["--shell-timeout", "0.5"], SHELL, {"commands": ["sleep 60"]}, '"status":"timeout"'),
    "--sb-max-memory-mb": (["--sb-max-memory-mb", "100"], PYTHON, {"code": MEMORY}, "refused"),
    "--sb-max-cpu-secs": (["--sb-max-cpu-secs", "7"], PYTHON, {"code": LIMIT.format("CPU")}, "(7, 8)"),
    "--sb-max-procs": (["--sb-max-procs", "9"], PYTHON, {"code": FORKS}, "stopped in time"),
    "--sandbox off": (["--sandbox", "off"], PYTHON, {"code": "import os; os.path.exists('/proc/1')"}, "True"),
}  # fmt: skip


@pytest.mark.parametrize(("flags", "tool", "arguments", "output"), CASES.values(), ids=CASES.keys())
async def test_the_flag_acts(
    door: Door, root: Path, flags: list[str], tool: str, arguments: dict[str, Any], output: str
) -> None:
    config = read_config(parse(["serve", "--agent", *flags]))
    settings = {
        name: getattr(config, name)
        for name in ("code_exec_timeout", "code_exec_python", "shell_path", "shell_timeout", "sandbox")
    }
    model = ScriptedModel(calls(tool, **arguments), says("done"))
    body = {"messages": [{"role": "user", "content": "go"}], "enable_code_execution": True, "enable_shell": True}
    async with serving(door, model, root, **settings):
        status, answer = await post(door, "chat/completions", body)
    assert status == 200, answer
    [*_, turn] = [turn for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert output in turn.results[0].content


async def test_all_sessions_work_in_one_folder_where_that_is_wanted(door: Door, root: Path) -> None:
    """The shell's stay apart."""
    (root / "shared").mkdir()
    model = ScriptedModel(
        calls(PYTHON, code="open('a.txt', 'w').write('here')"),
        says("one"),
        calls(PYTHON, code="open('a.txt').read()"),
        calls(SHELL, commands=["ls"]),
        says("two"),
    )
    body = {"messages": [{"role": "user", "content": "go"}], "enable_code_execution": True, "enable_shell": True}
    async with serving(door, model, root, code_exec_workdir=str(root / "shared")):
        await post(door, "chat/completions", body)
        await post(door, "chat/completions", body)
    python, shell = [turn.results[0].content for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert json.loads(python)["result"] == "'here'"
    assert json.loads(shell)["stdout"] == ""
    assert os.listdir(root / "shared") == ["a.txt"]
