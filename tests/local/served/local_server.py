"""`ronda serve` on the local model, as a process with its engine's."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from openai import OpenAI
from tests.timeouts import TIMEOUT

from ronda.local.files import default_path
from ronda.sandbox.processes import has_ended

NEEDS_THE_MODEL = [
    pytest.mark.skipif(default_path() is None, reason="the local model is not installed: make setup gets it"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.xdist_group("local"),
]


class LocalServer:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", str(folder / "data")]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stderr is not None
        found = next(address for line in self.process.stderr if (address := re.search(r"http://\S+", line)))
        self.url = found.group()
        self.client = OpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0, timeout=TIMEOUT)

    @property
    def engine(self) -> int:
        """The engine's process."""
        (found,) = self.children()
        return found

    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in _read(task).split()]

    def ask(self) -> str:
        answer = self.client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "Hi"}], max_tokens=4
        )
        return answer.choices[0].message.content or ""

    def memory(self) -> int:
        """Of all its processes, in MB; what several share counts once."""
        return memory(self.process.pid) + sum([memory(pid) for pid in self.children()])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def ends(pid: int) -> bool:
    """Whether this process ends, now or soon."""
    end = time.monotonic() + TIMEOUT
    while not has_ended(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def memory(pid: int) -> int:
    """In MB; what several processes share counts once."""
    found = [
        line.split()[1] for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines() if line.startswith("Pss:")
    ]
    return int(found[0]) // 1024 if found else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""
