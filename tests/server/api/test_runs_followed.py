"""Runs that are followed while they happen, from any place, by anybody."""

from __future__ import annotations

import asyncio
from random import Random

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

    assert [(id, kind) for id, kind, _ in frames(early.body)] == [
        ("0", "run_started"),
        ("1", "model_started"),
        ("1.1", "text_delta"),
    ]
    assert [(id, kind) for id, kind, _ in frames(rest.body)] == [
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

    assert [id for id, _, _ in frames(before)] == ["1.2", "2", "3"]
    assert frames(after) == frames(before)[1:]
