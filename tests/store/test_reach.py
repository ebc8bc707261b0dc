"""For how long a database is away, as its probe and its transactions see it."""

from __future__ import annotations

import asyncio

import pytest
from tests.timeouts import soon

from ronda import Agent, invoke_agent_async, tool
from ronda.store.reach import DatabaseAway, Reach
from ronda.testing import ScriptedModel, calls, says

PLACE = "postgresql://db.internal:5432/ronda"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reach(clock: Clock) -> Reach:
    return Reach(PLACE, 2.0, clock)


def test_a_database_that_nobody_asked_anything_is_not_away(reach: Reach, clock: Clock) -> None:
    clock.now += 1000
    reach.check()
    reach.asked()
    reach.answered()
    clock.now += 1000

    reach.check()


def test_it_is_away_from_the_first_question_without_an_answer(reach: Reach, clock: Clock) -> None:
    reach.asked()
    clock.now += 1.9
    reach.asked()  # the probe tries again
    reach.check()
    clock.now += 0.1

    with pytest.raises(DatabaseAway) as told:
        reach.check()
    assert (told.value.status_hint, told.value.retry_after) == (503, 2)
    assert "db.internal" in str(told.value)  # for the log
    assert "db.internal" not in told.value.public
    assert "5432" not in told.value.public


def test_a_probe_that_hangs_on_a_dead_connection_does_not_count_while_transactions_are_answered(
    reach: Reach, clock: Clock
) -> None:
    reach.asked()
    clock.now += 5
    reach.heard()
    reach.check()
    clock.now += 2

    assert reach.is_lost


async def test_who_waits_is_told_as_soon_as_the_patience_is_over() -> None:
    reach = Reach(PLACE, 0.01)
    reach.asked()

    with pytest.raises(DatabaseAway):
        async with soon():
            await reach.wait_for(asyncio.Event().wait())


async def test_what_is_done_in_time_is_done_and_its_own_timeouts_stay_its_own() -> None:
    reach = Reach(PLACE, 0.01)

    async def slow() -> None:
        raise TimeoutError("the disk")

    assert await reach.wait_for(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(TimeoutError, match="the disk"):
        await reach.wait_for(slow())


async def test_no_model_reads_the_address_of_a_store_that_a_tool_could_not_reach() -> None:
    @tool
    def read_file() -> str:
        """Read a file."""
        raise DatabaseAway(PLACE, "connection to server at db.internal failed")

    model = ScriptedModel(calls("read_file"), says("sorry"))
    await invoke_agent_async(Agent(model, tools=[read_file]), "go")

    assert "out of reach" in str(model.heard[1])
    assert "db.internal" not in str(model.heard[1])
