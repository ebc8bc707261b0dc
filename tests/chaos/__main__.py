"""`make chaos`: all of it, at length; ends with 0 only if nothing was wrong."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.chaos.load import Load, Model, Process, Summary, kill_at_random
from tests.chaos.outages import outages
from tests.chaos.replicas import outage, trouble
from tests.postgres import PostgresServer

OUTAGE: Final = 27.0  # seconds; what is promised is 30, and stopping and starting takes some of them
PARTS: Final = {
    "kills": "one server, killed at random moments and started again",
    "replicas": "two servers and a worker: one is killed, one frozen, one cut off; the database is restarted, and away for 27 s",
    "outages": "two servers whose database goes away in mid-run, twice, and at each kind of statement; files in S3's stand-in",
}
QUEUES: Final = ("table", "dbos")
FULL: Final = {"kills": 100, "runs": 200, "outage": 90.0, "each": 90.0, "statements": None}
SHORT: Final = {"kills": 5, "runs": 20, "outage": 5.0, "each": 2.0, "statements": 8}


class Report:
    def __init__(self) -> None:
        self.is_right = True
        self._began = time.monotonic()

    def add(self, what: str, summary: Summary) -> None:
        print(f"{what} ({time.monotonic() - self._began:.0f} s): {summary}", flush=True)
        self.is_right = self.is_right and not summary.wrong
        self._began = time.monotonic()


def main() -> int:
    asked = _arguments()
    print(f"seed {asked.seed}", flush=True)
    report = Report()
    with (
        tempfile.TemporaryDirectory(prefix="ronda-chaos-", ignore_cleanup_errors=True) as name,
        Model().serving() as model,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        database = PostgresServer(folder / "postgres", {"fsync": "on", "full_page_writes": "on"})
        if "kills" in asked.only:
            _kills(report, folder, model, database, asked.kills, asked.seed, asked.queue[0])
        if "replicas" in asked.only:
            _replicas(report, folder, model, database, asked.runs, asked.queue[0])
        if "outages" in asked.only:
            for queue in asked.queue:
                load = Load(folder / f"outages-{queue}")
                how = {"seconds": asked.outage, "each": asked.each, "statements": asked.statements, "seed": asked.seed}
                summary = outages(load, model, database, ["--queue", queue], **how)
                what = f"two servers, --queue {queue}, the database away for {asked.outage:g} s twice, and for {asked.each:g} s"
                report.add(f"{what} at each kind of statement", summary)
    return 0 if report.is_right else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos",
        description="Servers under load that are killed, frozen and cut off, and whose database goes away: every run ends, no "
        "call is made twice, and what was acknowledged (approvals, files) is kept. All of it takes hours, --short a few minutes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="parts:\n" + "\n".join([f"  {name:10}{what}" for name, what in PARTS.items()]),
    )
    add = parser.add_argument
    add("--only", choices=PARTS, action="append", help="this part; may be repeated (default: all)")
    add("--short", action="store_true", help="few kills and runs, short outages, some kinds of statements")
    add("--queue", choices=QUEUES, action="append", help="of servers on PostgreSQL; may be repeated (default: both)")
    add(
        "--seed",
        type=int,
        default=random.randrange(10**6),
        help="which moments and statements (default: others each time)",
    )
    add("--kills", type=int, help="of a server, on SQLite and again on PostgreSQL (default: 100; short: 5)")
    add("--runs", type=int, help="under way while two servers and a worker are in trouble (default: 200; short: 20)")
    add("--outage", type=float, help="seconds that the database is away in the middle of runs (default: 90; short: 5)")
    add("--each", type=float, help="seconds that it is away at each kind of statement (default: 90; short: 2)")
    add("--statements", type=int, help="kinds of statements, chosen by the seed (default: all; short: 8)")
    asked = parser.parse_args()
    usual = SHORT if asked.short else FULL
    for name, value in usual.items():
        if getattr(asked, name) is None:
            setattr(asked, name, value)
    asked.only, asked.queue = asked.only or list(PARTS), asked.queue or list(QUEUES)
    return asked


def _kills(
    report: Report, folder: Path, model: Model, database: PostgresServer, kills: int, seed: int, queue: str
) -> None:
    database.start()
    try:
        for kind, flags in (("SQLite", []), ("PostgreSQL", ["--database", database.url, "--queue", queue])):
            load = Load(folder / kind)
            server = Process(load.folder, model.flags, *flags)
            try:
                summary = kill_at_random(load, server, kills, seed)
            finally:
                server.kill()
            report.add(f"{kind}, kill -9 at {kills} random moments", summary)
    finally:
        database.stop()


def _replicas(report: Report, folder: Path, model: Model, database: PostgresServer, runs: int, queue: str) -> None:
    flags = ["--queue", queue]
    summary, how = trouble(Load(folder / "replicas"), model, database, runs, flags)
    what = (
        f"two servers and a worker on PostgreSQL, one killed, one frozen, one cut off ({how}), the database restarted"
    )
    report.add(what, summary)
    summary = outage(Load(folder / "outage"), model, database, flags, runs=20, seconds=OUTAGE)
    report.add(f"two servers, the database away for {OUTAGE:.0f} s", summary)


if __name__ == "__main__":
    sys.exit(main())
