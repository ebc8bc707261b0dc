"""Servers in processes of their own, one after the other on the same data folder; tools that count; a model's server."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.cli.commands import script, startup
from tests.timeouts import TIMEOUT

TOOLS = '''
import asyncio, pathlib
from ronda import tool

HERE = pathlib.Path(__file__).parent

@tool
async def count(what: str = "it") -> str:
    """Count."""
    with (HERE / "counted").open("a") as file:
        file.write(f"{what}\\n")
    return "counted"

@tool
async def wait() -> str:
    """Wait until there is a file."""
    (HERE / "waiting").touch()
    while not (HERE / "go on").exists():
        await asyncio.sleep(0.01)
    return "waited"

@tool
async def stay() -> str:
    """Do not care for being cancelled."""
    (HERE / "waiting").touch()
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass

@tool
async def crash() -> str:
    """Take the process along, as often as it is told to."""
    import os
    os._exit(9)
'''


KILLED: Final = Path(__file__).with_name("killed.py")


class Folder:
    """Where one server after the other keeps its runs."""

    def __init__(self, path: Path, *turns: Any) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        self.tools = path / "tools.py"
        self.tools.write_text(TOOLS)
        self.model = ["--model", script(path, *turns)]

    @contextlib.contextmanager
    def serving(self, *flags: str, killed: str = "") -> Iterator[Serving]:
        """`killed`: "before 3" or "after 3", at its third commit."""
        program = ["-P", str(KILLED)] if killed else ["-m", "ronda"]
        command = [sys.executable, *program, "serve", "--port", "0", "--data-dir", str(self.path / "data")]
        command += [*([] if "--model" in flags else self.model), "--tools", str(self.tools), *flags]
        environment = {**os.environ, "KILLED": killed}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            found = re.search(r":(\d+)/", "".join(startup(process)))
            assert found is not None
            yield Serving(process, int(found[1]))
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT)

    def until(self, name: str) -> None:
        _until(lambda: (self.path / name).exists())

    @property
    def counted(self) -> Counter[str]:
        """How often each call was run."""
        file = self.path / "counted"
        return Counter(file.read_text().split() if file.exists() else ())


def _until(is_so: Any) -> None:
    end = time.monotonic() + TIMEOUT
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class Serving:
    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.url = self._url = f"http://127.0.0.1:{port}/v1"

    def ask(self, **body: Any) -> str:
        """Begin a response, and go away; its id."""
        with self._post({"stream": True, **body}) as answer:
            return "resp_" + str(answer.headers["X-Ronda-Run"]).removeprefix("run_")

    def ask_and_stay(self, run: str, **body: Any) -> bool:
        """Wait for the answer; False if the process ends first."""
        try:
            with self._post(body, run) as answer:
                answer.read()
        except urllib.error.HTTPError as error:  # a server that ends refuses what it has not finished
            error.close()
            return False
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _post(self, body: dict[str, Any], run: str = "") -> Any:
        data = json.dumps({"input": "go", **body}).encode()
        headers = {"content-type": "application/json", **({"x-ronda-run": run} if run else {})}
        request = urllib.request.Request(f"{self._url}/responses", data, headers)
        return urllib.request.urlopen(request, timeout=TIMEOUT)

    def response(self, id: str) -> Any:
        """None if there is none."""
        try:
            with urllib.request.urlopen(f"{self._url}/responses/{id}", timeout=TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 404:
                    raise
            return None

    def ended(self, id: str) -> Any:
        """The response, when it is over."""
        while (response := self.response(id)) is not None and response["status"] in ("queued", "in_progress"):
            time.sleep(0.01)
        return response

    def run(self, run: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/runs/{run}", timeout=TIMEOUT) as answer:
            return json.load(answer)

    def events(self, run: str) -> Iterator[dict[str, Any]]:
        """What happened in a run, and what happens, with their positions."""
        with urllib.request.urlopen(f"{self._url}/runs/{run}/events", timeout=TIMEOUT) as answer:
            for line in answer:
                if line.startswith(b"id: "):
                    position = line[4:].decode().strip()
                elif line.startswith(b"data: "):
                    yield {"position": position, **json.loads(line[6:])}

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(TIMEOUT)


def until(events: Iterator[dict[str, Any]], **members: Any) -> Iterator[dict[str, Any]]:
    """Those up to the first that has these members."""
    for event in events:
        yield event
        if members.items() <= event.items():
            return


def call(name: str, *whats: str) -> dict[str, Any]:
    """A turn that calls a tool: once, or once with each of these."""
    return {"calls": [{"name": name, "arguments": {"what": what}} for what in whats] or [{"name": name}]}


# ---- a model's server ------------------------------------------------------------------------------------------------


class Upstream:
    """A server of Chat Completions. Each request is answered with the next of `answers`: the pieces of a text, or the name of
    a tool to call. A text that ends in None stays open for as long as a client reads it."""

    def __init__(self, *answers: list[str | None] | str) -> None:
        self.is_held = threading.Event()
        self._answers = iter(answers)
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for frame in upstream._frames():
                    self.wfile.write(b"data: %b\n\n" % frame)
                    self.wfile.flush()
                if upstream.is_held.is_set():
                    self.connection.recv(1)  # until the other side closes

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.flags = ["--model", "openai-chat:m", "--base-url", f"http://127.0.0.1:{self._http.server_port}/v1"]

    def _frames(self) -> Iterator[bytes]:
        self.is_held.clear()
        answer = next(self._answers)
        if isinstance(answer, str):
            function = {"name": answer, "arguments": "{}"}
            yield _chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
            yield _chunk({}, "tool_calls")
        else:
            for piece in answer:
                if piece is None:
                    self.is_held.set()
                    return
                yield _chunk({"content": piece})
            yield _chunk({}, "stop")
        yield b"[DONE]"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Upstream]:
        thread = threading.Thread(target=self._http.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()
