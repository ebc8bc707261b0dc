"""What flags of `ronda serve` do to the code that a model writes: each is shown to act."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.interaction.doors import QUICK, Door, Json, Remembering, soon
from tests.server.coding import post, require_isolation
from tests.server.coding import root as root

from ronda.cli.main import parse
from ronda.cli.settings import read_config
from ronda.core.parts import ToolTurn
from ronda.server.app import Server, create_app
from ronda.server.features.code.code_tools import CodeTools, code_opener
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
SOCKET = """
import socket
try:
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname())
    print("connected")
except OSError:
    print("refused")
"""
TABLE = """
[sandbox]
max_open_fds = 77
max_file_sz_mb = 3
max_disk_mb = 50
extra_fs_read = ["{root}/read"]
extra_fs_write = ["{root}/write"]
extra_env = ["COLOUR=blue", "NVM_DIR"]
"""
LOOK = """
import os, resource
open("{root}/write/made", "w").write("made")
try:
    open("{root}/read/secret", "w")
except OSError:
    print("kept")
limits = [resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)]
print(open("{root}/read/secret").read(), os.environ["COLOUR"], os.environ["NVM_DIR"], limits)
"""
FILL = "for n in range(40): open(str(n), 'wb').write(bytes(2 << 20))\nimport time; time.sleep(60)"
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
    "--sandbox-network full": (["--sandbox-network", "full"], PYTHON, {"code": SOCKET}, "connected"),
    "--sandbox-network loopback": (["--sandbox-network", "loopback"], PYTHON, {"code": SOCKET}, "connected"),
    "--sandbox-profile": (["--sandbox-profile", "developer"], PYTHON, {"code": "import os; os.environ.get('NVM_DIR')"}, "/nvm"),
    "--agent-permission": (["--agent-permission", "deny"], PYTHON, {"code": "1"}, "not permitted"),
    "--sandbox off": (["--sandbox", "off"], PYTHON, {"code": "import os; os.path.exists('/proc/1')"}, "True"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RONDA_SANDBOX", "MISTRALRS_SANDBOX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NVM_DIR", "/nvm")


@contextlib.asynccontextmanager
async def started(door: Door, model: ScriptedModel, root: Path, *flags: str) -> AsyncIterator[Server]:
    """A server as `ronda serve --agent` starts it with these flags."""
    config = replace(read_config(parse(["serve", "--agent", *flags])), model="script:test", retry=QUICK)
    require_isolation(config.sandbox)
    data = root / "data"
    data.mkdir()
    server = Server(config, Remembering(), provider=model, given={"code": code_opener(config, data)})
    door.put(create_app(server))
    try:
        yield server
    finally:
        door.put(None)
        async with soon():
            await server.close()


BODY: Json = {"messages": [{"role": "user", "content": "go"}], "enable_code_execution": True, "enable_shell": True}


def results(model: ScriptedModel) -> list[str]:
    contents = [turn.results[0].content for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    return [content.partition("\nFiles:")[0] for content in contents]


@pytest.mark.parametrize(("flags", "tool", "arguments", "output"), CASES.values(), ids=CASES.keys())
async def test_the_flag_acts(
    door: Door, root: Path, flags: list[str], tool: str, arguments: dict[str, Any], output: str
) -> None:
    model = ScriptedModel(calls(tool, **arguments), says("done"))
    async with started(door, model, root, *flags):
        status, answer = await post(door, "chat/completions", BODY)
    assert status == 200, answer
    assert output in results(model)[-1]


async def test_the_table_of_the_sandbox_acts(door: Door, root: Path) -> None:
    for name in ("read", "write"):
        (root / name).mkdir()
        (root / name).chmod(0o777 if name == "write" else 0o755)
    (root / "read" / "secret").write_text("seen")
    settings = root / "ronda.toml"
    settings.write_text(TABLE.format(root=root))
    model = ScriptedModel(calls(PYTHON, code=LOOK.format(root=root)), calls(PYTHON, code=FILL), says("done"))
    async with started(door, model, root, "--config", str(settings)):
        await post(door, "chat/completions", BODY)
    look, fill = map(json.loads, results(model))
    assert look.get("stdout") == f"kept\nseen blue /nvm [77, {3 << 20}]\n", look
    assert (root / "write" / "made").read_text() == "made"
    assert "more disk than the sandbox allows" in fill["exception"], fill


async def test_all_sessions_work_in_one_folder_where_that_is_wanted(door: Door, root: Path) -> None:
    """The shell's stay apart, below a folder of their own."""
    (root / "shared").mkdir()
    model = ScriptedModel(
        calls(PYTHON, code="open('a.txt', 'w').write('here')"),
        says("one"),
        calls(PYTHON, code="open('a.txt').read()"),
        calls(SHELL, commands=["ls", "echo from > shell.txt"]),
        says("two"),
    )
    flags = ("--code-exec-workdir", str(root / "shared"), "--shell-workdir", str(root / "sessions"))
    async with started(door, model, root, *flags):
        await post(door, "chat/completions", BODY)
        await post(door, "chat/completions", BODY)
    python, shell = results(model)
    assert json.loads(python)["result"] == "'here'"
    assert json.loads(shell)["stdout"] == ""
    assert os.listdir(root / "shared") == ["a.txt"]
    assert [path.read_text() for path in (root / "sessions").rglob("shell.txt")] == ["from\n"]


@pytest.mark.parametrize(("size", "is_older"), [("1", True), ("0", False)])
async def test_a_session_begins_with_a_python_from_the_pool(door: Door, root: Path, size: str, is_older: bool) -> None:
    """One that was there before any process asked: the pipe of its errors is as old as the process."""
    model = ScriptedModel(calls(PYTHON, code="import os; print(os.fstat(2).st_ctime_ns)"), says("done"))
    async with started(door, model, root, "--code-exec-pool", size) as server:
        assert isinstance(server.code, CodeTools)
        async with soon():
            await server.code._python.fill_pool()
        before = _new_pipe_time()
        await post(door, "chat/completions", BODY)
    began = int(json.loads(results(model)[-1])["stdout"])
    assert (began < before) is is_older


def _new_pipe_time() -> int:
    """Now, by the clock that the kernel stamps pipes with, which is a few milliseconds behind others."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_ctime_ns
    finally:
        for end in ends:
            os.close(end)
