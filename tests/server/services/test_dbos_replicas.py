"""Servers and workers whose background runs are queued with DBOS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote

import psycopg
import pytest
from tests.cli.commands import script, shown
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import replicas, worker
from tests.timeouts import TIMEOUT

FLAGS = ("--queue", "dbos", "--lease-seconds", "1", "--shutdown-seconds", "0.1")


class DbosDatabase:
    def __init__(self, url: str) -> None:
        self.url = url
        self.schema = f"{unquote(url).rpartition('=')[2]}_dbos"

    def workflows(self) -> list[tuple[str, str, str]]:
        """Of each: the run, its status, and who drives it: a machine's name, and the number of a process."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(
                f"""SELECT workflow_uuid, status, process.name FROM {self.schema}.workflow_status
                LEFT JOIN process ON executor_id = 'ronda-' || to_hex(process.id) ORDER BY created_at"""
            ).fetchall()


@pytest.fixture
def database(postgres: str) -> Iterator[DbosDatabase]:
    pytest.importorskip("dbos", reason="dbos is not installed: pip install 'ronda[dbos]'")
    database = DbosDatabase(postgres)
    yield database
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {database.schema} CASCADE")


def test_a_run_whose_process_is_killed_goes_on_elsewhere(tmp_path: Path, database: DbosDatabase) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        # At once: one of them makes the tables, and the other waits.
        starts = [threads.submit(stack.enter_context, replicas(folder, database.url, 1, *FLAGS)) for _ in range(2)]
        servers = [server for start in starts for server in start.result(TIMEOUT)]
        run_id = servers[0].ask("POST", "/responses", {"input": "go", "background": True})[1]["id"]
        folder.until("waiting")
        (before,) = database.workflows()
        driver = int(before[2].split()[1])
        (folder.path / "go on").touch()
        os.kill(driver, signal.SIGKILL)
        (other,) = [server for server in servers if server.process.pid != driver]
        over = other.serving.ended(run_id)
        (after,) = _until_over(database)

    assert over["status"] == "completed"
    assert folder.counted == {"it": 1}
    assert before[:2] == (run_id.replace("resp_", "run_"), "PENDING")
    assert (after[:2], int(after[2].split()[1])) == ((before[0], "SUCCESS"), other.process.pid)


def test_a_worker_takes_what_a_server_gives_back_when_it_ends(tmp_path: Path, database: DbosDatabase) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    with replicas(folder, database.url, 1) as (asked,):  # whose own queue is the table: both may share a database
        with replicas(folder, database.url, 1, *FLAGS) as (ending,):
            asked.process.send_signal(signal.SIGSTOP)  # so that the other drives it
            run_id = ending.ask("POST", "/responses", {"input": "go", "background": True})[1]["id"]
            folder.until("waiting")
            ending.process.send_signal(signal.SIGTERM)
            _, errors = ending.process.communicate(timeout=TIMEOUT)
            given_back = database.workflows()
        (folder.path / "go on").touch()
        with worker(folder, database.url, *FLAGS):
            asked.process.send_signal(signal.SIGCONT)
            over = asked.serving.ended(run_id)

    assert [status for _, status, _ in given_back] == ["ENQUEUED"]
    assert errors == ""
    assert over["status"] == "completed"
    assert folder.counted == {"it": 1}


def _until_over(database: DbosDatabase) -> list[tuple[str, str, str]]:
    """DBOS writes in its own time how a workflow ended."""
    deadline = time.monotonic() + TIMEOUT
    while (found := database.workflows())[0][1] == "PENDING":
        assert time.monotonic() < deadline
    return found


def test_a_user_who_may_make_no_schema_is_told_the_way_out(tmp_path: Path, postgres_server: str) -> None:
    pytest.importorskip("dbos", reason="dbos is not installed: pip install 'ronda[dbos]'")
    name = f"test_{os.urandom(6).hex()}"
    url = f"{postgres_server.replace('ronda@', f'{name}@')}?options=-csearch_path%3D{name}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
        command = [sys.executable, "-m", "ronda", "worker", "--database", url, "--queue", "dbos"]
        command += ["--model", script(tmp_path), "--data-dir", str(tmp_path / "data")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        connection.execute(f"DROP OWNED BY {name} CASCADE")
        connection.execute(f"DROP ROLE {name}")

    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert f"permission denied for database postgres; make the schema {name}_dbos for it" in done.stderr


def test_dbos_is_for_a_database_that_servers_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, "serve", "--port", "0", "--queue", "dbos", "--model", script(tmp_path))

    assert (code, "--queue dbos keeps its runs in PostgreSQL: say where with --database" in err) == (2, True), err


def test_nobody_pays_for_dbos_who_has_not_chosen_it(tmp_path: Path, postgres: str) -> None:
    code = (
        "import sys; from ronda.server.storage import *; from ronda.server.config import ServerConfig; "
        f"shared = open_shared(ServerConfig(database={postgres!r})); open_catalog(None, shared); "
        "shared.presence.leave(); print({'dbos', 'sqlalchemy'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT)

    assert done.stdout == "set()\n", done.stderr
