"""Servers and workers on one PostgreSQL: any of them follows, ends, steers and answers any run, and none is indispensable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.restarts import Folder, Serving, Upstream, call, until
from tests.timeouts import TIMEOUT

APPROVED = '''
from ronda import tool

@tool(approval="ask")
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"
'''


class Replica:
    """A server, asked as any client would ask it."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.process = serving.process

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.serving.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def begin(self, **body: Any) -> str:
        """A response that goes on when its client is gone; its id."""
        return self.serving.ask(on_disconnect="detach", **body)

    def stream(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.serving.url}{path}", timeout=TIMEOUT) as answer:
            body: bytes = answer.read()
            return body


@contextmanager
def replicas(folder: Folder, url: str, count: int = 2, *flags: str) -> Iterator[list[Replica]]:
    with ExitStack() as servers:
        yield [Replica(servers.enter_context(folder.serving("--database", url, *flags))) for _ in range(count)]


@contextmanager
def worker(folder: Folder, url: str, *flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ronda", "worker", "--database", url, "--data-dir", str(folder.path / "data")]
    command += [*folder.model, "--tools", str(folder.tools), *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines: list[str] = []  # on a busy machine it may complain of its database first
        while not (lines and "drives background runs" in lines[-1]):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


def test_each_follows_what_another_drives(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("wait"), "It is over now, and well.")
    with replicas(folder, postgres) as (one, other):
        run_id = one.begin()
        folder.until("waiting")
        run = run_id.replace("resp_", "run_")
        followed = other.serving.events(run)
        seen = list(until(followed, type="tool_started"))  # while it is driven by the other
        refused = other.ask("GET", f"/runs/{run}/events?after=99")
        (folder.path / "go on").touch()
        seen += list(followed)
        address = f"/responses/{run_id}?stream=true"
        streams = [other.stream(address), one.stream(address)]
        events = list(one.serving.events(run))

    assert streams[0] == streams[1]
    assert (refused[0], refused[1]["error"]["code"]) == (400, "cursor_ahead")
    assert streams[0].count(b"output_text.delta") > 3  # piece by piece
    assert seen == events


def test_previews_arrive_while_the_model_speaks(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path)
    upstream = Upstream(["Hel", "lo", None])
    with upstream.serving():
        folder.model = upstream.flags
        with replicas(folder, postgres) as (one, other):
            run = one.begin().replace("resp_", "run_")
            followed = other.serving.events(run)
            shown = [event for event in until(followed, text="lo") if event["type"] == "text_delta"]
            status, _ = other.ask("POST", f"/runs/{run}/cancel")
            rest = list(followed)

    assert [event["text"] for event in shown] == ["Hel", "lo"]
    assert (status, rest[-1]["reason"]) == (200, "cancelled")


def test_each_steers_and_ends_what_another_drives(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("wait"), "over")
    with replicas(folder, postgres) as (one, other):
        run_id = one.begin()
        folder.until("waiting")
        run = run_id.replace("resp_", "run_")
        steered, _ = other.ask("POST", f"/runs/{run}/steer", {"text": "be brief"})
        status, response = other.ask("POST", f"/responses/{run_id}/cancel")
        seen = one.ask("GET", f"/responses/{run_id}")[1]["status"]
        again, problem = other.ask("POST", f"/runs/{run}/steer", {"text": "be brief"})

    assert (steered, status, response["status"], seen) == (200, 200, "cancelled", "cancelled")
    assert (again, problem["error"]["code"]) == (409, "run_is_over")


def test_each_answers_what_another_drives(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, {"calls": [{"name": "delete", "arguments": {"path": "a"}}]}, "over")
    folder.tools.write_text(APPROVED)
    with replicas(folder, postgres) as (one, other):
        run = one.begin().replace("resp_", "run_")
        while not (questions := other.ask("GET", f"/runs/{run}")[1]["questions"]):
            pass
        answer = {"id": questions[0]["id"], "decision": "approve"}
        wrong, _ = other.ask("POST", f"/runs/{run}/answer", {**answer, "id": "nothing"})
        status, _ = other.ask("POST", f"/runs/{run}/answer", answer)
        over = one.serving.ended(run.replace("run_", "resp_"))

    assert (wrong, status, over["status"]) == (404, 200, "completed")


def test_a_worker_drives_what_servers_queue(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("count"), "over")
    with (
        replicas(folder, postgres, 1, "--background-runs", "2") as (server,),
        worker(folder, postgres, "--background-runs", "2"),
    ):
        ids = [server.ask("POST", "/responses", {"input": "go", "background": True})[1]["id"] for _ in range(6)]
        over = [server.serving.ended(run_id)["status"] for run_id in ids]

    assert over == ["completed"] * 6
    assert folder.counted == {"it": 6}


def test_the_runs_of_a_server_that_dies_go_on_elsewhere(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    with replicas(folder, postgres, 1) as (server,), worker(folder, postgres):
        with replicas(folder, postgres, 1) as (dying,):
            run_id = dying.begin()
            folder.until("waiting")
            (folder.path / "go on").touch()
            dying.process.kill()
        over = server.serving.ended(run_id)

    assert over["status"] == "completed"
    assert folder.counted == {"it": 1}


def test_a_session_has_one_run_at_a_time_wherever_it_is_asked(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, [call("wait"), "First."], [call("wait"), "Second."], ["Third."])

    def ask(server: Replica, text: str, **more: Any) -> tuple[int, Any]:
        return server.ask("POST", "/responses", {"input": text, "session_id": "s", **more})

    with replicas(folder, postgres) as (one, other), ThreadPoolExecutor() as threads:
        first = threads.submit(ask, one, "One?")
        folder.until("waiting")
        refused, problem = ask(other, "Two?", on_busy="reject")
        (folder.path / "waiting").unlink()
        second = threads.submit(ask, other, "Two?", on_busy="interrupt")
        folder.until("waiting")
        third = threads.submit(ask, one, "Three?", on_busy="queue")
        (folder.path / "go on").touch()
        answers = [asked.result(TIMEOUT) for asked in (first, second, third)]
        _, session = one.ask("GET", "/sessions/s")

    assert (refused, problem["error"]["code"]) == (409, "session_busy")
    assert answers[0][1].get("status") != "completed"
    texts = [(status, answer["output"][-1]["content"][0]["text"]) for status, answer in answers[1:]]
    assert texts == [(200, "Second."), (200, "Third.")]
    said = [message["content"] for message in session["messages"] if message["role"] in ("user", "assistant")]
    assert [text for text in said if text] == ["One?", "Two?", "Second.", "Three?", "Third."]


def test_a_frozen_server_writes_nothing_when_it_wakes(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), call("count", "again"), "over")
    with replicas(folder, postgres) as (frozen, other):
        run_id = frozen.begin()
        folder.until("waiting")
        os.kill(frozen.process.pid, signal.SIGSTOP)
        over = other.serving.ended(
            run_id
        )  # it takes the run over: what the frozen one was doing has an unknown outcome
        os.kill(frozen.process.pid, signal.SIGCONT)
        (folder.path / "go on").touch()
        deadline = time.monotonic() + TIMEOUT
        run = run_id.replace("resp_", "run_")
        # Until it has noticed, clients that follow the run there see what it did itself, and no end.
        while (events := list(frozen.serving.events(run)))[-1]["type"] != "run_finished":
            assert time.monotonic() < deadline
        seen = [server.ask("GET", f"/responses/{run_id}")[1] for server in (frozen, other)]

    assert over["status"] == "completed"
    assert seen[0] == seen[1]
    assert folder.counted == {"it": 1, "again": 1}
    assert [event["type"] for event in events].count("run_finished") == 1


def test_runs_of_a_server_that_ends_go_on_elsewhere_at_once(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    with replicas(folder, postgres) as (ending, other):
        run_id = ending.begin()
        folder.until("waiting")
        ending.process.send_signal(signal.SIGTERM)
        ending.process.wait(TIMEOUT)
        (folder.path / "go on").touch()
        over = other.serving.ended(run_id)

    assert over["status"] == "completed"
    assert folder.counted == {"it": 1}


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["serve", "--port", "0", "--database", "mysql://x"], "postgresql://"),
        (["serve", "--port", "0", "--database", "postgresql://ronda@127.0.0.1:1/x"], "is the server up"),
        (["worker"], "--database"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path, flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.commands import script, shown

    code, _, err = shown(capsys, *flags, "--model", script(tmp_path), "--data-dir", str(tmp_path / "data"))

    assert (code, problem in err) == (2, True), err


def test_keys_are_in_the_database(tmp_path: Path, postgres: str, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.cli.commands import shown

    folder = Folder(tmp_path, "over")
    code, key, _ = shown(capsys, "keys", "create", "--owner", "ann", "--database", postgres)
    with replicas(folder, postgres, 1) as (server,):
        refused, _ = server.ask("GET", "/runs")
        request = urllib.request.Request(
            f"{server.serving.url}/runs", headers={"authorization": f"Bearer {key.strip()}"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            let_in = answer.status

    assert (code, refused, let_in) == (0, 401, 200)
