"""A process forks while its stores are open, and threads use them: the child ends, and touches nothing of its parent's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.timeouts import TIMEOUT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no process forks there")

_BEGIN = """
import asyncio, os, signal, sys, threading, warnings
from pathlib import Path
from ronda import Agent, run_agent
from ronda.journal import RunQuery
from ronda.journal.sqlite import SqliteJournal
from ronda.store import StoreError
from ronda.store.keys import KeyRow
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import ScriptedModel, says

warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks, which this is about
folder = Path(sys.argv[1])

def ask(**options):
    return run_agent(Agent(ScriptedModel(says("Hello."))), "go", **options).output

def fork(child):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # for one that hangs
        child()
        sys.exit()  # with all that a process does at its end
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

_BUSY = (
    _BEGIN
    + """
journal, catalog = SqliteJournal(folder / "journal.db"), SqliteCatalog(str(folder / "catalog.db"))
ask(journal=journal)
asyncio.run(catalog.keys.add(KeyRow("k", "ann", b"hash", 0.0)))
there = sorted(folder.glob("journal.db-*"))
done = threading.Event()

def use():
    async def use():
        other, keys = SqliteJournal(folder / "other.db"), SqliteCatalog(str(folder / "catalog.db"))
        while not done.is_set():
            await asyncio.gather(other.list_runs(RunQuery("")), keys.keys.all())
        await other.close()
        await keys.close()
    asyncio.run(use())

threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads:
    thread.start()

def child():
    assert ask() == "Hello."
    try:
        ask(journal=journal)
        os._exit(3)
    except StoreError as error:
        assert "opened before this process was forked; open it in the child" in str(error), error
    own = SqliteJournal(folder / "journal.db")
    assert ask(journal=own) == "Hello."
    assert len(asyncio.run(catalog.keys.all())) == 1  # which opens its file again
    asyncio.run(own.close())
    asyncio.run(journal.close())

codes = [fork(child)]
while codes[-1] == 0 and len(codes) < 8:
    codes.append(fork(child))
done.set()
for thread in threads:
    thread.join()
assert ask(journal=journal) == "Hello."
print(set(codes), len(asyncio.run(journal.list_runs(RunQuery(""))).runs), sorted(folder.glob("journal.db-*")) == there)
asyncio.run(journal.close())
"""
)

_MOUNTED = (
    _BEGIN
    + """
import httpx2 as httpx
from ronda.server import create_app

app = create_app(ScriptedModel(says("Hello."), says("Hello."), says("Hello.")), data_dir=str(folder), insecure=True)

def serve():
    async def serve():
        async with app.lifespan(), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            answer = await client.post("/v1/responses", json={"input": "go"})
            assert answer.status_code == 200, answer.text
            return len((await client.get("/v1/runs")).json()["data"])
    return asyncio.run(serve())

def child():
    assert serve() > 0

print({fork(child) for _ in range(2)}, serve())
"""
)


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(folder)], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_child_opens_stores_of_its_own_and_leaves_those_of_its_parent_alone(tmp_path: Path) -> None:
    assert run(_BUSY, tmp_path) == "{0} 10 True"


def test_a_server_that_was_made_before_a_fork_serves_in_each_child(tmp_path: Path) -> None:
    assert run(_MOUNTED, tmp_path) == "{0} 3"
