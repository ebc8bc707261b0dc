"""Runs on PostgreSQL: how many a second with one and two workers, what each costs the database, how soon another server sees it.

A part of `make bench`; its figures are not judged, and docs/scaling.md reckons with them. The database is started here, and
waits for its disk. Each run is two calls of a scripted model and a call of a tool, so what is measured is Ronda and PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import aiohttp
import psycopg
from tests.postgres import PostgresServer, programs

RUNS = 400  # queued, for each number of workers
WARM_UPS = 50  # before them, for each worker
REQUESTS = 600  # of a closed loop
FOLLOWED = 20
ROUNDS = 2  # model calls of a run

TOOLS = '''
import asyncio
from ronda import tool

@tool
async def look() -> str:
    """Look."""
    return "seen"

@tool
async def nap() -> str:
    """Take a nap."""
    await asyncio.sleep(0.05)
    return "rested"
'''


class Started(NamedTuple):
    url: str  # of a server
    process: subprocess.Popen[str]


@contextlib.contextmanager
def started(*command: str) -> Iterator[Started]:
    """A server or worker."""
    with subprocess.Popen([sys.executable, "-m", "ronda", *command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"on (http://127\.0\.0\.1:\d+)|drives background runs", line):
                    yield Started(found[1] or "", process)
                    break
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.communicate()


def cpu(*pids: int) -> float:
    """Milliseconds of these processes and all below them, so far. Unlike the clock they do not depend on who else is at work."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            pid = int(place.parent.name)
            parents[pid] = int(fields[1])
            used[pid] = (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid, milliseconds in used.items():
        above = pid
        while above not in pids and above in parents:
            above = parents[above]
        total += milliseconds if above in pids else 0.0
    return total


class Measured:
    """A schema of its own, and what the database did for it."""

    def __init__(self, database: PostgresServer, folder: Path, name: str) -> None:
        self.database = database
        self.url = f"{database.url}?options=-csearch_path%3D{name}"
        database.make_schema(name)
        self._connection = psycopg.connect(self.url, autocommit=True)
        self.flags = ["--database", self.url, "--tools", str(folder / "tools.py"), "--data-dir", str(folder / name)]

    def ask(self, question: Any) -> Any:
        row = self._connection.execute(question).fetchone()
        assert row is not None
        return row[0]

    def work(self) -> tuple[float, float]:
        """Transactions, and bytes of its log, so far."""
        self.ask("SELECT pg_stat_force_next_flush()::text")
        commits = self.ask("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        return float(commits), float(self.ask("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"))


def script(folder: Path, tool: str) -> list[str]:
    file = folder / f"{tool}.json"
    file.write_text(json.dumps([{"calls": [{"name": tool}]}, "It is done, and this is what there is to say of it."]))
    return ["--model", f"script:{file}"]


async def queued(database: PostgresServer, folder: Path, workers: int) -> tuple[float, float, float]:
    """Runs a second of that many workers, from a queue that is full; CPU of workers and of PostgreSQL for each."""
    place = Measured(database, folder, f"queue_{workers}")
    flags = [*place.flags, *script(folder, "look"), "--background-queue", "10000", "--background-per-owner", "64"]
    with contextlib.ExitStack() as processes:
        # A server that drives one run at a time, and none while others do.
        url, _ = processes.enter_context(started("serve", "--port", "0", "--background-runs", "1", *flags))
        them = [
            processes.enter_context(started("worker", "--background-runs", "64", *flags)).process
            for _ in range(workers)
        ]
        async with aiohttp.ClientSession() as http:

            async def add(runs: int) -> None:
                for _ in range(runs):
                    async with http.post(f"{url}/v1/responses", json={"input": "go", "background": True}) as answer:
                        assert answer.status == 202, await answer.text()

            # What a process does once (imports, plans of statements) is not counted: two of them do it twice.
            await add(WARM_UPS * workers)
            while place.ask("SELECT count(*) FROM run WHERE ended IS NULL"):
                await asyncio.sleep(0.05)
            for process in them:
                process.send_signal(signal.SIGSTOP)
            await add(RUNS)
        began = time.time()
        pids = [process.pid for process in them]
        ours, theirs = cpu(*pids), cpu(database.pid)
        for process in them:
            process.send_signal(signal.SIGCONT)
        while place.ask("SELECT count(*) FROM run WHERE ended IS NULL"):
            await asyncio.sleep(0.05)
        done = place.ask(f"SELECT count(*) FROM run WHERE ended > {began}")
        seconds = place.ask(f"SELECT max(ended) - min(ended) FROM run WHERE ended > {began}")
        ours, theirs = cpu(*pids) - ours, cpu(database.pid) - theirs
    return float((done - 1) / seconds), ours / done, theirs / done


class Asked(NamedTuple):
    """Requests a second of a closed loop; for each, CPU of ours and of PostgreSQL, transactions, and bytes of its log."""

    rate: float
    ours: float
    theirs: float
    commits: float
    log: float


async def asked(place: Measured | None, folder: Path, workers: int, crowd: int) -> Asked:
    flags = (
        place.flags
        if place is not None
        else ["--tools", str(folder / "tools.py"), "--data-dir", str(folder / f"w{workers}")]
    )
    with started("serve", "--port", "0", "--workers", str(workers), *flags, *script(folder, "look")) as (url, process):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

            async def client(requests: int) -> None:
                for _ in range(requests):
                    async with http.post(f"{url}/v1/responses", json={"input": "go"}) as answer:
                        assert answer.status == 200, await answer.text()

            await asyncio.gather(*[client(2) for _ in range(crowd)])
            before = place.work() if place is not None else (0.0, 0.0)
            ours, theirs = cpu(process.pid), cpu(place.database.pid) if place is not None else 0.0
            began = time.perf_counter()
            await asyncio.gather(*[client(REQUESTS // crowd) for _ in range(crowd)])
            seconds = time.perf_counter() - began
            ours, theirs = cpu(process.pid) - ours, (cpu(place.database.pid) if place is not None else 0.0) - theirs
            after = place.work() if place is not None else (0.0, 0.0)
    count = REQUESTS // crowd * crowd
    return Asked(
        count / seconds, ours / count, theirs / count, (after[0] - before[0]) / count, (after[1] - before[1]) / count
    )


async def followed(database: PostgresServer, folder: Path) -> list[float]:
    """Milliseconds from a fact until a client of another server has it."""
    place = Measured(database, folder, "followed")
    flags = [*place.flags, *script(folder, "nap")]
    delays: list[float] = []
    with started("serve", "--port", "0", *flags) as (one, _), started("serve", "--port", "0", *flags) as (other, _):
        async with aiohttp.ClientSession() as http:
            for _ in range(FOLLOWED):
                body = {"input": "go", "stream": True, "on_disconnect": "detach"}
                async with http.post(f"{one}/v1/responses", json=body) as answer:
                    run = answer.headers["x-ronda-run"]
                async with http.get(f"{other}/v1/runs/{run}/events") as events:
                    joined = time.time()
                    async for line in events.content:
                        if line.startswith(b"data: "):
                            event = json.loads(line[6:])
                            if event.get("at", 0.0) > joined:  # what was there before took no time to come
                                delays.append((time.time() - event["at"]) * 1000)
    return delays


async def main() -> int:
    if programs() is None:
        print("postgres: skipped, since no PostgreSQL is here")
        return 0
    with tempfile.TemporaryDirectory(prefix="ronda-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tools.py").write_text(TOOLS)
        database = PostgresServer(folder / "postgres", {"fsync": "on", "full_page_writes": "on"})
        database.start()
        try:
            for workers in (1, 2):
                rate, ours, theirs = await queued(database, folder, workers)
                what = f"PostgreSQL, queued runs, {workers} worker{'s' if workers > 1 else ''}"
                print(
                    f"{what}: {rate:.0f} runs/s; CPU for each {ours:.1f} ms, and {theirs:.1f} ms of PostgreSQL",
                    flush=True,
                )
            for workers in (1, 2):
                found = await asked(None, folder, workers, 32)
                what = f"SQLite, 32 clients, --workers {workers}"
                print(f"{what}: {found.rate:.0f} requests/s; CPU for each {found.ours:.1f} ms", flush=True)
            for workers, crowd in ((1, 1), (1, 32), (2, 32)):
                place = Measured(database, folder, f"asked_{workers}_{crowd}")
                found = await asked(place, folder, workers, crowd)
                size = place.ask(
                    "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(ARRAY['run', 'event', 'call']) AS name"
                ) / place.ask("SELECT count(*) FROM run")
                cost = (
                    f"{found.ours:.1f} ms, and {found.theirs:.1f} ms of PostgreSQL; {found.commits:.2f} transactions, "
                )
                cost += f"{found.log / 1024:.1f} kB of log, {float(size) / 1024:.1f} kB kept"
                what = f"PostgreSQL, {crowd} clients, --workers {workers}"
                print(f"{what}: {found.rate:.0f} requests/s; CPU for each {cost}", flush=True)
            delays = await followed(database, folder)
            print(
                f"PostgreSQL, followed at another server: {statistics.median(delays):.0f} ms until a fact is seen, "
                f"{max(delays):.0f} ms at the most ({len(delays)} facts)"
            )
        finally:
            database.stop()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
