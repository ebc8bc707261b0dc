"""Runs that no process drives: each is driven on by itself, whatever goes wrong with it or with another."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TypeVar

import aiohttp
import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Pauses, Remembering, Served, soon
from tests.interaction.test_background import begin
from tests.server.runs_door import HI, Deleting, asked_of, get, post, post_quietly
from tests.server.services.test_leaving import Gate

from ronda.core.events import Event, ModelFinished, Preview, RunStarted
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.store import StoreError
from ronda.store.memory import MemoryCatalog
from ronda.store.sql import Sql
from ronda.testing import Call, ScriptedModel, says
from ronda.testing import calls as asks

_T = TypeVar("_T")


class Odd(Remembering):
    """A journal in which something is wrong with the previews of some runs: as often as it is told."""

    def __init__(self, problem: Exception, times: int = 10**6) -> None:
        super().__init__()
        self.odd: set[str] | None = None  # None: all runs are
        self.problem = problem
        self.times = times

    async def previews(self, run: str, after: int = 0) -> dict[int, list[Preview]]:
        if self.times and (self.odd is None or run in self.odd):
            self.times -= 1
            raise self.problem
        return await super().previews(run, after)


def away() -> StoreError:
    return StoreError("somewhere", "it is away")


async def kept(door: Door, journal: Remembering, count: int) -> list[str]:
    """Runs that a process has left, one after the other."""
    async with door.serving(ScriptedModel(*[says("first")] * count)) as served, soon():
        for _ in range(count):
            await post_quietly(served, {"messages": HI})
        starts = [events[0] for events in await served.events]
    for start in starts:
        assert isinstance(start, RunStarted)
        journal.append(start.run, [replace(start, outlives=True)])
        journal.release(start.run)
    return journal.runs


async def ended(served: Served, run: str) -> tuple[str, str]:
    """How a run ended, when it has."""
    while (found := (await get(served, f"/runs/{run}"))[1])["state"] in ("queued", "running", "waiting"):
        pass
    return found["state"], found["result"]["text"] if found["state"] == "finished" else found["end"]["message"]


async def off_the_queue(served: Served) -> None:
    while (await get(served, "/runs?state=queued"))[1]["data"] or await served.server.catalog.queue.list(0.0):
        pass


# ---- a store that is away for a moment -------------------------------------------------------------------------------


async def test_a_background_run_outlasts_a_store_that_was_away_when_it_was_taken_up(door: Door) -> None:
    journal, pauses = Odd(away(), 1), Pauses()
    async with door.serving(ScriptedModel(says("over")), journal=journal, sleep=pauses) as served, soon():
        later = await begin(served, "responses")
        over = await later.until("completed", "failed")
        await off_the_queue(served)

    assert (over["status"], journal.times, pauses.asked) == ("completed", 0, [1.0])


async def test_an_approval_that_met_a_store_that_was_away_is_given_again(door: Door) -> None:
    files, journal = Deleting(), Odd(away(), 1)
    model = ScriptedModel(asks(Call("delete", {"path": "/a"})), says("Gone."))
    async with door.serving(model, files.tool, journal=journal, approval_timeout=0.01) as served, soon():
        await post_quietly(served, {"messages": HI})
        run, question = await asked_of(served)
        body = {"id": question["id"], "decision": "approve"}
        first, _ = await post(served, f"/runs/{run}/answer", body)
        second, _ = await post(served, f"/runs/{run}/answer", body)
        end = await ended(served, run)

    assert (first, second, end, files.deleted) == (503, 200, ("finished", "Gone."), ["/a"])


async def test_a_run_that_broke_because_a_store_was_away_goes_on(door: Door) -> None:
    """A barrier fails while a run that outlives its client is under way: the server is not started again, and it ends."""

    class Away(Remembering):
        is_away = False

        async def barrier(self, run: str) -> None:
            if self.is_away:
                self.is_away = False
                raise away()
            await super().barrier(run)

    class Tells(ScriptedModel):
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            if not self.heard:
                journal.is_away = True
            return await super().call(request, show)

    journal, pauses = Away(), Pauses()
    async with door.serving(Tells(says("one"), says("two")), journal=journal, sleep=pauses) as served, soon():
        later = await begin(served, "chat")
        over = await later.until("completed", "failed")

    assert (over["status"], pauses.asked) == ("completed", [1.0])


# ---- one odd run -----------------------------------------------------------------------------------------------------


async def test_an_odd_run_does_not_keep_others_from_going_on(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    journal, pauses = Odd(KeyError("no such thing")), Pauses(are_over=False)
    runs = await kept(door, journal, 3)
    journal.odd = {runs[0]}
    async with door.serving(ScriptedModel(*[says("again")] * 3), journal=journal, sleep=pauses) as served, soon():
        served.server.open()
        ends = [await ended(served, run) for run in runs[1:]]
        await pauses.until(60.0)
        _, odd = await get(served, f"/runs/{runs[0]}")

    assert (ends, odd["state"]) == ([("finished", "again")] * 2, "running")
    assert f"run {runs[0]} could not be taken up, and is tried again in 60 s" in caplog.text
    assert "no such thing" in caplog.text


async def test_an_odd_run_is_tried_again_after_a_while_and_then_ended_with_the_reason(door: Door) -> None:
    journal, pauses = Odd(KeyError("no such thing")), Pauses()
    [run] = await kept(door, journal, 1)
    async with door.serving(ScriptedModel(says("never")), journal=journal, sleep=pauses) as served, soon():
        served.server.open()
        end = await ended(served, run)

    assert pauses.asked[:3] == [60.0, 300.0, 1800.0]
    assert end == ("failed", "it could not be driven on: KeyError: 'no such thing'")


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_an_odd_run_goes_on_as_soon_as_it_can(door: Door, times: int) -> None:
    journal, pauses = Odd(KeyError("no such thing"), times), Pauses()
    [run] = await kept(door, journal, 1)
    async with door.serving(ScriptedModel(says("again")), journal=journal, sleep=pauses) as served, soon():
        served.server.open()
        end = await ended(served, run)

    assert (end, pauses.asked) == (("finished", "again"), [60.0, 300.0, 1800.0][:times])


async def test_an_odd_background_run_is_ended_and_off_the_queue(door: Door) -> None:
    journal, pauses = Odd(KeyError("no such thing")), Pauses()
    async with door.serving(ScriptedModel(says("never")), journal=journal, sleep=pauses) as served, soon():
        later = await begin(served, "responses")
        over = await later.until("completed", "failed")
        await off_the_queue(served)

    assert (over["status"], pauses.asked[:3]) == ("failed", [60.0, 300.0, 1800.0])
    assert "no such thing" in over["error"]["message"]


async def test_a_store_that_stays_away_ends_no_run(door: Door) -> None:
    """However long it takes: a run is not to blame for it."""

    class Away(Remembering):
        times = 15

        async def resume(self, run: str) -> list[Event]:
            if self.times:
                self.times -= 1
                raise away()
            return await super().resume(run)

    journal, pauses = Away(), Pauses()
    [run] = await kept(door, journal, 1)
    async with door.serving(ScriptedModel(says("again")), journal=journal, sleep=pauses) as served, soon():
        served.server.open()
        end = await ended(served, run)

    assert end == ("finished", "again")
    assert pauses.asked[:10] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 300.0, 1800.0, 60.0]


async def test_a_run_that_could_not_be_taken_up_can_be_cancelled_meanwhile(door: Door) -> None:
    journal, pauses = Odd(KeyError("no such thing")), Pauses(are_over=False)
    [run] = await kept(door, journal, 1)
    async with door.serving(ScriptedModel(says("never")), journal=journal, sleep=pauses) as served, soon():
        served.server.open()
        await pauses.until(60.0)
        status, cancelled = await post(served, f"/runs/{run}/cancel")
        pauses.end()
        again, _ = await post(served, f"/runs/{run}/cancel")

    assert (status, cancelled["state"], again) == (200, "cancelled", 409)


# ---- what waits for people -------------------------------------------------------------------------------------------


async def test_a_run_that_waits_is_only_read(door: Door) -> None:
    class Counts(Remembering):
        resumes = 0

        async def resume(self, run: str) -> list[Event]:
            self.resumes += 1
            return await super().resume(run)

    files, journal = Deleting(), Counts()
    model = ScriptedModel(asks(Call("delete", {"path": "/a"})), says("Gone."))
    async with door.serving(model, files.tool, journal=journal, approval_timeout=0.01) as served, soon():
        await post_quietly(served, {"messages": HI})
        run, question = await asked_of(served)
        await served.server.recovery.recover_all()
        looked = journal.resumes
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        end = await ended(served, run)

    assert (looked, end) == (0, ("finished", "Gone."))


async def test_a_run_under_way_is_not_taken_for_one_that_was_left(door: Door) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(asks("wait"), says("over"))
    async with door.serving(model, gate.tool) as served, soon():
        later = await begin(served, "chat")
        await gate.begun.wait()
        await served.server.recovery.recover(later.run)
        gate.go_on.set()
        over = await later.until("completed", "failed")

    assert (over["status"], len(model.heard)) == ("completed", 2)


# ---- tasks beside requests -------------------------------------------------------------------------------------------


class OddCatalog(MemoryCatalog):
    """Something is wrong, once, with the rows of files."""

    is_odd = True

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        if self.is_odd and job.__qualname__.startswith("Files."):
            self.is_odd = False
            raise KeyError("no such column")
        return await super().write(job, alone, may_be_lost=may_be_lost)


async def test_the_tidying_of_files_goes_on_after_whatever_went_wrong(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    catalog, pauses = OddCatalog(), Pauses()
    async with door.serving(ScriptedModel(says("hi")), catalog=catalog, sleep=pauses) as served, soon():
        form = aiohttp.FormData({"purpose": "user_data", "file": io.BytesIO(b"hello")})
        catalog.is_odd = False
        async with served.http.post(f"{served.url}/files", data=form) as answer:
            assert answer.status == 200, await answer.text()
        catalog.is_odd = True
        served.server.open()
        await pauses.until(1.0)

    assert "the tidying of files ended, and is started again in 1 s" in caplog.text
    assert "no such column" in caplog.text
