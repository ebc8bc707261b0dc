"""Who is let in: by slots and by tokens, in the order they came, from any event loop."""

from __future__ import annotations

import asyncio

from tests.patience import soon

from ronda.providers.local.admission import Room


async def test_who_came_first_is_let_in_first() -> None:
    room = Room(1, 10)
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await room.enter(10)
        order.append(number)
        await asyncio.sleep(0)
        room.leave(10)

    async with soon():
        await asyncio.gather(*[pass_through(number) for number in range(5)])

    assert order == [0, 1, 2, 3, 4]


async def test_a_place_given_to_somebody_who_just_left_goes_to_the_next() -> None:
    room = Room(1, 10)
    await room.enter(10)
    waiting = [asyncio.create_task(room.enter(10)) for _ in range(2)]
    await asyncio.sleep(0)

    room.leave(10)  # on its way to the first …
    waiting[0].cancel()  # … who leaves in the same moment

    async with soon():
        await waiting[1]
    room.leave(10)
    async with soon():
        await room.enter(10)


async def test_a_place_is_not_lost_with_the_loop_that_waited_for_it() -> None:
    room = Room(1, 10)
    await room.enter(10)

    def elsewhere() -> None:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(room.enter(10))
        loop.run_until_complete(asyncio.sleep(0))
        waiting.cancel()
        loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
        loop.close()

    await asyncio.to_thread(elsewhere)
    room.leave(10)
    async with soon():
        await room.enter(10)


async def test_what_is_left_of_the_cache_decides_not_the_slots_alone() -> None:
    room = Room(8, 100)
    await room.enter(60)
    large = asyncio.create_task(room.enter(50))
    small = asyncio.create_task(room.enter(10))
    await asyncio.sleep(0)

    assert (large.done(), small.done()) == (
        False,
        False,
    )  # the small one stands behind: else the large one would wait for ever
    room.leave(60)
    async with soon():
        await asyncio.gather(large, small)


async def test_who_leaves_the_queue_lets_those_behind_go_on() -> None:
    room = Room(8, 100)
    await room.enter(60)
    large = asyncio.create_task(room.enter(50))
    small = asyncio.create_task(room.enter(10))
    await asyncio.sleep(0)

    large.cancel()

    async with soon():
        await small
