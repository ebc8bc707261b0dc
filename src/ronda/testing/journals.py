"""What every journal promises, as tests that the author of a store can run with pytest and pytest-asyncio.

    class TestMine(DurableJournalContract):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path / "journal"

        async def open(self):
            return MyJournal(self.path)

`open` gives a journal on the test's own store, empty at first; opened again, before or after the first one is closed, it is
the same store. A journal that forgets when it is closed keeps `JournalContract`; one that does not, `DurableJournalContract`.
Previews may be kept or not. Needs `asyncio_mode = "auto"`, or `pytestmark = pytest.mark.asyncio` in your module.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from ronda.core.events import (
    PREVIEWS,
    Event,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    Recovered,
    RunStarted,
    TextDelta,
    ToolFinished,
    Warned,
)
from ronda.core.parts import AssistantTurn, Image, Text, ToolCall, ToolResult, Usage, UserTurn, user
from ronda.core.plan import Plan, ToolSpec
from ronda.errors import ProtocolError
from ronda.journal import Journal, JournalConflict, UnfinishedRun
from ronda.testing.facts import FILE, SCHEMA, STRANGE, every_fact, finish, start
from ronda.testing.run_lists import RunListContract


def _facts(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if type(event) not in PREVIEWS]


async def _begin(journal: Journal, event: RunStarted) -> None:
    journal.append(event.run, [event])
    await journal.barrier(event.run)


class JournalContract(RunListContract):
    """For any journal."""

    @abstractmethod
    async def open(self) -> Journal:
        """A journal on this test's own store."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Journal]:
        journal = await self.open()
        try:
            yield journal
        finally:
            await journal.close()

    # ---- what is written is read -------------------------------------------------------------------------------------

    async def test_01_events_come_back_in_order(self) -> None:
        async with self.opened() as journal:
            await _begin(journal, start("a"))
            journal.append("a", [ModelStarted(0)])
            journal.append("a", finish())
            await journal.barrier("a")
            assert _facts(await journal.read("a")) == [start("a"), ModelStarted(0), *finish()]

    async def test_02_every_kind_of_fact_comes_back_equal(self) -> None:
        async with self.opened() as journal:
            journal.append("a", every_fact("a"))
            await journal.barrier("a")
            assert _facts(await journal.read("a")) == every_fact("a")

    async def test_03_large_things_come_back_equal(self) -> None:
        tools = tuple([ToolSpec(f"tool_{n}", "does something useful " * 10, SCHEMA) for n in range(50)])
        turns = tuple([user(f"{n} " * 500) for n in range(100)])
        turns += (UserTurn((Text("see"), Image(f"data:image/png;base64,{'A' * 200_000}"))),)
        answer = AssistantTurn((Text("long " * 50_000), ToolCall("call_1", "tool_1", "{}")), "tool_calls")
        events: list[Event] = [
            RunStarted("a", Plan("model", tools), turns),
            ModelStarted(0),
            ModelFinished(answer, Usage(1, 2), at=3.0),
            ToolFinished(ToolResult("call_1", STRANGE * 5000, failed=True), at=4.0),
            ModelInterrupted(answer, "broke off", at=5.0),
        ]
        async with self.opened() as journal:
            for name in ("a", "b"):  # twice: the second may share what the first has stored
                journal.append(name, events)
                await journal.barrier(name)
                assert _facts(await journal.read(name)) == events

    async def test_04_reading_sees_what_was_appended_without_a_barrier(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a")])
            assert _facts(await journal.read("a")) == [start("a")]

    async def test_05_a_run_that_is_not_known_is_empty(self) -> None:
        async with self.opened() as journal:
            assert await journal.read("a") == []
            assert await journal.resume("a") == []
            assert await journal.runs_of_calls("", ["call_1"]) == {}
            assert await journal.unfinished_runs() == []
            await journal.barrier("a")
            journal.release("a")
            journal.append("a", [start("a")])  # what is not there has no writer
            await journal.barrier("a")

    async def test_06_what_was_read_is_the_readers_own(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a")])
            (await journal.read("a")).clear()
            assert _facts(await journal.read("a")) == [start("a")]

    async def test_07_previews_and_empty_batches_change_nothing(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a")])
            journal.append("a", [TextDelta("do"), TextDelta("ne")])
            journal.append("a", [])
            journal.append("a", finish())
            await journal.barrier("a")
            assert _facts(await journal.read("a")) == [start("a"), *finish()]

    async def test_08_runs_do_not_mix(self) -> None:
        names = [f"run {n}" for n in range(20)] + ["", "RUN 1", "run 1 ", STRANGE]
        async with self.opened() as journal:

            async def drive(name: str) -> None:
                journal.append(name, [start(name, name)])
                for number in range(5):
                    journal.append(name, [Warned(f"{name} {number}")])
                    await journal.barrier(name)

            await asyncio.gather(*[drive(name) for name in names])
            for name in names:
                events = [Warned(f"{name} {number}") for number in range(5)]
                assert _facts(await journal.read(name)) == [start(name, name), *events]

    async def test_09_a_barrier_that_is_cancelled_disturbs_nobody(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a")])
            journal.append("b", [start("b")])
            waiting = [asyncio.create_task(journal.barrier(name)) for name in ("a", "b")]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.wait(waiting)
            assert waiting[1].exception() is None
            journal.append("a", finish())
            await journal.barrier("a")
            assert _facts(await journal.read("a")) == [start("a"), *finish()]

    # ---- who drives a run --------------------------------------------------------------------------------------------

    async def test_10_a_run_starts_once(self) -> None:
        async with self.opened() as journal:
            await _begin(journal, start("a", "first"))
            with pytest.raises(JournalConflict):
                await _begin(journal, start("a", "second"))
            assert _facts(await journal.read("a")) == [start("a", "first")]

    async def test_11_nor_does_it_start_again_after_it_was_released(self) -> None:
        async with self.opened() as journal:
            await _begin(journal, start("a", "first"))
            journal.release("a")
            with pytest.raises(JournalConflict):
                await _begin(journal, start("a", "second"))
            assert _facts(await journal.read("a")) == [start("a", "first")]

    async def test_12_only_a_held_run_takes_events(self) -> None:
        async with self.opened() as journal:
            with pytest.raises(ProtocolError):
                journal.append("a", finish())
            await _begin(journal, start("a"))
            journal.release("a")
            with pytest.raises(ProtocolError):
                journal.append("a", finish())
            with pytest.raises(ProtocolError):
                journal.expect("", ["call_1"], "a")

    async def test_13_a_run_is_resumed_where_it_ended(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a"), ModelStarted(0)])
            journal.release("a")  # without a barrier: what was appended is kept anyway
            assert _facts(await journal.resume("a")) == [start("a"), ModelStarted(0)]
            journal.append("a", finish())
            await journal.barrier("a")
            journal.release("a")
            assert _facts(await journal.read("a")) == [start("a"), ModelStarted(0), *finish()]

    async def test_14_a_run_that_is_driven_cannot_be_resumed(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a")])
            with pytest.raises(JournalConflict):
                await journal.resume("a")
            journal.release("a")
            await journal.resume("a")
            with pytest.raises(JournalConflict):
                await journal.resume("a")

    async def test_15_a_conflict_disturbs_no_other_run(self) -> None:
        async with self.opened() as journal:
            await _begin(journal, start("taken"))
            journal.release("taken")

            async def drive(name: str) -> None:
                journal.append(name, [start(name, "again")])
                await journal.barrier(name)

            names = ["a", "taken", "b"]
            ends = await asyncio.gather(*[drive(name) for name in names], return_exceptions=True)
            assert [type(end) for end in ends] == [type(None), JournalConflict, type(None)]
            for name in ("a", "b"):
                assert _facts(await journal.read(name)) == [start(name, "again")]
            assert _facts(await journal.read("taken")) == [start("taken")]

    async def test_16_unfinished_are_those_that_nobody_drives_and_that_have_no_end(self) -> None:
        async with self.opened() as journal:
            for name in ("driven", "left", "finished"):
                journal.append(name, [start(name)])
            journal.append("left", [ModelStarted(0)])
            journal.append("finished", finish())
            journal.release("left")
            journal.release("finished")
            assert await journal.unfinished_runs() == [UnfinishedRun("left", 2, start("left"))]

    # ---- the callers' calls ------------------------------------------------------------------------------------------

    async def test_17_a_call_is_found_by_its_owner_only(self) -> None:
        async with self.opened() as journal:
            for owner in ("ada", "bob", STRANGE):
                journal.append(f"of {owner}", [start(f"of {owner}", owner=owner)])
                journal.expect(owner, ["call_1", f"only {owner}"], f"of {owner}")
            assert await journal.runs_of_calls("ada", ["call_1"]) == {"call_1": "of ada"}
            assert await journal.runs_of_calls("bob", ["call_1"]) == {"call_1": "of bob"}
            assert await journal.runs_of_calls(STRANGE, [f"only {STRANGE}"]) == {f"only {STRANGE}": f"of {STRANGE}"}
            assert await journal.runs_of_calls("bob", ["only ada"]) == {}
            assert await journal.runs_of_calls("eve", ["call_1"]) == {}
            several = ["call_1", "only ada", "only bob", "\ud800", *[f"other {index}" for index in range(2000)]]
            assert await journal.runs_of_calls("ada", several) == {"call_1": "of ada", "only ada": "of ada"}
            assert await journal.runs_of_calls("ada", []) == {}

    async def test_18_of_two_runs_that_expect_a_call_the_newer_wins(self) -> None:
        async with self.opened() as journal:
            for name in ("a", "b"):
                journal.append(name, [start(name)])
                journal.expect("ada", ["call_1"], name)
                await journal.barrier(name)
            assert await journal.runs_of_calls("ada", ["call_1"]) == {"call_1": "b"}

    # ---- forgetting --------------------------------------------------------------------------------------------------

    async def test_19_a_forgotten_run_is_gone_with_its_calls_and_no_other_is(self) -> None:
        long = "shared " * 5000  # long enough to be kept apart by stores that do such a thing
        async with self.opened() as journal:
            for name in ("a", "b"):
                journal.append(name, [start(name, long), *finish()])
                journal.expect("ada", [f"call of {name}"], name)
                journal.release(name)
            assert await journal.forget("b")
            assert await journal.read("b") == []
            assert await journal.resume("b") == []
            assert await journal.runs_of_calls("ada", ["call of b"]) == {}
            assert _facts(await journal.read("a")) == [start("a", long), *finish()]
            assert await journal.runs_of_calls("ada", ["call of a"]) == {"call of a": "a"}
            journal.append("b", [start("b", long)])  # its name is free again, and what it shared can be said anew
            await journal.barrier("b")
            assert _facts(await journal.read("b")) == [start("b", long)]
            assert _facts(await journal.read("a")) == [start("a", long), *finish()]

    async def test_20_what_is_not_known_or_still_driven_is_not_forgotten(self) -> None:
        async with self.opened() as journal:
            assert not await journal.forget("a")
            assert not await journal.forget(STRANGE)
            journal.append("a", [start("a")])
            with pytest.raises(JournalConflict):
                await journal.forget("a")
            journal.release("a")
            assert await journal.forget("a")
            assert not await journal.forget("a")
            assert await journal.unfinished_runs() == []

    async def test_29_a_file_that_runs_share_is_there_for_as_long_as_one_of_them(self) -> None:
        async with self.opened() as journal:
            starts = {name: replace(start(name), file=FILE) for name in ("a", "b")}
            for name, first in starts.items():
                journal.append(name, [first, *finish()])
                journal.release(name)
            assert await journal.forget("a")
            assert _facts(await journal.read("b")) == [starts["b"], *finish()]
            journal.append("a", [starts["a"]])
            await journal.barrier("a")
            assert _facts(await journal.read("a")) == [starts["a"]]

    async def test_30_what_is_shown_of_a_run_that_outlives_its_process_is_kept_until_it_is_over(self) -> None:
        shown: list[Event] = [TextDelta("do"), TextDelta(""), TextDelta("do")]
        async with self.opened() as journal:
            journal.append("a", [start("a", outlives=True), ModelStarted(0)])
            journal.append("a", shown[:2])
            journal.append("a", shown[2:])
            assert await journal.previews("a") == {1: shown}
            journal.append("a", [ModelRetried(2, 3, "busy")])
            journal.append("a", shown[:1])
            await journal.barrier("a")
            assert await journal.previews("a") == {1: shown, 2: shown[:1]}
            journal.append("a", [*finish()[:1], ModelStarted(1)])
            journal.append("a", shown)
            all_shown = {1: shown, 2: shown[:1], 4: shown}
            assert await journal.previews("a") == all_shown
            journal.append("a", finish())
            assert await journal.previews("a") in (all_shown, {})  # then it may be kept or not
            assert len(await journal.read("a")) == 7

    async def test_31b_whoever_looks_often_sees_that_a_run_has_grown(self) -> None:
        async with self.opened() as journal:
            seen = [await journal.extent("a")]
            journal.append("a", [replace(start("a"), outlives=True)])
            seen.append(await journal.extent("a"))
            assert await journal.extent("a") == seen[-1]
            journal.append("a", [ModelStarted(0)])
            seen.append(await journal.extent("a"))
            journal.append("a", [TextDelta("x")])
            grown = await journal.extent("a")
            assert grown[0] == seen[-1][0]
            assert grown[1] != seen[-1][1]
            assert len({facts for facts, _ in seen}) == 3
            assert await journal.extent("\ud800") == (0, 0)

    async def test_31_of_other_runs_no_previews_are_kept(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a"), ModelStarted(0)])
            journal.append("a", [TextDelta("do")])
            assert await journal.previews("a") == {}
            assert await journal.previews("not known") == await journal.previews("\ud800") == {}


class DurableJournalContract(JournalContract):
    """For a journal whose store outlives it, and which several processes may open at once."""

    async def test_21_what_was_kept_is_there_when_opened_again(self) -> None:
        async with self.opened() as journal:
            journal.append("a", every_fact("a"))
            journal.expect("ada", ["call_1"], "a")
            await journal.barrier("a")
            journal.release("a")
        async with self.opened() as journal:
            assert _facts(await journal.read("a")) == every_fact("a")
            assert await journal.runs_of_calls("ada", ["call_1"]) == {"call_1": "a"}
            assert await journal.unfinished_runs() == []

    async def test_22_closing_keeps_what_no_barrier_has_waited_for(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a")])
            journal.expect("ada", ["call_1"], "a")
        async with self.opened() as journal:
            assert _facts(await journal.read("a")) == [start("a")]
            assert await journal.runs_of_calls("ada", ["call_1"]) == {"call_1": "a"}

    async def test_23_a_run_that_was_cut_off_is_found_and_goes_on(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [start("a"), ModelStarted(0)])
        async with self.opened() as journal:
            assert await journal.unfinished_runs() == [UnfinishedRun("a", 2, start("a"))]
            assert _facts(await journal.resume("a")) == [start("a"), ModelStarted(0)]
            assert await journal.unfinished_runs() == []
            journal.append("a", finish())
            await journal.barrier("a")
            assert _facts(await journal.read("a")) == [start("a"), ModelStarted(0), *finish()]

    async def test_24_what_one_keeps_another_reads(self) -> None:
        async with self.opened() as one, self.opened() as other:
            one.append("a", [start("a")])
            one.expect("ada", ["call_1"], "a")
            await one.barrier("a")
            assert _facts(await other.read("a")) == [start("a")]
            assert await other.runs_of_calls("ada", ["call_1"]) == {"call_1": "a"}

    async def test_25_a_run_that_one_drives_is_not_for_another(self) -> None:
        async with self.opened() as one, self.opened() as other:
            one.append("a", [start("a")])
            await one.barrier("a")
            assert await other.unfinished_runs() == []
            with pytest.raises(JournalConflict):
                await other.resume("a")
            one.release("a")
            await one.barrier("a")
            assert await other.unfinished_runs() == [UnfinishedRun("a", 1, start("a"))]
            assert _facts(await other.resume("a")) == [start("a")]
            with pytest.raises(JournalConflict):
                await one.resume("a")

    async def test_26_of_two_that_start_a_run_one_wins(self) -> None:
        async with self.opened() as one, self.opened() as other:
            one.append("a", [start("a", "one")])
            other.append("a", [start("a", "other")])
            other.append("b", [start("b")])
            outcomes = await asyncio.gather(one.barrier("a"), other.barrier("a"), return_exceptions=True)
            has_one_won = outcomes[0] is None  # nearly always; but the order of writers is not fixed
            assert [type(error) for error in outcomes if error is not None] == [JournalConflict]
            with pytest.raises(JournalConflict):  # and again: it must not be overheard
                await (other if has_one_won else one).barrier("a")
            await other.barrier("b")
            assert _facts(await one.read("a")) == [start("a", "one" if has_one_won else "other")]
            assert _facts(await one.read("b")) == [start("b")]

    async def test_27_two_can_write_at_once(self) -> None:
        async with self.opened() as one, self.opened() as other:

            async def drive(journal: Journal, name: str) -> None:
                journal.append(name, [start(name, name * 3000)])
                for number in range(20):
                    journal.append(name, [Warned(str(number))])
                    await journal.barrier(name)

            await asyncio.gather(drive(one, "a"), drive(other, "b"), drive(one, "c"))
            events = [Warned(str(number)) for number in range(20)]
            for name in ("a", "b", "c"):
                assert _facts(await other.read(name)) == [start(name, name * 3000), *events]

    async def test_28_a_forgotten_run_stays_forgotten(self) -> None:
        async with self.opened() as one, self.opened() as other:
            for name in ("a", "b", "c"):
                one.append(name, [start(name), *finish()])
                one.release(name)
            one.append("driven", [start("driven")])
            await one.barrier("driven")
            with pytest.raises(JournalConflict):
                await other.forget("driven")
            assert await other.forget("a")
            assert await other.forget("c")
            assert await one.read("a") == []
        async with self.opened() as journal:
            assert await journal.read("c") == []
            assert _facts(await journal.read("b")) == [start("b"), *finish()]

    async def test_32_what_was_shown_of_a_run_that_was_cut_off_is_there_when_it_goes_on(self) -> None:
        shown: list[Event] = [TextDelta("do"), TextDelta("ne")]
        async with self.opened() as journal:
            journal.append("a", [start("a", outlives=True), ModelStarted(0)])
            journal.append("a", shown)
        async with self.opened() as journal:
            for _ in range(2):  # who only looks changes nothing
                assert len(await journal.resume("a")) == 2
                journal.release("a")
                assert await journal.previews("a") == {1: shown}
            await journal.resume("a")
            journal.append("a", [Recovered()])
            journal.append("a", shown)
            assert await journal.previews("a") == {1: shown, 2: shown}
            journal.release("a")
            assert await journal.forget("a")
            assert await journal.previews("a") == {}
