"""The commands of the README and of the quickstart are run as they are printed, one after another, as a reader types them; so is
every `curl` of the docs.

What stands in for the reader's machine: a folder as a clone has it, `ronda` and `python` of these tests, a free port for the port
1234, and one of our own servers with a scripted model for OpenAI.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.cli.commands import startup
from tests.cli.test_cli_chat import Terminal
from tests.timeouts import TIMEOUT

from ronda.local.files import find_model

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PIECE = re.compile(
    r"`(?P<file>\w+\.py)`:\n\n```python\n(?P<code>.*?)^```|^    (?P<line>(?:[^\n]*\\\n)*[^\n]*)$",
    re.MULTILINE | re.DOTALL,
)
PROGRAMS = ("git", "make", "export", "ronda", "cat", "pip", "curl", "python", ".")

# Each of these is run elsewhere, from nothing.
NOT_HERE = {
    "git clone ADDRESS-OF-THIS-REPOSITORY ronda && cd ronda": "make fresh",
    "make setup": "make fresh",
    ". .venv/bin/activate": "make fresh",
    "pip install openai": "tests/test_newcomer.py",
}


def pieces(page: str) -> Iterator[tuple[str, str]]:
    """Files that the reader writes, as (name, code), and commands, as ("", command), in their order."""
    for found in PIECE.finditer((ROOT / page).read_text()):
        if found["file"]:
            yield found["file"], found["code"]
        elif found["line"].split(" ", 1)[0] in PROGRAMS and "│" not in found["line"]:
            yield "", re.sub(r" +#.*", "", found["line"])


class Reader:
    """A person with a page and a terminal."""

    def __init__(self, folder: Path, openai: str) -> None:
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "setup", "src", "web", "examples"):
            (folder / name).symlink_to(ROOT / name)
        for lock in ROOT.glob("requirements*.lock"):
            (folder / lock.name).symlink_to(lock)
        (folder / "report.txt").write_text("Sales went up.\n")  # "cat report.txt": readers have one of their own
        binaries = folder / "venv" / "bin"
        binaries.mkdir(parents=True)
        for name, words in {"ronda": "-m ronda", "python": ""}.items():
            (binaries / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (binaries / name).chmod(0o755)
        for name in (".ready", ".ready-ui"):  # newer than any file that they are made from
            (folder / "venv" / name).touch()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "RONDA"))},
            "HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm",
            "MAKEFLAGS": "-e", "VENV": str(folder / "venv"),  # the Makefile's own would be set up first
            "OPENAI_BASE_URL": f"{openai}/v1", "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        self.url = ""
        self._server: subprocess.Popen[str] | None = None

    def do(self, command: str) -> None:
        command = command.replace("http://127.0.0.1:1234", self.url).replace("/path/to/model.gguf", small_model())
        if command.startswith("export "):
            for word in shlex.split(command)[1:]:
                name, _, value = word.partition("=")
                self.environment[name] = value.replace("…", "any")
        elif command.startswith(("ronda serve", "make serve")):
            self.serve(command)
        elif command.startswith("ronda chat"):
            self.chat(command)
        else:
            if command.startswith("python examples/plot.py"):
                command = f"{command} {self.url}"
            done = subprocess.run(
                ["bash", "-euc", command], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            assert done.stdout.strip(), f"{command} printed nothing"
            assert '"error"' not in done.stdout, f"{command}\n{done.stdout}"

    def serve(self, command: str) -> None:
        self.end_server()
        command = re.sub(r" PORT=\d+", "", command)
        command += " PORT=0" if command.startswith("make") else " --port 0"
        self._server = subprocess.Popen(
            ["bash", "-euc", f"exec {command}"], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        said = "".join(startup(self._server))
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert found, f"{command}\n{said}"
        self.url = found[0]

    def end_server(self) -> None:
        """Ctrl-C, as a terminal gives it: to the whole group of processes."""
        if self._server is not None:
            process, self._server = self._server, None
            os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=TIMEOUT)
            assert process.returncode in (130, -signal.SIGINT), said  # -SIGINT: make, which ends by the signal itself

    def kill_server(self) -> None:
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.communicate(timeout=TIMEOUT)

    def chat(self, command: str) -> None:
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {command}"], cwd=self.folder, env=self.environment,
            stdin=secondary, stdout=secondary, stderr=secondary, start_new_session=True,
        )  # fmt: skip
        os.close(secondary)
        try:
            terminal = Terminal(primary, process)
            terminal.until("\n>")
            terminal.type("What time is it in Lisbon?\r")
            terminal.until("It is sunny in Lisbon")
            terminal.type("/exit\r")
            assert terminal.ends() == 0
        finally:
            process.kill()
            process.wait(TIMEOUT)
            os.close(primary)


def small_model() -> str:
    return str(find_model("smollm2").path)


@pytest.fixture(scope="module")
def openai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Stands in for OpenAI, whatever the model is called."""
    yield from serving(tmp_path_factory.mktemp("openai"), ["It is sunny in Lisbon, 24 degrees."], "--alias", "*")


