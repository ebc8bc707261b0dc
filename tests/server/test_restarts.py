"""A server that ends while runs are under way, and the next one on the same data folder: processes, and a tool that counts."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import script, startup
from tests.patience import PATIENCE

from ronda.server.runs import LEFT

TOOLS = '''
import asyncio, pathlib
from ronda import tool

HERE = pathlib.Path(__file__).parent

@tool
async def count() -> str:
    """Count."""
    with (HERE / "counted").open("a") as file:
        file.write("x")
    return "counted"

@tool
async def wait() -> str:
    """Wait until there is a file."""
    (HERE / "waiting").touch()
    while not (HERE / "go on").exists():
        await asyncio.sleep(0.01)
    return "waited"

@tool
async def crash() -> str:
    """Take the process along, as often as it is told to."""
    import os
    os._exit(9)
'''


class Folder:
    """Where one server after the other keeps its runs."""

    def __init__(self, path: Path, *turns: Any) -> None:
        self.path = path
        self.tools = path / "tools.py"
        self.tools.write_text(TOOLS)
        self.model = script(path, *turns)

    @contextlib.contextmanager
    def serving(self, *flags: str) -> Iterator[Serving]:
        command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", str(self.path / "data")]
        command += ["--model", self.model, "--tools", str(self.tools), *flags]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            found = re.search(r":(\d+)/", "".join(startup(process)))
            assert found is not None
            yield Serving(process, int(found[1]))
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)

    def until(self, name: str) -> None:
        _until(lambda: (self.path / name).exists())

    @property
    def counted(self) -> int:
        file = self.path / "counted"
        return len(file.read_text()) if file.exists() else 0


def _until(is_so: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class Serving:
    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{port}/v1"

    def ask(self, **body: Any) -> str:
        """Begin a response, and go away; its id."""
        data = json.dumps({"input": "go", "stream": True, **body}).encode()
        request = urllib.request.Request(f"{self._url}/responses", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return "resp_" + str(answer.headers["X-Ronda-Run"]).removeprefix("run_")

    def ask_and_stay(self, run: str) -> None:
        data = json.dumps({"input": "go"}).encode()
        headers = {"content-type": "application/json", "x-ronda-run": run}
        request = urllib.request.Request(f"{self._url}/responses", data, headers)
        with contextlib.suppress(OSError, http.client.HTTPException):
            urllib.request.urlopen(request, timeout=PATIENCE).close()

    def response(self, id: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/responses/{id}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def ended(self, id: str) -> Any:
        """The response, when it is over."""
        _until(lambda: self.response(id)["status"] != "in_progress")
        return self.response(id)

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE)


def call(name: str) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": {}}]}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_detached_run_goes_on_in_the_next_process(tmp_path: Path, how: signal.Signals) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "done")
    with folder.serving("--shutdown-seconds", "0.1") as first:
        id = first.ask(on_disconnect="detach")
        folder.until("waiting")
        first.end(how)
    (tmp_path / "go on").touch()
    with folder.serving() as second:
        response = second.ended(id)

    assert (response["status"], folder.counted) == ("completed", 1)
    assert response["output"][-1]["content"][0]["text"] == "done"


def test_a_run_that_does_not_outlive_its_process_is_told_to_be_interrupted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("wait"), "done")
    with folder.serving("--shutdown-seconds", "0.1") as first:
        asking = threading.Thread(target=first.ask_and_stay, kwargs={"run": "run_stays123"})
        asking.start()
        folder.until("waiting")
        first.end(signal.SIGKILL)
        asking.join()
    with folder.serving() as second:
        response = second.ended("resp_stays123")

    assert (response["status"], response["error"]["message"]) == ("failed", LEFT)


def test_a_run_that_takes_its_process_along_three_times_is_ended(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("crash"), "done")
    folder.tools.write_text(TOOLS.replace("@tool\nasync def crash", "@tool(repeatable=True)\nasync def crash"))
    with folder.serving() as first:
        id = first.ask(on_disconnect="detach")
        first.process.wait(PATIENCE)
    for _ in range(2):
        with folder.serving() as again:
            again.process.wait(PATIENCE)
    with folder.serving() as last:
        response = last.ended(id)

    assert (response["status"], response["error"]["message"]) == (
        "failed", "3 processes ended while they drove this run, one after the other",
    )  # fmt: skip
