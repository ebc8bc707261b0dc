"""The memory journal: the contract, and what it forgets."""

from __future__ import annotations

from ronda.core.events import ModelFinished, RunFinished
from ronda.core.parts import AssistantTurn, Text
from ronda.journal.memory import MemoryJournal
from ronda.testing.facts import finish, start
from ronda.testing.journals import JournalContract


class TestMemoryJournal(JournalContract):
    async def open(self) -> MemoryJournal:
        return MemoryJournal()


async def lengths(journal: MemoryJournal, *runs: str) -> list[int]:
    return [len(await journal.read(run)) for run in runs]


async def test_the_oldest_finished_run_is_forgotten_first() -> None:
    journal = MemoryJournal(max_runs=3)
    for name in ("driven", "left", "first", "second"):
        journal.append(name, [start(name)])
        journal.expect("ada", [f"call of {name}"], name)
        if name in ("first", "second"):
            journal.append(name, finish())
        if name != "driven":
            journal.release(name)
    assert await lengths(journal, "driven", "left", "first", "second") == [1, 1, 0, 3]
    assert await journal.runs_of_calls("ada", ["call of first"]) == {}
    assert await journal.runs_of_calls("ada", ["call of second"]) == {"call of second": "second"}
    for name in ("third", "fourth"):  # no finished ones are left for the last of them
        journal.append(name, [start(name)])
    assert await lengths(journal, "driven", "left", "second", "third", "fourth") == [1, 0, 0, 1, 1]


async def test_a_run_under_way_is_never_forgotten() -> None:
    journal = MemoryJournal(max_runs=2)
    names = [f"run {n}" for n in range(5)]
    for name in names:
        journal.append(name, [start(name)])
    assert await lengths(journal, *names) == [1] * 5
    for name in names:
        journal.append(name, finish())
    journal.append("one more", [start("one more")])
    assert await lengths(journal, *names, "one more") == [0, 0, 0, 0, 3, 1]


async def test_a_call_that_a_newer_run_expects_outlives_the_older_run() -> None:
    journal = MemoryJournal(max_runs=2)
    for name in ("old", "new", "newest"):
        journal.append(name, [start(name)])
        if name != "newest":
            journal.expect("ada", ["call_1"], name)
        journal.append(name, finish())
    assert await lengths(journal, "old", "new") == [0, 3]
    assert await journal.runs_of_calls("ada", ["call_1"]) == {"call_1": "new"}


async def test_runs_that_are_over_share_a_bound_of_bytes() -> None:
    journal = MemoryJournal(max_bytes=10_000)
    for name in ("a", "b", "c"):
        journal.append(name, [start(name)])
        journal.append(name, [ModelFinished(AssistantTurn((Text("x" * 4_000),)))])
    for name in ("a", "b", "c"):
        journal.append(name, [RunFinished("stop")])
        journal.release(name)

    assert [bool(await journal.read(name)) for name in ("a", "b", "c")] == [False, True, True]

    journal.append("large", [start("large"), ModelFinished(AssistantTurn((Text("x" * 40_000),))), RunFinished("stop")])

    assert [bool(await journal.read(name)) for name in ("b", "c", "large")] == [False, False, True]