def serving(folder: Path, turns: Sequence[object], *flags: str) -> Iterator[str]:
    (folder / "script.json").write_text(json.dumps(turns))
    command = [
        sys.executable, "-m", "ronda", "serve", "--model", f"script:{folder / 'script.json'}", "--port", "0",
        "--data-dir", str(folder / "data"), *flags,
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = "".join(startup(process))
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert found, said
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


@pytest.mark.timeout(TIMEOUT * 4)  # some fifteen programs, one after another
@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_a_reader_who_types_every_command_of_the_page_gets_what_it_says(page: str, openai: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path, openai)
    done = []
    try:
        for file, text in pieces(page):
            if file:
                (tmp_path / file).write_text(text)
            elif text not in NOT_HERE:
                reader.do(text)
                done.append(text)
        reader.end_server()
    finally:
        reader.kill_server()

    assert len(done) > 5


# ---- curl ----------------------------------------------------------------------------------------------------------------


def curls() -> list[tuple[str, str]]:
    """What they are in: the page. A body that goes over several lines ends with its quote."""
    found = []
    for page in PAGES:
        lines = page.read_text().splitlines()
        for at, line in enumerate(lines):
            if line.startswith("    curl ") and "│" not in line:
                command = line.strip()
                while command.endswith("\\") or command.count("'") % 2:
                    at += 1
                    command += f"\n{lines[at]}"
                found.append((str(page.relative_to(ROOT)), command))
    return found


ASKS = [{"calls": [{"name": "send", "arguments": {"to": "anna"}}]}, "It is sent."]
TOOLS = """
from ronda import tool

@tool(approval="ask")
def send(to: str) -> str:
    \"\"\"Send a mail.\"\"\"
    return f"sent to {to}"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with everything switched on that the pages speak of. A run of it has ended."""
    yield from serving(
        tmp_path_factory.mktemp("served"),
        ["It is sunny."],
        *("--alias", "*", "--notices", "--schedules", "--fetch-allow", "127.0.0.1"),
    )


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a run that waits for a decision."""
    folder = tmp_path_factory.mktemp("waiting")
    (folder / "tools.py").write_text(TOOLS)
    yield from serving(folder, ASKS, "--tools", "tools.py")


def ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=TIMEOUT) as answer:
        return json.load(answer)


def an_ended_run(url: str) -> str:
    ask(f"{url}/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})
    return str(ask(f"{url}/v1/runs")["data"][0]["id"])


def an_open_question(url: str) -> str:
    """Of a run in the background: it is there soon after the request was answered."""
    ask(f"{url}/v1/responses", {"model": "default", "input": "Write to Anna.", "background": True})
    ends = time.monotonic() + TIMEOUT
    while not (found := ask(f"{url}/v1/agent/approvals")["data"]):
        assert time.monotonic() < ends
        time.sleep(0.05)
    return str(found[0]["approval_id"])


@pytest.mark.parametrize(("page", "command"), curls(), ids=[f"{page}-{n}" for n, (page, _) in enumerate(curls())])
def test_the_curl_of_the_page_gets_an_answer(
    page: str, command: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    asks = "/v1/agent/approvals" in command
    url: str = request.getfixturevalue("waiting" if asks else "served")
    (tmp_path / "sales.csv").write_text("month,sales\nMay,3\n")
    command = command.replace("http://127.0.0.1:1234", url)
    command = command.replace("https://example.com", url)  # an address of the reader's, which is looked up
    if re.search(r"run_id", command, re.IGNORECASE):
        command = re.sub(r"run_id", an_ended_run(url), command, flags=re.IGNORECASE)
    if asks:
        command = command.replace("appr_ID", an_open_question(url))
    command = command.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)

    done = subprocess.run(
        ["bash", "-euc", command], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )

    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert done.stdout.strip()
