"""What a coroutine gives, read by a thread that does not await: all of it, in order, and never far ahead of the reader."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from tests.timeouts import TIMEOUT

from ronda.agent.thread_reader import ThreadReader

AHEAD = 16  # items that may wait for the reader
Put = Callable[[int], Awaitable[None]]


def rest_of(reader: ThreadReader[int]) -> list[int]:
    items: list[int] = []
    while (item := reader.next()) is not None:
        items.append(item)
    return items


def test_everything_comes_in_order_and_over_stays_over() -> None:
    async def count(put: Put) -> None:
        for number in range(100):
            await put(number)

    reader = ThreadReader(count)

    assert rest_of(reader) == list(range(100))
    assert reader.next() is None


def test_a_coroutine_waits_for_a_reader_that_is_behind() -> None:
    given: list[int] = []

    async def count(put: Put) -> None:
        for number in range(10 * AHEAD):
            given.append(number)
            await put(number)

    reader = ThreadReader(count)
    ahead: list[int] = []
    while (item := reader.next()) is not None:
        ahead.append(len(given) - item - 1)

    assert max(ahead) <= AHEAD + 1


def test_items_that_were_read_long_ago_make_no_room() -> None:
    """The reader takes some items while the coroutine is busy: the coroutine learns of it only when it waits for room."""
    given: list[int] = []
    were_read, has_looked = threading.Event(), threading.Event()

    async def give(put: Put, numbers: range) -> None:
        for number in numbers:
            given.append(number)
            await put(number)

    async def look() -> None:
        for _ in range(20):  # turns of the loop: more than it takes to wake the other, were it to be woken
            await asyncio.sleep(0)
        has_looked.set()

    async def count(put: Put) -> None:
        await give(put, range(AHEAD // 2))
        were_read.wait(TIMEOUT)
        looking = asyncio.create_task(look())
        await give(put, range(AHEAD // 2, 10 * AHEAD))
        await looking

    reader = ThreadReader(count)
    for _ in range(AHEAD // 2):
        reader.next()
    were_read.set()

    assert has_looked.wait(TIMEOUT)
    assert len(given) == AHEAD // 2 + AHEAD
    reader.close()


def test_what_goes_wrong_is_raised_where_it_is_read() -> None:
    async def fail(put: Put) -> None:
        await put(1)
        raise ValueError("no more")

    reader = ThreadReader(fail)

    assert reader.next() == 1
    with pytest.raises(ValueError, match="no more"):
        reader.next()
    assert reader.next() is None


def test_closing_ends_the_coroutine_and_drops_what_nobody_read() -> None:
    ended: list[str] = []

    async def endless(put: Put) -> None:
        try:
            while True:
                await put(0)
                await asyncio.sleep(0)
        finally:
            ended.append("ended")

    reader = ThreadReader(endless)
    assert reader.next() == 0
    reader.close()

    assert ended == ["ended"]
    assert reader.next() is None
