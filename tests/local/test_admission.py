"""Who is let in: by slots and by tokens, in the order they came, from any event loop."""

from __future__ import annotations

import asyncio

from tests.timeouts import soon

from ronda.local.admission import Room


async def settle() -> None:
    """Let everything happen that waits for nothing but its turn in the loop."""
    for _ in range(10):
        await asyncio.sleep(0)


async def is_free(room: Room) -> bool:
    """Whether a client that wants ten tokens is let in at once."""
    entering = asyncio.create_task(room.enter(10))
    await settle()
    if entering.done():
        room.leave(10)
        return True
    entering.cancel()
    await settle()
    return False


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
    await settle()

    assert [one.cancelled() for one in waiting] == [True, False]
    assert waiting[1].done()
    assert not await is_free(room)
    room.leave(10)
    assert await is_free(room)


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
    assert not await is_free(room)
    room.leave(10)
    assert await is_free(room)


async def test_what_is_left_of_the_cache_decides_not_the_slots_alone() -> None:
    room = Room(8, 100)
    await room.enter(60)
    large = asyncio.create_task(room.enter(50))
    small = asyncio.create_task(room.enter(10))
    await asyncio.sleep(0)

    # The small one stands behind: else the large one would wait for ever.
    assert [large.done(), small.done()] == [False, False]
    room.leave(60)
    await settle()
    assert [large.done(), small.done()] == [True, True]


async def test_who_leaves_the_queue_lets_those_behind_go_on() -> None:
    room = Room(8, 100)
    await room.enter(60)
    large = asyncio.create_task(room.enter(50))
    small = asyncio.create_task(room.enter(10))
    await asyncio.sleep(0)

    assert not small.done()
    large.cancel()
    await settle()

    assert small.done()
