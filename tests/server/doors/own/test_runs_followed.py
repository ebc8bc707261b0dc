"""Runs that are followed while they happen, from any place, by any client."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.interaction.doors import Door, soon
from tests.server.runs_door import (
    HI,
    Follower,
    Stepwise,
    ask,
    frames,
    get,
    post_quietly,
    under_way,
)

from ronda.core.events import ModelFinished, ModelStarted, RunStarted, TextDelta
from ronda.core.parts import AssistantTurn
from ronda.core.plan import Plan
from ronda.host.log import Log


async def test_three_hundred_followers_see_the_same_each_from_its_own_start(door: Door) -> None:
    """Joining and leaving at random, and coming back where they left: what they see joins without a seam."""
    chance = Random(7)
    words = [f"word {n} " for n in range(40)]
    model = Stepwise(*words)
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        whole = Follower(served, run)
        first = asyncio.create_task(whole.read())
        followers: list[asyncio.Task[Follower]] = []
        for _ in words:
            model.step()
            for _ in range(8 if len(followers) < 300 else 0):
                follower = Follower(served, run)
                followers.append(asyncio.create_task(follower.read(chance.choice([None, 1, 3, 9]))))
            await asyncio.sleep(0)
        model.step()
        seen = await asyncio.gather(*followers)
        again = await asyncio.gather(*[Follower(served, run, one.last).read() for one in seen])
        await first
        await asking

    assert len(seen) >= 300
    assert [data["text"] for _, kind, data in frames(whole.body) if kind == "text_delta"] == words
    for before, after in zip(seen, again, strict=True):
        assert before.body + after.body == whole.body


async def test_events_say_when_a_model_began_to_answer_and_when_its_pieces_came(door: Door) -> None:
    """A run that is over says the same as one that is followed while it happens."""
    model = Stepwise("One ", "two.")
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        live = Follower(served, run)
        following = asyncio.create_task(live.read())
        for _ in range(3):
            model.step()
        await asking
        await following
        kept = await Follower(served, run).read()

    assert kept.body == live.body
    told = {kind: data for _, kind, data in reversed(frames(live.body))}
    started, first, finished = (told[kind] for kind in ("model_started", "text_delta", "model_finished"))
    assert started["at"] <= first["at"] == finished["first_at"] <= finished["at"]


async def test_a_run_is_followed_from_the_middle_of_an_answer(door: Door) -> None:
    model = Stepwise("One ", "two ", "three.")
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        model.step()
        early = await Follower(served, run).read(most=3)
        assert early.last is not None
        rest = Follower(served, run, early.last)
        reading = asyncio.create_task(rest.read())
        await rest.begun.wait()
        _, running = await get(served, f"/runs/{run}")
        for _ in range(3):
            model.step()
        await reading
        await asking

    assert [(run_id, kind) for run_id, kind, _ in frames(early.body)] == [
        ("0", "run_started"),
        ("1", "model_started"),
        ("1.1", "text_delta"),
    ]
    assert [(run_id, kind) for run_id, kind, _ in frames(rest.body)] == [
        ("1.2", "text_delta"),
        ("1.3", "text_delta"),
        ("2", "model_finished"),
        ("3", "run_finished"),
    ]
    assert (running["state"], running["position"]) == ("running", "1")


async def test_a_follower_that_leaves_leaves_the_run_alone(door: Door) -> None:
    model = Stepwise("One ", "two.")
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(served.ask(stream=True))
        run = await under_way(served)
        model.step()
        await Follower(served, run).read(most=3)
        model.step()
        model.step()
        said = await asking

    assert (said.content, said.finish_reason) == ("One two.", "stop")


async def test_what_was_only_shown_may_be_gone_and_the_facts_are_left(door: Door) -> None:
    model = Stepwise("One ", "two.")
    async with door.serving(model) as served, soon():
        for _ in range(3):
            model.step()
        run = await ask(served, stream=True)
        _, before = await get(served, f"/runs/{run}/events?after=1.1")
        served.server.runs.logs.forget(run)
        _, after = await get(served, f"/runs/{run}/events?after=1.1")

    assert [run_id for run_id, _, _ in frames(before)] == ["1.2", "2", "3"]
    assert frames(after) == frames(before)[1:]


def ahead(last: str, after: str, param: str = "after") -> tuple[int, Any]:
    message = f"'{param}' is {after}, and the run has come to {last}; follow it from {last}, or from before"
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "cursor_ahead"}
    return 400, {"error": {**error, "details": {"last_position": last}}}


@pytest.mark.parametrize("detaches", [False, True], ids=["with its client", "without its client"])
async def test_a_position_that_the_run_has_not_come_to_is_refused_and_never_gets_other_numbers(
    door: Door, detaches: bool
) -> None:
    model = Stepwise("One ", "two.")
    more = {"on_disconnect": "detach"} if detaches else {}
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True, **more}))
        run = await under_way(served)
        model.step()
        seen = await Follower(served, run).read(most=3)
        far, near = await get(served, f"/runs/{run}/events?after=13"), await get(served, f"/runs/{run}/events?after=2")
        piece = await get(served, f"/runs/{run}/events?after=1.9")
        header = await get(served, f"/runs/{run}/events", **{"Last-Event-ID": "13"})
        model.step()
        model.step()
        await asking
        over = [await get(served, f"/runs/{run}/events?after={after}") for after in ("13", "4", "3", "3.9")]

    assert seen.last == "1.1"
    assert (far, near, piece) == (ahead("1.1", "13"), ahead("1.1", "2"), ahead("1.1", "1.9"))
    assert header == ahead("1.1", "13", "Last-Event-ID")
    assert over == [ahead("3", "13"), ahead("3", "4"), (204, b""), (204, b"")]


async def test_a_follower_that_comes_from_elsewhere_a_moment_early_goes_on_with_the_runs_own_numbers() -> None:
    """A run that outlives its process is shown here only when its journal has it: others may have read it there already."""
    start = RunStarted("run_x", Plan(model="m"), ())
    log = Log(start)
    early = log.follow((2, 0))
    log.append([ModelStarted(0)])
    log.append([TextDelta("seen elsewhere")])
    assert early.pull() == []
    log.append([ModelFinished(AssistantTurn(()))])
    assert early.pull() == []
    log.append([TextDelta("new")])

    assert early.pull() == [TextDelta("new")]
    assert early.position == (2, 1)
