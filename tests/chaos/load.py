"""Runs that count their calls: a model that asks for them, a tool that counts, requests that start runs, and what must hold.

Each run calls a tool twice in each of three rounds, under names that no other call has. At the end every run is over, and each
call was counted once, or its result says that the outcome is unknown: never twice.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from tests.cli.commands import startup

ROUNDS: Final = 3
BOUNDARY: Final = "chaos"
UNKNOWN: Final = "outcome of this call is unknown"
PATIENCE: Final = 180.0  # seconds until runs that have not ended count as wedged

TOOLS: Final = '''
import asyncio, os, pathlib, random
from ronda import tool

HERE = pathlib.Path(__file__).parent
PAUSE = float(os.environ["CHAOS_PAUSE"])

@tool
async def count(what: str) -> str:
    """Count."""
    await asyncio.sleep(random.random() * PAUSE)
    with (HERE / "counted").open("a") as file:
        file.write(f"{what}\\n")
    await asyncio.sleep(random.random() * PAUSE)
    return f"counted {what}"

@tool(approval="ask")
async def count_if_allowed(what: str) -> str:
    """Count, if a person says so."""
    with (HERE / "counted").open("a") as file:
        file.write(f"{what}\\n")
    return f"counted {what}"
'''
ASKING: Final = "asks"  # how the names of runs begin that ask a person


class Model:
    """A server of Chat Completions: what it says follows from the request alone."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.flags: list[str] = []

    @contextmanager
    def serving(self) -> Iterator[Model]:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        self.flags = self.flags_at("127.0.0.1")
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def flags_at(self, address: str) -> list[str]:
        """For a process that reaches this machine at another address."""
        port = asyncio.run_coroutine_threadsafe(self._listen(address), self._loop).result(30)
        return ["--model", "openai-chat:m", "--base-url", f"http://{address}:{port}/v1"]

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()

    async def _listen(self, address: str) -> int:
        site = web.TCPSite(self._runner, address, 0)
        await site.start()
        port: int = self._runner.addresses[-1][1]
        return port

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages = body["messages"]
        name = next(_text(one) for one in messages if one["role"] == "user")
        round_index = sum(one["role"] == "assistant" for one in messages)
        deltas: list[dict[str, Any]]
        if name.startswith(ASKING) and round_index == 0:
            function = {"name": "count_if_allowed", "arguments": json.dumps({"what": f"{name}-0"})}
            deltas, reason = (
                [{"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": function}]}],
                "tool_calls",
            )
        elif round_index < ROUNDS and not name.startswith(ASKING):
            calls = [
                {
                    "index": at,
                    "id": f"c{round_index}{at}",
                    "type": "function",
                    "function": _count(f"{name}-{round_index}-{at}"),
                }
                for at in range(2)
            ]
            deltas, reason = [{"tool_calls": calls}], "tool_calls"
        else:
            deltas, reason = [{"content": piece} for piece in ("It ", "is ", "done: ", name)], "stop"
        if not body.get("stream"):
            message: dict[str, Any] = {
                "role": "assistant",
                "content": "".join(one.get("content", "") for one in deltas),
            }
            if reason == "tool_calls":
                message["tool_calls"] = deltas[0]["tool_calls"]
            return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        with suppress(ConnectionError):  # the client was killed
            await answer.prepare(request)
            for delta in (*deltas, {}):
                chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else reason}]}
                await answer.write(b"data: %b\n\n" % json.dumps(chunk).encode())
                await asyncio.sleep(0.01)
            await answer.write(b"data: [DONE]\n\n")
        return answer


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def _count(what: str) -> dict[str, str]:
    return {"name": "count", "arguments": json.dumps({"what": what})}


