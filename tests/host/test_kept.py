"""What happens in a run that outlives its process is shown in its order, and nothing of it before the journal has it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from tests.timeouts import soon

from ronda.core.events import Event, ModelStarted, TextDelta, Warned
from ronda.host.durable_log import DurableLog
from ronda.host.log import Log
from ronda.journal.memory import MemoryJournal
from ronda.store import StoreError
from ronda.testing.facts import start

RUN = start("run_1", outlives=True)


class Slow(MemoryJournal):
    """Keeps things when it is told to; None: never again."""

    def __init__(self) -> None:
        super().__init__()
        self.append("run_1", [RUN])
        self.waiting_for: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def barrier(self, run: str) -> None:
        kept = asyncio.get_running_loop().create_future()
        self.waiting_for.put_nowait(kept)
        await kept


def seen(log: Log) -> list[Event]:
    follower = log.follow()
    events: list[Event] = []
    while batch := follower.pull():
        events += batch
    follower.close()
    return events[1:]


async def test_what_is_not_kept_is_not_shown() -> None:
    journal, log = Slow(), Log(RUN)
    kept = DurableLog(log, journal, "run_1")
    async with soon():
        kept.append([ModelStarted(0)])
        kept.show([TextDelta("Hel")])
        first = await journal.waiting_for.get()
        kept.show([TextDelta("lo")])
        second = await journal.waiting_for.get()
        assert seen(log) == []
        first.set_result(None)
        await asyncio.sleep(0)
        assert seen(log) == [ModelStarted(0), TextDelta("Hel")]
        second.set_result(None)
        await asyncio.sleep(0)
    assert seen(log) == [ModelStarted(0), TextDelta("Hel"), TextDelta("lo")]
    assert await journal.previews("run_1") == {0: [TextDelta("Hel"), TextDelta("lo")]}


async def test_what_a_journal_cannot_keep_is_never_shown() -> None:
    journal, log = Slow(), Log(RUN)
    kept = DurableLog(log, journal, "run_1")
    async with soon():
        kept.append([Warned("so")])
        (await journal.waiting_for.get()).set_exception(StoreError("journal.db", "the disk is full"))
        await asyncio.sleep(0)
    kept.append([Warned("and so on")])
    kept.close(is_broken=True)
    assert (seen(log), log.is_over, log.is_broken) == ([], True, True)


@given(st.lists(st.sampled_from(["show", "tell", "keep"]), max_size=30))
def test_all_of_it_is_shown_in_its_order(steps: list[str]) -> None:
    async def drive() -> tuple[list[Event], list[Event]]:
        journal, log = MemoryJournal(), Log(RUN)
        journal.append("run_1", [RUN])
        kept = DurableLog(log, journal, "run_1")
        told: list[Event] = []
        for at, step in enumerate(steps):
            if step == "keep":
                await kept.keep()
                assert seen(log) == told
            elif step == "show":
                told.append(TextDelta(str(at)))
                kept.show([TextDelta(str(at))])
            else:
                told.append(Warned(str(at)))
                kept.append([Warned(str(at))])
        kept.close(is_broken=False)
        return seen(log), told

    shown, told = asyncio.run(drive())
    assert shown == told
