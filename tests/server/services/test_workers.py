"""Several processes that serve from one port and one data folder: each can follow, cancel, steer and answer any run."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.restarts import Folder, Serving, call
from tests.timeouts import TIMEOUT

APPROVED = '''
from ronda import tool

@tool(approval="ask")
async def delete(path: str = "") -> str:
    """Delete a file."""
    return "deleted"
'''


class Worker:
    """One of the processes, asked through its own socket, so that it is known which one it is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _sent(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(TIMEOUT)
        folder = os.open(self.path.parent, os.O_RDONLY)  # the path itself may be too long for a socket
        try:
            connection.sock.connect(f"/proc/self/fd/{folder}/{self.path.name}")
        finally:
            os.close(folder)
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/v1{path}", data, {"content-type": "application/json"})
        answer = connection.getresponse()
        try:
            yield answer
        finally:
            answer.close()
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        with self._sent(method, path, body) as answer:
            return answer.status, json.loads(answer.read() or b"null")

    def begin(self, **body: Any) -> str:
        """A response that goes on when its client is gone; its id."""
        with self._sent(
            "POST", "/responses", {"input": "go", "stream": True, "on_disconnect": "detach", **body}
        ) as answer:
            return "resp_" + str(answer.headers["x-ronda-run"]).removeprefix("run_")

    def stream(self, path: str) -> bytes:
        with self._sent("GET", path) as answer:
            assert answer.status == 200
            return answer.read()


def workers_of(folder: Folder, count: int = 2) -> list[Worker]:
    end = time.monotonic() + TIMEOUT
    while len(found := sorted((folder.path / "data").glob("journal.db-peer-*"))) < count:
        assert time.monotonic() < end
        time.sleep(0.01)
    return [Worker(path) for path in found]


@contextmanager
def two_workers(folder: Folder, *flags: str) -> Iterator[tuple[Serving, Worker, Worker]]:
    with folder.serving("--workers", "2", *flags) as serving:
        one, other = workers_of(folder)
        yield serving, one, other
        serving.end(signal.SIGTERM)


def test_each_follows_what_another_drives(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("wait"), "It is over now, and well.")
    with two_workers(folder) as (_, one, other):
        run_id = one.begin()
        folder.until("waiting")
        (folder.path / "go on").touch()
        address = f"/responses/{run_id}?stream=true"
        streams = [other.stream(address), one.stream(address), other.stream(address)]
        run = run_id.replace("resp_", "run_")
        events = [worker.stream(f"/runs/{run}/events") for worker in (one, other)]

    assert streams[0] == streams[1] == streams[2]
    assert streams[0].count(b"output_text.delta") > 3  # piece by piece
    assert events[0] == events[1]


def test_each_ends_what_another_drives(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("wait"), "over")
    with two_workers(folder) as (_, one, other):
        response_id = one.begin()
        folder.until("waiting")
        status, response = other.ask("POST", f"/responses/{response_id}/cancel")
        seen = one.ask("GET", f"/responses/{response_id}")[1]["status"]

    assert (status, response["status"], seen) == (200, "cancelled", "cancelled")


def test_each_answers_and_steers_what_another_drives(tmp_path: Path) -> None:
    folder = Folder(tmp_path, {"calls": [{"name": "delete", "arguments": {"path": "a"}}]}, "over")
    folder.tools.write_text(APPROVED)
    with two_workers(folder) as (serving, one, other):
        run = one.begin().replace("resp_", "run_")
        while not (questions := other.ask("GET", f"/runs/{run}")[1]["questions"]):
            pass
        answer = {"id": questions[0]["id"], "decision": "approve"}
        wrong, _ = other.ask("POST", f"/runs/{run}/answer", {**answer, "id": "nothing"})
        status, _ = other.ask("POST", f"/runs/{run}/answer", answer)
        over = serving.ended(run.replace("run_", "resp_"))
        second = one.begin()
        while not (waiting := other.ask("GET", "/agent/approvals")[1]["data"]):
            pass
        told = other.ask("POST", f"/agent/approvals/{waiting[0]['approval_id']}", {"decision": "approve"})
        over_too = serving.ended(second)

    assert (wrong, status, over["status"]) == (404, 200, "completed")
    assert (told, over_too["status"]) == ((200, {"status": "resolved"}), "completed")


def test_a_queue_is_shared(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("count"), "over")
    with two_workers(folder, "--background-runs", "2") as (serving, one, other):
        bodies = [{"input": "go", "background": True}] * 6
        ids = [
            worker.ask("POST", "/responses", body)[1]["id"]
            for worker, body in zip([one, other] * 3, bodies, strict=True)
        ]
        over = [serving.ended(call_id)["status"] for call_id in ids]

    assert over == ["completed"] * 6
    assert folder.counted == {"it": 6}


def test_a_worker_that_dies_is_started_again_and_its_runs_go_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    with two_workers(folder) as (serving, one, _):
        run_id = one.begin()
        folder.until("waiting")
        process = one.path.name.rpartition("-")[2]
        pid = int((folder.path / "data" / f"journal.db-open-{process}").read_text())
        (folder.path / "go on").touch()
        os.kill(pid, signal.SIGKILL)
        over = serving.ended(run_id)

    assert over["status"] == "completed"
    assert folder.counted == {"it": 1}


def test_there_is_one_for_each_core_that_may_be_used(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "over")
    cores = sorted(os.sched_getaffinity(0))[:2]
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # which processes that are started here inherit
    try:
        with folder.serving("--workers", "auto") as serving:
            assert len(workers_of(folder, len(cores)) if len(cores) > 1 else cores) == len(cores)
            serving.end(signal.SIGTERM)
    finally:
        os.sched_setaffinity(0, here)


def test_workers_end_with_whoever_started_them(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "over")
    with folder.serving("--workers", "2") as serving:
        workers_of(folder)
        serving.end(signal.SIGKILL)
        end = time.monotonic() + TIMEOUT
        while list((folder.path / "data").glob("journal.db-open-*")):
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--workers", "0"], "it can be 1 to 64"),
        (["--workers", "2", "--data-dir", ":memory:"], "--data-dir :memory:"),
        (["--workers", "2", "--model", "local:smollm2"], "has all cores already"),
        (["--workers", "many"], "--workers"),
    ],
)
def test_what_cannot_be_shared_is_said(
    tmp_path: Path, flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.commands import script, shown

    code, _, err = shown(capsys, "serve", "--port", "0", "--model", script(tmp_path), *flags)

    assert (code, problem in err) == (2, True), err
