"""The list of what waits for people is answered from what the journal has noted: not by reading every run that waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interaction.doors import Door
from tests.server.approval_doors import pause, post_decision, waiting
from tests.server.approval_scripts import A_MOMENT, script, until_over
from tests.server.runs_door import Deleting

from ronda.core.events import Event
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.testing import ScriptedModel

RUNS = 50


class CountingMemory(MemoryJournal):
    reads = 0

    async def read(self, run: str) -> list[Event]:
        self.reads += 1
        return await super().read(run)


class CountingSqlite(SqliteJournal):
    reads = 0

    async def read(self, run: str) -> list[Event]:
        self.reads += 1
        return await super().read(run)


Counting = CountingMemory | CountingSqlite
JOURNALS: dict[str, Callable[[Path], Counting]] = {
    "memory": lambda folder: CountingMemory(),
    "sqlite": lambda folder: CountingSqlite(folder / "journal.db"),
}
OF_EACH_JOURNAL = pytest.mark.parametrize("make", JOURNALS.values(), ids=JOURNALS)


def _script(runs: int) -> ScriptedModel:
    return script(*[f"/{number}" for number in range(runs)])


@OF_EACH_JOURNAL
async def test_a_list_reads_no_run_that_waits(door: Door, tmp_path: Path, make: Callable[[Path], Counting]) -> None:
    journal, files = make(tmp_path), Deleting()
    async with door.serving(_script(RUNS), files.tool, journal=journal, approval_timeout=A_MOMENT) as served:
        asked = [(await pause(served, "chat", False)).approvals[0] for _ in range(RUNS)]
        journal.reads = 0
        listed = await waiting(served)
        assert journal.reads == 0

    shown = [{name: value for name, value in one.items() if name not in ("run_id", "created_at")} for one in listed]
    assert shown == asked[::-1]
    await journal.close()


@OF_EACH_JOURNAL
async def test_what_was_answered_is_not_listed(door: Door, tmp_path: Path, make: Callable[[Path], Counting]) -> None:
    journal, files = make(tmp_path), Deleting()
    async with door.serving(_script(2), files.tool, journal=journal, approval_timeout=A_MOMENT) as served:
        first, second = [(await pause(served, "chat", False)).ids[0] for _ in range(2)]
        by_id = {one["approval_id"]: one["run_id"] for one in await waiting(served)}
        assert await post_decision(served, second) == (200, {"status": "resolved"})
        await until_over(served, by_id[second])
        assert [one["approval_id"] for one in await waiting(served)] == [first]
    await journal.close()


async def test_a_run_of_before_the_notes_is_listed_from_its_events(door: Door, tmp_path: Path) -> None:
    """As an earlier Ronda has left it: it waits, and nothing is noted of what it asks."""
    journal, files = CountingSqlite(tmp_path / "journal.db"), Deleting()
    async with door.serving(_script(1), files.tool, journal=journal, approval_timeout=A_MOMENT) as served:
        await pause(served, "chat", False)
        noted = await waiting(served)
        journal._db.execute("UPDATE run SET questions = NULL")
        journal.reads = 0
        assert await waiting(served) == noted
        assert journal.reads == 1
    await journal.close()
