"""`around` and `tap` of a feature: at every door, for children, for runs that are taken up again, and in the library."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.interaction.doors import Door, Remembering, soon
from tests.interaction.every_door import NAMES, ask
from tests.interaction.test_background import begin
from tests.server.features.counting import Counting, Meter, counting
from tests.server.services.test_recovery import ended, kept

from ronda import Agent, resume_agent_async, run_agent_async, tool
from ronda.core.events import Event
from ronda.core.run import Run
from ronda.host.extension import Tap
from ronda.journal.memory import MemoryJournal
from ronda.providers.script import ScriptedModel, calls, says
from ronda.tools.function import as_tool


@tool
def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_each_model_call_and_each_fact_of_a_request_is_seen(door: Door, name: str, stream: bool) -> None:
    mine = counting()
    model = ScriptedModel(calls("lookup", q="x"), says("over"))
    async with door.serving(model, lookup, features=[mine]) as served:
        heard = await ask(served, name, stream)
        journaled = [[type(event).__name__ for event in events[1:]] for events in await served.events]

    assert heard.text == "over"
    assert list(mine.meter.calls.values()) == [2]
    assert list(mine.meter.facts.values()) == journaled


async def test_a_run_in_the_background_is_seen(door: Door) -> None:
    mine = counting()
    async with door.serving(ScriptedModel(says("over")), features=[mine]) as served, soon():
        later = await begin(served, "responses")
        await later.until("completed")

    assert list(mine.meter.calls.values()) == [1]


async def test_each_choice_is_seen(door: Door) -> None:
    mine = counting()
    async with door.serving(ScriptedModel(says("a"), says("b")), features=[mine]) as served:
        await served.ask(stream=False, n=2)

    assert sorted(mine.meter.calls.values()) == [1, 1]


async def test_a_child_has_what_its_parent_has(door: Door) -> None:
    mine = counting()
    child = as_tool(Agent(ScriptedModel(says("child")), name="helper"))
    async with door.serving(ScriptedModel(calls("helper", input="do"), says("over")), child, features=[mine]) as served:
        await served.ask(stream=True)
        runs = [events[0] for events in await served.events]

    assert [mine.meter.calls[run.run] for run in runs if hasattr(run, "run")] == [2, 1]
    assert [facts[-1] for facts in mine.meter.facts.values()] == ["RunFinished", "RunFinished"]


async def test_a_run_that_another_process_left_is_seen(door: Door) -> None:
    mine, journal = counting(), Remembering()
    [run] = await kept(door, journal, 1)
    async with door.serving(ScriptedModel(says("again")), journal=journal, features=[mine]) as served, soon():
        served.server.open()
        assert await ended(served, run) == ("finished", "again")

    assert mine.meter.calls == {run: 1}
    assert mine.meter.facts[run][-1] == "RunFinished"


async def test_the_end_of_a_session_is_told_once_it_is_journaled(door: Door) -> None:
    written: list[Event] = []
    seen: list[bool] = []

    class Writes(Remembering):
        def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
            super().append(run, events, size)
            written.extend(events)

    class Looks(Counting):
        meter = Meter()

        def tap(self, run: Run) -> Tap | None:
            def take(batch: Sequence[Event]) -> None:
                seen.append(written[-len(batch) :] == list(batch))

            return take

    async with door.serving(ScriptedModel(says("over")), journal=Writes(), features=[Looks]) as served:
        await served.ask(stream=True, session_id="s")

    assert seen
    assert all(seen)


async def test_a_tap_that_fails_is_logged_and_the_run_goes_on(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Counting):
        meter = Meter()

        def tap(self, run: Run) -> Tap | None:
            def take(batch: Sequence[Event]) -> None:
                raise KeyError("broken")

            return take

    async with door.serving(ScriptedModel(says("over")), features=[Broken]) as served:
        said = await served.ask(stream=True)

    assert said.content == "over"
    assert caplog.text.count("is told no more of it") == 1


# ---- the library -----------------------------------------------------------------------------------------------------


async def test_the_library_has_them_and_its_children_too() -> None:
    meter, journal = Meter(), MemoryJournal()
    helper = Agent(ScriptedModel(says("child")), name="helper")
    boss = Agent(ScriptedModel(calls("helper", input="do"), says("over")), tools=[helper])

    result = await run_agent_async(boss, "go", journal=journal, extensions=[meter])

    assert result.output == "over"
    assert sorted(meter.calls.values()) == [1, 2]
    assert all(facts[-1] == "RunFinished" for facts in meter.facts.values())


async def test_the_library_has_them_without_a_journal() -> None:
    meter = Meter()
    await run_agent_async(Agent(ScriptedModel(says("over"))), "go", extensions=[meter])
    assert [facts[-1] for facts in meter.facts.values()] == ["RunFinished"]


async def test_a_run_of_the_library_that_is_resumed_has_them() -> None:
    @tool(approval="ask")
    def send() -> str:
        """Send."""
        return "sent"

    meter, journal = Meter(), MemoryJournal()
    agent = Agent(ScriptedModel(calls("send"), says("over")), tools=[send])
    first = await run_agent_async(agent, "go", journal=journal)
    await resume_agent_async(
        first.run_id, {first.questions[0].id: True}, journal=journal, agent=agent, extensions=[meter]
    )

    assert meter.calls == {first.run_id: 1}


async def test_what_is_no_extension_is_refused_by_name() -> None:
    with pytest.raises(Exception, match="extensions"):
        await run_agent_async(Agent(ScriptedModel(says("x"))), "go", extensions=["meter"])  # type: ignore[list-item]
