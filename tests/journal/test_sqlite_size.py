"""How large a journal gets: what is said again is stored once, and what is beyond the limits is forgotten."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Raw

from ronda.core.events import Event, ModelFinished, RunFinished, RunStarted, ToolFinished
from ronda.core.parts import AssistantTurn, Image, Text, ToolResult, Turn, UserTurn, user
from ronda.core.plan import Plan, ToolSpec
from ronda.journal import RunQuery
from ronda.journal.sqlite import SqliteJournal
from ronda.journal.sqlite_prune import prune
from ronda.store.sqlite import connect
from ronda.testing.facts import finish, start

END = RunFinished("stop", at=2.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


async def keep(journal: SqliteJournal, run: str, events: Sequence[Event], *, release: bool = True) -> None:
    journal.append(run, events)
    await journal.barrier(run)
    if release:
        journal.release(run)


def count(path: Path) -> dict[str, int]:
    tables = ("run", "event", "turn", "value", "run_value", "call")
    with closing(sqlite3.connect(path)) as db:
        return {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def stored_bytes(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        sums = [
            db.execute(f"SELECT coalesce(sum(length(body)), 0) FROM {table}").fetchone()[0]
            for table in ("event", "turn", "value")
        ]
    total: int = sum(sums)
    return total


def file_bytes(path: Path) -> int:
    return os.path.getsize(path)


# ---- said again, stored once -------------------------------------------------------------------------------------------


async def test_a_chat_that_sends_everything_again_grows_with_what_was_said(path: Path) -> None:
    journal = SqliteJournal(path)
    turns: list[Turn] = []
    starts = []
    for number in range(200):
        turns.append(user(f"Question {number}. " + "Please tell me more about it. " * 10))
        answer = AssistantTurn((Text(f"Answer {number}. " + "There is always more to be said. " * 10),))
        starts.append(RunStarted(f"run {number}", Plan("model"), tuple(turns), at=1.0))
        await keep(journal, f"run {number}", [starts[-1], ModelFinished(answer, at=2.0), END])
        turns.append(answer)
    said = sum(len(str(turn)) for turn in turns)
    for number in (0, 7, 199):
        assert (await journal.read(f"run {number}"))[0] == starts[number]
    await journal.close()
    # Each answer twice, as it came and as it was sent back. What was sent is a hundred times as much.
    assert stored_bytes(path) < 3 * said
    assert file_bytes(path) < 4 * said


async def test_another_branch_shares_the_beginning(path: Path) -> None:
    journal = SqliteJournal(path)
    common = ["a long story " * 100] * 5
    for ending in ("and so on", "or else", "and so on"):
        run = f"{ending} {count(path)['run']}"
        await keep(journal, run, [start(run, *common, ending), END])
        assert await journal.read(run) == [start(run, *common, ending), END]
    await journal.close()
    assert count(path)["turn"] == 7


async def test_a_tool_table_is_stored_once(path: Path) -> None:
    journal = SqliteJournal(path)
    schema = Raw(b'{"type":"object","properties":{"q":{"type":"string"}}}')
    for number in range(10):  # of new objects each time, as when it comes with a request
        tools = tuple([ToolSpec(f"tool_{n}", "does something useful " * 10, schema) for n in range(20)])
        begun = RunStarted(f"run {number}", Plan("model", tools), (user("hello"),))
        await keep(journal, f"run {number}", [begun, END])
        assert await journal.read(f"run {number}") == [begun, END]
    await journal.close()
    assert count(path)["value"] == 1
    assert stored_bytes(path) < 10_000


async def test_a_large_value_is_stored_once(path: Path) -> None:
    journal = SqliteJournal(path)
    content = "row after row " * 10_000
    picture = UserTurn((Image(f"data:image/png;base64,{'A' * 100_000}"),))
    runs: dict[str, list[Event]] = {}
    for number in range(5):
        run = f"run {number}"
        answer = AssistantTurn((Text("word by word " * 10_000),))
        runs[run] = [
            RunStarted(run, Plan("model"), (user(f"a chat of its own, number {number}"), picture)),
            ToolFinished(ToolResult("call_1", content), at=float(number)),
            ToolFinished(ToolResult("call_1", content, failed=True)),
            ModelFinished(answer, at=float(number)),
            END,
        ]
        await keep(journal, run, runs[run])
    for run, events in runs.items():
        assert await journal.read(run) == events
    await journal.close()
    assert count(path)["value"] == 4
    assert stored_bytes(path) < 600_000


async def test_a_run_that_is_refused_leaves_nothing_behind(path: Path) -> None:
    journal = SqliteJournal(path)
    await keep(journal, "a", [start("a"), END])
    before = count(path)
    journal.append("a", [start("a", *["more " * 500] * 5), ToolFinished(ToolResult("call_1", "x" * 100_000))])
    with pytest.raises(Exception, match="written by another"):
        await journal.barrier("a")
    assert count(path) == before
    journal.append("b", [start("b", *["more " * 500] * 5)])  # what the refused one had put there is not counted on
    await journal.barrier("b")
    assert await journal.read("b") == [start("b", *["more " * 500] * 5)]
    await journal.close()


# ---- limits ------------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def large(run: str, *more: str) -> RunStarted:
    return start(run, *[f"{n} more " * 500 for n in range(5)], *more)


async def test_runs_are_forgotten_by_age_and_so_is_what_only_they_used(path: Path) -> None:
    clock = Clock()
    journal = SqliteJournal(path, max_age=100, now=clock)
    result = ToolFinished(ToolResult("call_1", "x" * 100_000))
    await keep(journal, "old", [large("old", "an end of its own"), result, END])
    await keep(journal, "old, driven", [start("old, driven")], release=False)
    await keep(journal, "old, left", [start("old, left")])
    journal.append("old, calls", [start("old, calls"), END])
    journal.expect("ada", ["call_1"], "old, calls")
    await journal.barrier("old, calls")
    await keep(journal, "ended later", [large("ended later")], release=False)
    clock.time += 101
    await keep(journal, "young", [start("young"), END])
    await keep(journal, "young, left", [start("young, left")])
    journal.append("ended later", [END])
    await journal.barrier("ended later")

    await journal.prune()

    kept = ("old, driven", "ended later", "young", "young, left")
    assert [len(await journal.read(run)) for run in kept] == [1, 2, 2, 1]
    assert [await journal.read(run) for run in ("old", "old, left", "old, calls")] == [[], [], []]
    assert await journal.read("ended later") == [large("ended later"), END]  # it shared its turns with "old"
    assert await journal.runs_of_calls("ada", ["call_1"]) == {}
    assert count(path) == {"run": 4, "event": 5, "turn": 5, "value": 0, "run_value": 0, "call": 0}
    await journal.close()


async def test_a_run_that_ends_while_others_are_forgotten_is_as_young_as_its_end(path: Path) -> None:
    clock = Clock()
    journal = SqliteJournal(path, now=clock)
    await keep(journal, "ends now", [start("ends now")], release=False)
    clock.time += 101
    await keep(journal, "last", [start("last"), END])
    pruning = connect(str(path))

    def end_it(statement: str) -> None:
        """Between the look for old runs and the transaction that forgets them."""
        if statement == "BEGIN IMMEDIATE":
            with closing(connect(str(path))) as db:
                db.execute("UPDATE run SET ended = ?, writer = NULL WHERE name = 'ends now'", (clock.time,))

    pruning.set_trace_callback(end_it)
    forgotten = prune(pruning, max_age=100, max_bytes=None, now=clock.time, is_driven=lambda writer: True)
    pruning.close()

    assert forgotten == 0
    assert count(path)["run"] == 2
    await journal.close()


async def test_what_a_younger_run_shares_is_not_forgotten(path: Path) -> None:
    clock = Clock()
    journal = SqliteJournal(path, max_age=100, now=clock)
    tools = tuple([ToolSpec(f"tool_{n}", "does something useful " * 10) for n in range(20)])
    picture = UserTurn((Image(f"data:image/png;base64,{'A' * 100_000}"),))

    def events(run: str) -> list[Event]:
        begun = RunStarted(run, Plan("model", tools), (user(f"a beginning of its own: {run}"), picture))
        return [begun, ToolFinished(ToolResult("call_1", "row after row " * 10_000)), END]

    await keep(journal, "old", events("old"))
    clock.time += 101
    await keep(journal, "young", events("young"))
    await keep(journal, "youngest", [start("youngest"), END])
    await journal.prune()
    assert await journal.read("old") == []
    assert await journal.read("young") == events("young")
    assert count(path) == {"run": 2, "event": 2, "turn": 2, "value": 3, "run_value": 1, "call": 0}
    clock.time += 101
    await keep(journal, "new", [start("new"), END])
    await journal.prune()
    assert count(path) == {"run": 1, "event": 1, "turn": 0, "value": 0, "run_value": 0, "call": 0}
    await journal.close()


async def test_one_owner_does_not_erase_the_runs_of_another(path: Path) -> None:
    journal = SqliteJournal(path, max_bytes=2_000_000)

    async def keep_of(owner: str, run: str) -> None:
        begun = RunStarted(run, Plan("model"), (user(run),), owner=owner)
        await keep(journal, run, [begun, ToolFinished(ToolResult("call_1", f"{run} " * 8_000)), END])

    for number in range(5):
        await keep_of("ann", f"a{number:03}")
    for number in range(100):
        await keep_of("bob", f"b{number:03}")
    await journal.prune()
    anns = [bool(await journal.read(f"a{number:03}")) for number in range(5)]
    bobs = [bool(await journal.read(f"b{number:03}")) for number in range(100)]
    await journal.close()

    assert all(anns)
    assert 0 < sum(bobs) < 60
    assert not any(bobs[:40])
    assert bobs[-1]


async def test_one_owner_has_a_bound_of_its_own(path: Path) -> None:
    journal = SqliteJournal(path, owner_bytes=100_000)
    for owner, runs in (("ann", 2), ("bob", 20)):
        for number in range(runs):
            begun = RunStarted(f"{owner}{number:02}", Plan("model"), (user("hi"),), owner=owner)
            await keep(journal, begun.run, [begun, ToolFinished(ToolResult("call_1", "x" * 20_000)), END])
    await journal.prune()
    left = {owner: (await journal.list_runs(RunQuery(owner, limit=50))).runs for owner in ("ann", "bob")}
    await journal.close()

    assert len(left["ann"]) == 2
    assert 3 <= len(left["bob"]) <= 5


async def test_a_clock_that_is_ahead_makes_no_run_old_at_once_not_even_at_the_next_start(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, day = Clock(), 86400.0
    journal = SqliteJournal(path, max_age=30 * day, now=clock)
    for number in range(20):
        await keep(journal, f"run {number:02}", [start(f"run {number:02}"), END])
    clock.time += 40 * day
    await keep(journal, "new", [start("new"), END])
    await journal.close()
    journal = SqliteJournal(path, max_age=30 * day, now=clock)
    await keep(journal, "newer", [start("newer"), END])
    forgotten = await journal.prune()
    await journal.close()

    assert forgotten == 0
    assert "days ahead" in caplog.text


async def test_the_oldest_finished_runs_are_forgotten_when_there_is_too_much(path: Path) -> None:
    journal = SqliteJournal(path, max_bytes=2_000_000)
    await keep(journal, "left", [start("left")])
    for number in range(60):
        run = f"run {number:02}"
        await keep(journal, run, [start(run), ToolFinished(ToolResult("call_1", f"{number} " * 20_000)), END])
    await journal.prune()
    await journal.close()
    assert file_bytes(path) <= 2_000_000
    journal = SqliteJournal(path)
    left = [number for number in range(60) if await journal.read(f"run {number:02}")]
    assert left == list(range(60 - len(left), 60))
    assert len(left) > 5
    assert await journal.read("left") == [start("left")]
    await journal.close()


async def test_pruning_happens_without_asking(path: Path) -> None:
    """At the start, and when enough was written."""
    clock = Clock()
    journal = SqliteJournal(path, now=clock)
    for number in range(10):
        await keep(journal, f"run {number}", [start(f"run {number}"), *finish()])
    await journal.close()
    clock.time += 101
    journal = SqliteJournal(path, max_age=100, now=clock)
    await keep(journal, "new", [start("new"), *finish()])
    await journal.close()  # waits for what is under way
    assert count(path)["run"] == 1


async def test_pruning_in_memory_keeps_what_is_shared() -> None:
    clock = Clock()
    journal = SqliteJournal(":memory:", max_age=100, now=clock)
    await keep(journal, "old", [large("old"), END])
    clock.time += 101
    await keep(journal, "new", [large("new", "and on"), END])
    await journal.prune()
    assert await journal.read("old") == []
    await keep(journal, "newer", [large("newer"), END])
    assert await journal.read("new") == [large("new", "and on"), END]
    assert await journal.read("newer") == [large("newer"), END]
    await journal.close()
