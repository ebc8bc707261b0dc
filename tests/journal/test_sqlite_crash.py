"""What a barrier has acknowledged is there after kill -9, and a write-ahead log cut anywhere is the log of an earlier moment."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ronda.core.events import Event, Warned
from ronda.journal.sqlite import SqliteJournal
from ronda.store import StoreError
from ronda.testing.facts import start

# Two runs, each event large enough that checkpoints come by. A line is printed once a barrier has returned.
CHILD = """
import asyncio, sys
from ronda.core.events import Warned
from ronda.journal.sqlite import SqliteJournal
from ronda.testing.facts import start

async def main():
    journal = SqliteJournal(sys.argv[1], synchronous=sys.argv[2])
    for run in "ab":
        journal.append(run, [start(run, *["more " * 500] * 5)])
    for number in range(100_000):
        for run in "ab":
            journal.append(run, [Warned(f"{number} " + "x" * 30_000)])
        await asyncio.gather(journal.barrier("a"), journal.barrier("b"))
        print(number, flush=True)

asyncio.run(main())
"""


LONG = ["more " * 500] * 5


def warned(count: int) -> list[Event]:
    return [Warned(f"{number} " + "x" * 30_000) for number in range(count)]


@pytest.mark.parametrize(("lines", "synchronous"), [(1, "NORMAL"), (40, "NORMAL"), (400, "NORMAL"), (40, "FULL")])
def test_what_a_barrier_has_acknowledged_survives_kill_9(tmp_path: Path, lines: int, synchronous: str) -> None:
    path = tmp_path / "journal.db"
    command = [sys.executable, "-c", CHILD, str(path), synchronous]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        heard = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        heard += child.stdout.read().splitlines(keepends=True)  # acknowledged before the signal came
    assert child.returncode == -signal.SIGKILL
    acknowledged = sum(line.endswith("\n") for line in heard)

    async def check() -> None:
        journal = SqliteJournal(path)
        unfinished = {run.run: run.events for run in await journal.unfinished_runs()}
        for run in ("a", "b"):
            events = await journal.resume(run)
            assert events == [start(run, *LONG), *warned(len(events) - 1)]
            assert len(events) == unfinished[run] >= 1 + acknowledged
        journal.append("a", [Warned("it goes on")])
        await journal.barrier("a")
        assert (await journal.read("a"))[-1] == Warned("it goes on")
        await journal.close()

    asyncio.run(check())
    assert os.listdir(tmp_path) == ["journal.db"]  # the dead one's lock file is gone too


def with_part_of_the_log(path: Path, to: Path, part: float) -> Path:
    to.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{to / path.name}{ending}")
    wal = f"{to / path.name}-wal"
    os.truncate(wal, int(os.path.getsize(wal) * part))
    return to / path.name


async def test_a_log_cut_anywhere_is_the_log_of_an_earlier_moment(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    written: list[Event] = [start("a", *LONG)]
    journal.append("a", written)
    await journal.barrier("a")
    for number in range(20):
        event = Warned(f"{number} " * 100)
        written.append(event)
        journal.append("a", [event])
        await journal.barrier("a")
    lengths = set()
    for fortieth in range(41):
        torn = SqliteJournal(with_part_of_the_log(path, tmp_path / f"cut {fortieth}", fortieth / 40))
        events = await torn.read("a")
        assert events == written[: len(events)]
        lengths.add(len(events))
        if events:
            assert await torn.resume("a") == events
            torn.append("a", [Warned("it goes on")])
            await torn.barrier("a")
            assert await torn.read("a") == [*events, Warned("it goes on")]
        await torn.close()
    assert len(lengths) > 10
    await journal.close()


def test_many_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    program = """
import asyncio, sys
from ronda.journal.sqlite import SqliteJournal
from ronda.testing.facts import finish, start

async def main():
    sys.stdin.readline()
    journal = SqliteJournal(sys.argv[1])
    run = sys.argv[2]
    journal.append(run, [start(run), *finish()])
    await journal.barrier(run)
    await journal.close()

asyncio.run(main())
"""
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(path), f"run {n}"], stdin=subprocess.PIPE)
        for n in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0] * 4

    async def lengths() -> list[int]:
        journal = SqliteJournal(path)
        found = [len(await journal.read(f"run {n}")) for n in range(4)]
        await journal.close()
        return found

    assert asyncio.run(lengths()) == [3] * 4


async def test_a_damaged_file_is_said_to_be_one_when_it_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    journal.append("a", [start("a", *LONG)])
    await journal.close()
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 200)
    journal = SqliteJournal(path)
    journal.append("b", [start("b", *LONG)])
    with pytest.raises(
        StoreError, match=r"malformed; the file is damaged; move it away, and try `sqlite3 FILE \.recover`"
    ):
        await journal.barrier("b")
    await journal.close()


@pytest.mark.parametrize("instead", [None, b"", b"another file"])
async def test_a_file_that_is_gone_is_noticed_by_whoever_writes_next(
    tmp_path: Path, instead: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would go on writing into a file that cannot be found again. (Looked for once a second; here, always.)"""
    monkeypatch.setattr("ronda.journal.sqlite_commits.LOOK_EVERY", 0.0)
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    journal.append("a", [start("a")])
    await journal.barrier("a")
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    if instead is not None:
        path.write_bytes(instead)
    journal.append("a", [Warned("x")])
    with pytest.raises(StoreError, match=r"journal\.db: the file was moved or deleted while it was open; put it back"):
        await journal.barrier("a")
    journal.append("b", [start("b")])
    with pytest.raises(StoreError, match="the file was moved or deleted while it was open"):
        await journal.barrier("b")
    await journal.close()


async def test_a_file_that_is_put_back_is_written_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    path.rename(tmp_path / "away.db")
    journal.append("a", [start("a")])
    with pytest.raises(StoreError):
        await journal.barrier("a")
    (tmp_path / "away.db").rename(path)
    journal.append("b", [start("b")])
    await journal.barrier("b")
    assert [type(event).__name__ for event in await journal.read("b")] == ["RunStarted"]
    await journal.close()
