"""A server or a worker that is told to end ends in time while its database is away, and says in one line what is not written.
The next process goes on from what is."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import psycopg
import pytest
from tests.chaos.cut import Cut
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import replicas, worker
from tests.timeouts import TIMEOUT

FLAGS = ("--shutdown-seconds", "0.2", "--lease-seconds", "1")
BOUND = 30  # seconds: of an outage a server waits for 45, and of one that is not reported for ever
NOT_REACHED = "it could not be reached before this process had to end"


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    yield postgres
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {unquote(postgres).rpartition('=')[2]}_dbos CASCADE")


@pytest.fixture
def cut(database: str) -> Iterator[Cut]:
    with Cut(database).open() as cut:
        yield cut


def log_of(process: subprocess.Popen[str]) -> list[str]:
    """What it writes until it has ended."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=BOUND)
    assert process.returncode == 0
    return errors.splitlines()


@pytest.mark.parametrize(
    ("queue", "fail"), [("table", Cut.cut), ("dbos", Cut.refuse)], ids=["cut off", "stopped, with DBOS"]
)
def test_a_server_with_runs_under_way(
    tmp_path: Path, database: str, cut: Cut, queue: str, fail: Callable[[Cut], None]
) -> None:
    if queue == "dbos":
        pytest.importorskip("dbos", reason="dbos is not installed: pip install 'ronda[dbos]'")
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    flags = (*FLAGS, "--queue", queue)
    with ThreadPoolExecutor() as threads, replicas(folder, cut.url, 1, *flags) as (ending,):
        run_id = ending.ask("POST", "/responses", {"input": "go", "background": True})[1]["id"]
        folder.until("waiting")
        (folder.path / "waiting").unlink()
        attached = threads.submit(ending.ask, "POST", "/responses", {"input": "go"})
        folder.until("waiting")
        fail(cut)
        looking = threads.submit(ending.ask, "GET", "/runs")
        lines = log_of(ending.process)
        statuses = [asked.result(TIMEOUT)[0] for asked in (attached, looking)]
    (folder.path / "go on").touch()
    with replicas(folder, database, 1, *flags) as (server,):
        over = server.serving.ended(run_id)
        runs = [run["id"] for run in server.ask("GET", "/runs")[1]["data"]]
        ends = [list(server.serving.events(run))[-1]["reason"] for run in runs]

    assert statuses == [503, 503]
    (line,) = [line for line in lines if NOT_REACHED in line]
    assert all(run in line for run in runs), line
    assert not any("Traceback" in line for line in lines), lines
    assert over["status"] == "completed"
    assert sorted(ends) == ["interrupted", "stop"]
    assert folder.counted == {"it": 2}  # once for each


@pytest.mark.parametrize("queue", ["table", "dbos"])
def test_a_worker_with_nothing_to_do(tmp_path: Path, cut: Cut, queue: str) -> None:
    if queue == "dbos":
        pytest.importorskip("dbos", reason="dbos is not installed: pip install 'ronda[dbos]'")
    with worker(Folder(tmp_path), cut.url, *FLAGS, "--queue", queue) as process:
        cut.cut()
        lines = log_of(process)

    assert [line for line in lines if NOT_REACHED not in line] == []
    assert len(lines) == 1