class Process:
    """A `ronda serve` or `ronda worker`, which may be killed, frozen and started again."""

    def __init__(
        self,
        folder: Path,
        model: Sequence[str],
        *flags: str,
        command: str = "serve",
        pause: float = 0.2,
        within: Sequence[str] = (),
        address: str = "127.0.0.1",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`within` is a command that runs it somewhere else, where it is reached at this address."""
        self._folder = folder
        self._command = [*within, sys.executable, "-m", "ronda", command, "--data-dir", str(folder / "data"), *model]
        self._address = address
        self._command += [
            "--tools",
            str(folder / "tools.py"),
            "--background-runs",
            "64",
            "--background-per-owner",
            "64",
        ]
        self._command += ["--max-detached", "1000", *(["--port", "0"] if command == "serve" else []), *flags]
        self._environment = {**os.environ, "CHAOS_PAUSE": str(pause), **(environment or {})}
        self._is_server = command == "serve"
        self.url = ""

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, env=self._environment)
        assert self._process.stderr is not None
        if self._is_server:
            lines = "".join(startup(self._process))
            found = re.search(r":(\d+)/v1", lines)
            assert found is not None, lines
            self.url = f"http://{self._address}:{found[1]}/v1"
        else:
            line = self._process.stderr.readline()
            assert "drives background runs" in line, line
        threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True).start()

    def _read_log(self, log: Any) -> None:
        with log, (self._folder / "log").open("a") as file:
            for line in log:
                file.write(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, method: str, path: str, body: Any = None, timeout: float = 60.0) -> Any:
        """The answer; None where there is none, since the process is gone. Bytes are sent as they are, as a form."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = f"multipart/form-data; boundary={BOUNDARY}" if isinstance(body, bytes) else "application/json"
        headers = {"content-type": kind}
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                if answer.headers["x-ronda-run"] and not answer.headers["content-length"]:
                    return {"run": answer.headers["x-ronda-run"]}  # of a stream that no client reads
                if answer.headers.get_content_type() != "application/json":
                    return answer.read()
                found = json.load(answer)
                return {"run": answer.headers["x-ronda-run"], **found} if answer.headers["x-ronda-run"] else found
        except urllib.error.HTTPError as error:
            with error:
                return {"status": error.code, "problem": error.read().decode()}
        except (OSError, ValueError, http.client.HTTPException):
            return None


class Load:
    """Runs that were begun, and their results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tools.py").write_text(TOOLS)
        self.runs: list[str] = []
        self._number = 0
        self._lock = threading.Lock()

    def begin(self, server: Process) -> bool:
        """A run that goes on without us, in the background or detached by turns. False if the server is gone."""
        with self._lock:
            self._number += 1
            number = self._number
        how = {"background": True} if number % 2 else {"stream": True, "on_disconnect": "detach"}
        answer = server.ask("POST", "/responses", {"input": f"n{number}", **how}, timeout=10.0)
        if answer is None:
            return False
        run = answer.get("run") or str(answer.get("id", "")).replace("resp_", "run_")
        if run.startswith("run_"):
            with self._lock:
                self.runs.append(run)
        return True

    def await_all(self, server: Process) -> list[str]:
        """The runs that have not ended when patience is over."""
        left = list(self.runs)
        until = time.monotonic() + PATIENCE
        while left and time.monotonic() < until:
            left = [run for run in left if not _is_over(server.ask("GET", f"/runs/{run}"))]
            time.sleep(0.2 if left else 0)
        return left

    @property
    def counted(self) -> Counter[str]:
        file = self.folder / "counted"
        return Counter(file.read_text().split() if file.exists() else ())

    def events(self, server: Process, run: str) -> list[dict[str, Any]]:
        """What happened in a run that is over."""
        request = urllib.request.Request(f"{server.url}/runs/{run}/events")
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return [json.loads(line[6:]) for line in answer if line.startswith(b"data: ")]
            except urllib.error.HTTPError as error:
                # The server lost sight of its database for a moment, and asks to be asked again.
                if error.code != 503 or "retry-after" not in error.headers or time.monotonic() > until:
                    raise
                time.sleep(float(error.headers["retry-after"]))

    def summary(self, server: Process) -> Summary:
        """What is seen of all runs."""
        counted = self.counted
        states: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        unknown = 0
        wrong: list[str] = [f"{what} was counted {times} times" for what, times in counted.items() if times > 1]
        for run in self.runs:
            found = server.ask("GET", f"/runs/{run}")
            states[found.get("state", "not there") if found else "no answer"] += 1
            events = self.events(server, run)
            if [event["type"] for event in events].count("run_finished") != 1:
                wrong.append(f"{run} has no end, or several")
            for event in events:
                if event["type"] == "run_finished" and event["reason"] == "failed":
                    failed[f"{event.get('message')} (after {_last(events)})"] += 1
                if event["type"] == "tool_finished":
                    content = event["result"]["content"]
                    if UNKNOWN in content:
                        unknown += 1
                    elif content.startswith("counted ") and counted[content.split()[1]] != 1:
                        wrong.append(f"{run}: {content}, and it was counted {counted[content.split()[1]]} times")
        return Summary(len(self.runs), states, failed, sum(counted.values()), unknown, wrong)


def _last(events: list[dict[str, Any]]) -> str:
    """What happened since something had come of the run."""
    kinds = [event["type"] for event in events if not event["type"].endswith("_delta")]
    progress = [at for at, kind in enumerate(kinds) if kind in ("run_started", "model_finished", "tool_finished")]
    return ", ".join(kinds[progress[-1] :])


def _is_over(found: Any) -> bool:
    return found is not None and found.get("state") in ("finished", "failed", "cancelled", "interrupted")


class Summary:
    """`failed`: why runs failed, and how many for each reason."""

    def __init__(
        self, runs: int, states: Counter[str], failed: Counter[str], calls: int, unknown: int, wrong: list[str]
    ) -> None:
        self.runs = runs
        self.states = states
        self.failed = failed
        self.calls = calls
        self.unknown = unknown
        self.wrong = wrong

    def add(self, other: Summary) -> None:
        """What was seen of other runs."""
        self.runs += other.runs
        self.states += other.states
        self.failed += other.failed
        self.calls += other.calls
        self.unknown += other.unknown
        self.wrong += other.wrong

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in self.states.most_common())
        twice = f"{len(self.wrong)} WRONG: {self.wrong[:5]}" if self.wrong else "none counted twice"
        reasons = "".join([f"\n  {count} failed: {why}" for why, count in self.failed.most_common()])
        calls = f"{self.calls} calls counted, {self.unknown} with an unknown outcome"
        return f"{self.runs} runs: {states}; {calls}, {twice}{reasons}"


def kill_at_random(load: Load, server: Process, kills: int, seed: int) -> Summary:
    """A server under load is killed at so many random moments, and started again each time."""
    chance = random.Random(seed)
    server.start()
    for _ in range(kills):
        stop = threading.Event()
        loader = threading.Thread(target=_begin_until, args=(load, server, stop), daemon=True)
        loader.start()
        time.sleep(chance.uniform(0.02, 0.8))
        server.kill()
        stop.set()
        loader.join()
        server.start()
    left = load.await_all(server)
    summary = load.summary(server)
    summary.wrong += [f"{run} is wedged" for run in left]
    return summary


def _begin_until(load: Load, server: Process, stop: threading.Event) -> None:
    while not stop.is_set() and load.begin(server):
        time.sleep(0.02)
