"""Many sessions that run code on one server, one that is killed, and what is left of them afterwards: nothing.

`make soak-tools` plays 200 sessions; the tests play ten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.cli.commands import script, startup
from tests.timeouts import TIMEOUT

PYTHON: Final = """
import os, subprocess, tempfile, threading
subprocess.Popen(["sleep", "600"])
tempfile.mkdtemp()
threading.Thread(target=lambda: os.read(os.pipe()[0], 1), daemon=True).start()
open("made.txt", "w").write("x")
"""
SHELL: Final = [
    "sleep 600 &",
    "mkfifo pipe; mkdir -p a/b; chmod 0 a/b; ln -s /etc/passwd link",
    "nohup sleep 600 >&- 2>&- &",
]
TURNS: Final[list[Any]] = [
    {"calls": [{"name": "mistralrs_execute_python", "arguments": {"code": PYTHON}}]},
    {"calls": [{"name": "mistralrs_shell", "arguments": {"commands": SHELL}}]},
    "done",
]
AT_ONCE: Final = 4


class Machine:
    """A server that runs code, and what of it can be found on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = f"soak{secrets.token_hex(8)}"  # in the environment of all that is sandboxed
        self._settings = folder / "ronda.toml"
        self._settings.write_text(
            "enable_code_execution = true\nenable_shell = true\ncode_exec_pool = 1\n"
            f"[sandbox]\nextra_env = ['SOAK={self.token}']\n"
        )
        self._temporary = folder / "tmp"  # of its own: other servers use the machine's
        self._temporary.mkdir()
        self._temporary.chmod(0o1777)

    @contextlib.contextmanager
    def serving(self) -> Iterator[Serving]:
        command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--config", str(self._settings)]
        command += ["--data-dir", str(self.folder / "data"), "--model", script(self.folder, *TURNS)]
        environment = {**os.environ, "TMPDIR": str(self._temporary)}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            lines = startup(process)
            found = re.search(r"http://[\d.]+:\d+", "".join(lines))
            assert found is not None, lines
            yield Serving(process, found[0])
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT)

    def processes(self) -> list[int]:
        """Those in a sandbox of this machine's."""
        found = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and self.token.encode() in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
        return found

    def settled(self) -> int:
        """How many there are, when their number does not change any more: the Python that is kept ready is there."""
        counts = [0]
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end and (not counts[-1] or len(set(counts[-5:])) > 1):
            counts.append(len(self.processes()))
            time.sleep(0.05)
        return counts[-1]

    def temporary_folders(self) -> list[str]:
        return [name for name in os.listdir(self._temporary) if name.startswith("ronda-sandbox-")]

    def workspaces(self) -> list[str]:
        root = self.folder / "data" / "workspaces"
        return [name for name in (os.listdir(root) if root.exists() else ()) if not name.startswith(".spare-")]

    def groups(self) -> list[str]:
        return [str(path) for path in Path("/sys/fs/cgroup").rglob("ronda-sandbox-*")]


class Serving:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self._url = url

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return json.loads(answer.read() or b"null")

    def use(self, session: str) -> None:
        """A request that runs Python and a shell."""
        body = {"messages": [{"role": "user", "content": "go"}], "session_id": session}
        answer = self._request(
            "POST", "chat/completions", {**body, "enable_code_execution": True, "enable_shell": True}
        )
        assert [call.get("failed", False) for call in answer["agentic_tool_calls"]] == [False, False], answer

    def forget(self, session: str) -> None:
        self._request("DELETE", f"sessions/{session}")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def soak(folder: Path, sessions: int) -> dict[str, Any]:
    """What is left: after sessions that were forgotten, after kill -9 and a new start, and after an ordinary end."""
    machine = Machine(folder)
    left: dict[str, Any] = {}
    names = [f"s{number}" for number in range(sessions)]
    with machine.serving() as served, ThreadPoolExecutor(AT_ONCE) as threads:
        ready = machine.settled()
        served.use("first")
        served.forget("first")
        _until(lambda: machine.settled() == ready)
        before = served.descriptors()
        list(threads.map(served.use, names))
        list(threads.map(served.forget, names))
        _until(lambda: machine.settled() == ready)
        left["descriptors"] = max(
            0, served.descriptors() - before - 8
        )  # connections that are kept open, and the pool's
        left["workspaces"] = machine.workspaces()
        list(threads.map(served.use, names[:AT_ONCE]))
        served.process.kill()
        served.process.wait(TIMEOUT)
    _until(lambda: not machine.processes())
    with machine.serving() as served:
        served.use("first")
        _until(lambda: not [name for name in machine.temporary_folders() if str(served.process.pid) not in name])
        served.process.terminate()
        assert served.process.wait(TIMEOUT) == 0
    _until(lambda: not machine.processes())
    left["spare folders"] = [path.name for path in (folder / "data" / "workspaces").glob(".spare-*")]
    left["temporary folders"] = machine.temporary_folders()
    left["groups"] = machine.groups()
    return left


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("something is left")
        time.sleep(0.05)


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    folder = Path(tempfile.mkdtemp(prefix="ronda-soak-"))
    folder.chmod(0o755)
    begun = time.monotonic()
    try:
        left = soak(folder, sessions)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{sessions} sessions in {time.monotonic() - begun:.0f} s; left: {left}")
    sys.exit(any(left.values()))


if __name__ == "__main__":
    main()
