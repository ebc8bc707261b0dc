"""The SQLite journal: the contract, two drivers on one file, and everything that can be wrong with a file."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf, nan
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec import Raw
from tests.timeouts import soon

from ronda.core.events import Event, Fact, ModelFinished, ModelStarted, RunStarted, ToolFinished, Warned
from ronda.core.parts import AssistantTurn, Native, Text, ToolResult, user
from ronda.core.plan import Plan, ToolSpec
from ronda.journal import JournalConflict, UnfinishedRun
from ronda.journal.sqlite import SqliteJournal
from ronda.store import StoreError
from ronda.store.versions import pack_version
from ronda.testing.facts import every_fact, finish, start
from ronda.testing.journals import DurableJournalContract, JournalContract


class TestSqliteJournal(DurableJournalContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "journal.db"

    async def open(self) -> SqliteJournal:
        return SqliteJournal(self.path)


class TestFullySynchronous(TestSqliteJournal):
    async def open(self) -> SqliteJournal:
        return SqliteJournal(self.path, synchronous="FULL")


class TestInMemory(JournalContract):
    async def open(self) -> SqliteJournal:
        return SqliteJournal(":memory:")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


async def keep(journal: SqliteJournal, run: str, *events: Event) -> None:
    journal.append(run, [start(run), *events])
    await journal.barrier(run)


# ---- two drivers --------------------------------------------------------------------------------------------------------


async def test_a_driver_that_was_taken_for_dead_is_told_and_the_others_of_its_tick_are_kept(path: Path) -> None:
    stale = SqliteJournal(path)
    await keep(stale, "a")
    await keep(stale, "b")
    for presence in path.parent.glob("*-open-*"):
        presence.unlink()
    fresh = SqliteJournal(path)
    assert await fresh.resume("a") == [start("a")]
    fresh.append("a", [Warned("by the fresh one")])
    await fresh.barrier("a")

    async def go_on(run: str) -> None:
        stale.append(run, [Warned("by the stale one"), *finish()])
        await stale.barrier(run)

    ends = await asyncio.gather(go_on("a"), go_on("b"), return_exceptions=True)

    assert [type(end) for end in ends] == [JournalConflict, type(None)]
    assert await fresh.read("a") == [start("a"), Warned("by the fresh one")]
    assert await fresh.read("b") == [start("b"), Warned("by the stale one"), *finish()]
    stale.append("a", [Warned("still not listening")])
    with pytest.raises(JournalConflict):
        await stale.barrier("a")
    stale.release("a")  # which lets go of nothing: it is the fresh one's
    with pytest.raises(JournalConflict):
        await stale.resume("a")
    assert await stale.read("a") == [start("a"), Warned("by the fresh one")]
    await stale.close()
    await fresh.close()


async def test_all_runs_of_a_tick_share_a_commit(path: Path) -> None:
    journal = SqliteJournal(path)
    with closing(sqlite3.connect(path)) as other:
        before = other.execute("PRAGMA data_version").fetchone()
        await asyncio.gather(*[keep(journal, f"run {n}", *finish()) for n in range(50)])
        assert other.execute("PRAGMA data_version").fetchone() != before
        assert other.execute("SELECT count(*), count(DISTINCT run) FROM event").fetchone() == (50, 50)
    await journal.close()


async def test_without_a_barrier_events_are_written_all_the_same(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append("a", [start("a")])
    with closing(sqlite3.connect(path)) as other:
        async with soon():
            while other.execute("SELECT count(*) FROM event").fetchone() == (0,):  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0.001)
        assert other.execute("SELECT count(*) FROM event").fetchone() == (1,)
    await journal.close()


def test_one_journal_serves_one_loop_after_another(path: Path) -> None:
    journal = SqliteJournal(path)

    async def half(events: list[Event]) -> None:
        journal.append("a", events)  # no barrier: the loop ends before anything is written

    journal.append("a", [start("a")])  # before there is a loop at all
    asyncio.run(half([ModelStarted(0)]))
    asyncio.run(half(finish()))
    asyncio.run(journal.close())
    journal = SqliteJournal(path)
    assert asyncio.run(journal.read("a")) == [start("a"), ModelStarted(0), *finish()]
    asyncio.run(journal.close())


# ---- locks, full disks, files that are none --------------------------------------------------------------------------------


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


async def test_a_lock_is_waited_for_while_others_go_on(path: Path) -> None:
    journal = SqliteJournal(path, timeout=60)
    await keep(journal, "a")
    with locked(path) as other:
        journal.append("a", finish())
        waiting = asyncio.create_task(journal.barrier("a"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        other.execute("ROLLBACK")
        await waiting
    assert await journal.read("a") == [start("a"), *finish()]
    await journal.close()


async def test_a_lock_that_lasts_is_an_error_of_those_who_waited(path: Path) -> None:
    journal = SqliteJournal(path, timeout=0)
    await keep(journal, "a")
    with locked(path):
        journal.append("a", finish())
        with pytest.raises(StoreError, match=r"journal\.db: database is locked; .*another file"):
            await journal.barrier("a")
        journal.release("a")
        with pytest.raises(StoreError, match="database is locked"):
            await journal.resume("a")
    await keep(journal, "b")
    assert await journal.resume("a") == [start("a")]
    journal.append("a", finish())
    await journal.barrier("a")
    assert await journal.read("a") == [start("a"), *finish()]
    await journal.close()


async def test_events_lost_after_their_run_was_released_are_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = SqliteJournal(path, timeout=0)
    with locked(path):
        journal.append("run-a", [start("run-a")])
        journal.release("run-a")
        await journal.read("something else")
    assert "run-a are lost" in caplog.text
    await journal.close()


async def test_a_run_that_could_not_be_kept_is_unfinished_once_it_is_released(path: Path) -> None:
    journal = SqliteJournal(path, timeout=0)
    await keep(journal, "a")
    with locked(path):
        journal.append("a", finish())
        with pytest.raises(StoreError):
            await journal.barrier("a")
    assert await journal.unfinished_runs() == []
    journal.release("a")
    assert await journal.unfinished_runs() == [UnfinishedRun("a", 1, start("a"))]
    await journal.close()


async def test_a_closed_journal_says_so(path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.close()
    journal.append("a", [start("a")])
    with pytest.raises(StoreError, match="closed"):
        await journal.barrier("a")
    with pytest.raises(StoreError, match="closed"):
        await journal.read("a")
    await journal.close()


@contextmanager
def little_room(path: Path) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{path}-wal") + 5000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_an_error_and_no_loss_of_what_was_kept(path: Path) -> None:
    journal = SqliteJournal(path)
    await keep(journal, "a")
    with little_room(path):
        journal.append("a", [Warned("long " * 5000)])
        with pytest.raises(StoreError, match=r"journal\.db: .*(not full|make room)"):
            await journal.barrier("a")
    journal.append("a", finish())  # there is room again, but this run has a hole now
    with pytest.raises(StoreError):
        await journal.barrier("a")
    await keep(journal, "b")
    assert await journal.read("a") == [start("a")]
    await journal.close()


async def test_closing_tells_what_could_not_be_kept(path: Path) -> None:
    journal = SqliteJournal(path, timeout=0)
    journal.append("a", [start("a")])
    with locked(path), pytest.raises(StoreError, match="database is locked"):
        await journal.close()


@pytest.fixture
def readable_only() -> Iterator[Path]:
    """A journal in a folder that all may read and none may write, for a user without special rights."""
    folder = Path(tempfile.mkdtemp())
    asyncio.run(SqliteJournal(folder / "journal.db").close())
    (folder / "journal.db").chmod(0o444)
    folder.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(os.getuid())
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_written_is_an_error(readable_only: Path) -> None:
    with pytest.raises(StoreError, match=r"journal\.db: .*writable"):
        SqliteJournal(readable_only / "journal.db")
    with pytest.raises(StoreError, match=r"new\.db: .*writable"):
        SqliteJournal(readable_only / "new.db")


def test_a_file_that_is_no_database_is_an_error(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(StoreError, match=r"journal\.db: file is not a database; move that file away"):
        SqliteJournal(path)
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_another_programs_database_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE run (id)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program's database"):
        SqliteJournal(path)
    assert path.read_bytes() == before


async def test_a_database_that_only_a_newer_ronda_can_use_is_an_error(path: Path) -> None:
    await SqliteJournal(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {pack_version(99, least=98)}")
    with pytest.raises(
        StoreError, match=r"version 99, which needs a Ronda that knows version 98, and .*; update Ronda"
    ):
        SqliteJournal(path)


async def test_a_database_to_which_a_newer_ronda_only_added_is_used(path: Path) -> None:
    await SqliteJournal(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("ALTER TABLE run ADD COLUMN budget REAL")
        newer.execute("ALTER TABLE event ADD COLUMN kind TEXT NOT NULL DEFAULT 'event'")
        newer.execute("CREATE TABLE budget (run INTEGER)")
        newer.execute(f"PRAGMA user_version = {pack_version(99)}")
    journal = SqliteJournal(path)
    journal.append("run", [start("run")])
    assert await journal.read("run") == [start("run")]
    await journal.close()
    with closing(sqlite3.connect(path)) as newer:
        assert newer.execute("PRAGMA user_version").fetchone() == (99,)


@pytest.mark.parametrize("place", ["file/journal.db", "folder"])
def test_a_path_that_cannot_be_a_file_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=place):
        SqliteJournal(tmp_path / place)


async def test_nobody_else_may_read_it(path: Path) -> None:
    journal = SqliteJournal(path)
    await keep(journal, "a")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes.keys() > {"journal.db", "journal.db-wal", "journal.db-shm"}
    assert set(modes.values()) == {0o600}
    await journal.close()
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


# ---- what cannot be written ------------------------------------------------------------------------------------------------

CUT = Native("openai", Raw(b'{"cut":'))


@pytest.mark.parametrize(
    "event",
    [
        Warned("half a \ud800 pair"),
        Warned("when?", at=nan),
        ModelFinished(AssistantTurn((), native=CUT)),
        ModelFinished(AssistantTurn((Text("long " * 20_000),), native=CUT)),
        ToolFinished(ToolResult("call_1", "long " * 20_000, native=CUT)),
        RunStarted("a", Plan("model"), (user("hi"),), at=inf),
        RunStarted("a", Plan("model"), (user("half a \ud800 pair" * 1000),)),
        RunStarted("a", Plan("model"), (user("long " * 1000), AssistantTurn((), native=CUT))),
        RunStarted("a", Plan("model", (ToolSpec("tool", "long " * 1000, CUT.payload),)), (user("hi"),)),
        ToolFinished(ToolResult("call_1", "half a \udfff pair" * 10_000)),
    ],
)
async def test_what_could_not_be_read_back_is_refused_and_disturbs_no_other_run(event: Event) -> None:
    journal = SqliteJournal(":memory:")

    async def drive(run: str, events: list[Event]) -> None:
        journal.append(run, events)
        await journal.barrier(run)

    hostile: list[Event] = [event] if type(event) is RunStarted else [start("a"), event]
    ends = await asyncio.gather(drive("a", hostile), drive("b", [start("b")]), return_exceptions=True)

    assert [type(end) for end in ends] == [StoreError, type(None)]
    assert "of run 'a' cannot be written" in str(ends[0])
    assert await journal.read("a") == []
    assert await journal.read("b") == [start("b")]
    await journal.close()


async def test_names_that_are_no_text_are_refused() -> None:
    journal = SqliteJournal(":memory:")
    journal.append("\ud800", [start("a")])
    with pytest.raises(StoreError, match="cannot be written"):
        await journal.barrier("\ud800")
    journal.append("a", [start("a")])
    journal.expect("ada", ["\ud800"], "a")
    with pytest.raises(StoreError, match="cannot be written"):
        await journal.barrier("a")
    assert await journal.runs_of_calls("ada", ["\ud800"]) == {}
    assert await journal.read("\ud800") == []
    await journal.close()


# ---- damage ------------------------------------------------------------------------------------------------------------


async def with_rows(path: Path) -> None:
    journal = SqliteJournal(path)
    await keep(journal, "a")
    for event in finish():
        journal.append("a", [event])
        await journal.barrier("a")
    await journal.close()


def damage(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(sql, values).rowcount == 1


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe\x00", b'[{"type":"run_fini', b"[]]"])
async def test_a_torn_last_row_is_dropped_and_its_number_used_again(path: Path, garbage: bytes) -> None:
    await with_rows(path)
    damage(path, "UPDATE event SET body = ? WHERE number = 2", garbage)
    journal = SqliteJournal(path)
    assert await journal.read("a") == [start("a"), finish()[0]]
    assert await journal.resume("a") == [start("a"), finish()[0]]
    journal.append("a", [Warned("again"), finish()[1]])
    await journal.barrier("a")
    await journal.close()
    journal = SqliteJournal(path)
    assert await journal.read("a") == [start("a"), finish()[0], Warned("again"), finish()[1]]
    await journal.close()


@pytest.mark.parametrize(
    ("sql", "body"),
    [
        ("UPDATE event SET body = ? WHERE number = 1", b"{"),
        ("DELETE FROM event WHERE number = 1 AND body <> ?", b""),
        ("UPDATE event SET body = ? WHERE number = 2", b'[{"type":"run_finished","reason":"from_the_future"}]'),
    ],
    ids=["garbage in the middle", "a hole", "a known event with a value of a newer Ronda"],
)
async def test_other_damage_is_an_error_of_that_run_only(
    path: Path, sql: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await with_rows(path)
    damage(path, sql, body)
    damage(path, "UPDATE run SET ended = NULL")
    journal = SqliteJournal(path)
    await keep(journal, "b")
    journal.release("b")
    with pytest.raises(StoreError, match=r"event \d of run 'a' cannot be read"):
        await journal.read("a")
    assert [run.run for run in await journal.unfinished_runs()] == ["b"]
    assert "run 'a' cannot be read" in caplog.text
    await journal.close()


async def test_a_transcript_without_its_beginning_is_an_error(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append("a", [start("a", *["more " * 500] * 5)])
    await journal.barrier("a")
    damage(path, "DELETE FROM turn WHERE before IS NULL")
    with pytest.raises(StoreError, match="the beginning of its transcript is not there"):
        await journal.read("a")
    await journal.close()


async def test_what_another_has_pruned_is_stored_again(path: Path) -> None:
    """What a writer remembers of the database is only good while no other process deletes from it."""
    journal = SqliteJournal(path)
    other = SqliteJournal(path, max_age=0, now=lambda: 2e10)
    long = ["more " * 500] * 5
    for run in ("a", "b"):
        journal.append(run, [start(run, *long), *finish()])
        await journal.barrier(run)
        journal.release(run)
        await keep(journal, f"after {run}", *finish())
        journal.release(f"after {run}")
        assert await journal.read(run) == [start(run, *long), *finish()]
        assert await other.prune() > 0
    await journal.close()
    await other.close()


def test_every_fact_is_in_the_suite() -> None:
    assert {type(event) for event in every_fact("a")} == set(get_args(Fact))


# ---- which runs a commit takes ---------------------------------------------------------------------------------------------


def written(path: Path) -> list[tuple[str, int]]:
    """The rows of events, as another process sees them: whose each is, and the number of its first event."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(
            "SELECT name, number FROM event JOIN run ON run.id = event.run ORDER BY event.rowid"
        ).fetchall()


async def test_a_run_that_no_barrier_waits_for_is_written_in_one_piece(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append("a", [start("a")])
    await keep(journal, "b")
    assert written(path) == [("b", 0)]
    journal.append("a", [ModelStarted(0)])
    await journal.barrier("a")
    assert written(path) == [("b", 0), ("a", 0)]
    assert await journal.read("a") == [start("a"), ModelStarted(0)]
    await journal.close()


async def test_a_run_that_no_barrier_waits_for_is_soon_written_all_the_same(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append("a", [start("a")])
    async with soon():
        while not written(path):  # noqa: ASYNC110 - another connection cannot tell us
            await asyncio.sleep(0)
    assert written(path) == [("a", 0)]
    await journal.close()


async def test_a_run_that_goes_on_from_another_is_written_with_it(path: Path) -> None:
    journal = SqliteJournal(path)
    await keep(journal, "a")
    journal.append("b", [msgspec.structs.replace(start("b"), parent=("a", 1))])
    journal.append("a", finish())
    await journal.barrier("a")
    assert written(path) == [("a", 0), ("b", 0), ("a", 1)]
    await journal.close()


async def test_a_run_whose_release_could_not_be_written_is_left_for_the_next_who_looks(path: Path) -> None:
    journal = SqliteJournal(path, timeout=0)
    journal.append("a", [start("a")])
    await journal.barrier("a")
    journal.release("a")
    with locked(path), pytest.raises(StoreError, match="database is locked"):
        await journal.barrier("a")
    assert [one.run for one in await journal.unfinished_runs()] == ["a"]
    assert await journal.resume("a") == [start("a")]
    assert await journal.unfinished_runs() == []
    await journal.close()


async def test_a_run_that_waits_for_a_lock_is_not_left_out_when_it_is_gone(path: Path) -> None:
    journal = SqliteJournal(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        journal.append("a", [start("a")])
        waiting = asyncio.create_task(journal.barrier("a"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        other.execute("ROLLBACK")
    async with soon():
        await waiting
    assert written(path) == [("a", 0)]
    await journal.close()
