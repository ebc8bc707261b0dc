"""What every queue of runs promises.

    class TestMine(QueueContract):
        async def open(self):
            return MyQueue(...)

`open` gives a queue that is empty at first; opened again in the same test it gives the same one, or one on the same store.
Time is given, and never passes by itself.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod

import pytest

from ronda.store import WriteConflict
from ronda.store.queue import ClaimedRun, Queue, QueuedRun, QueueEntry, QueueFull, QueueLimits

WIDE = QueueLimits(100, 100, 100)
MANY = 1000


def _run(name: str, owner: str = "ann", session: str = "") -> QueuedRun:
    return QueuedRun(name, owner, session or f"session of {name}", 1.0)


async def _add(queue: Queue, *runs: QueuedRun) -> None:
    for run in runs:
        await queue.enqueue(run, MANY)


async def _claim_all(queue: Queue, worker: str = "w", limits: QueueLimits = WIDE, now: float = 10.0) -> list[str]:
    claimed = []
    while found := await queue.claim(worker, limits, now, now + 5):
        claimed += [one.run for one in found]
    return claimed


class QueueContract(ABC):
    @abstractmethod
    async def open(self) -> Queue: ...

    async def test_runs_are_claimed_in_the_order_in_which_they_came(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"), _run("b", "bob"), _run("c"))
        assert await _claim_all(queue) == ["a", "b", "c"]
        assert await _claim_all(queue) == []

    async def test_a_run_is_queued_once(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"))
        try:
            await queue.enqueue(_run("a"), MANY)
        except WriteConflict:
            return
        raise AssertionError("a run was queued twice")

    async def test_a_queue_takes_no_more_than_it_may(self) -> None:
        queue = await self.open()
        await queue.enqueue(_run("a"), 1)
        try:
            await queue.enqueue(_run("b"), 1)
        except QueueFull:
            pass
        else:
            raise AssertionError("a full queue took another run")
        assert await _claim_all(queue) == ["a"]
        await queue.enqueue(_run("b"), 1)  # one that is driven does not wait

    async def test_no_more_are_driven_than_the_limits_allow(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a", "ann", "s"), _run("b", "ann", "s"), _run("c", "bob", "s"), _run("d", "ann", "t"))
        await _add(queue, _run("e", "ann", "u"), _run("f", "cay", "v"))
        # b waits for a, which is in the same session of the same owner; d and e because others have fewer, and there are three.
        assert await _claim_all(queue, limits=QueueLimits(3, 2, 1)) == ["a", "c", "f"]
        assert await queue.finish(["c"], 10.0, "w") == ["c"]
        assert await _claim_all(queue, limits=QueueLimits(3, 2, 1)) == ["d"]
        assert await queue.finish(["f"], 10.0, "w") == ["f"]
        assert await _claim_all(queue, limits=QueueLimits(3, 2, 1)) == []  # ann has two
        assert await queue.finish(["a"], 10.0, "w") == ["a"]
        assert await _claim_all(queue, limits=QueueLimits(3, 2, 1)) == ["b"]

    async def test_one_owner_leaves_places_for_the_others(self) -> None:
        queue = await self.open()
        for number in range(5):
            await queue.enqueue(_run(f"a{number}", "ann", f"{number}"), 10)
        with pytest.raises(QueueFull, match="5 runs of yours wait already"):
            await queue.enqueue(_run("a5", "ann", "5"), 10)
        await queue.enqueue(_run("b0", "bob", "s"), 10)
        await queue.enqueue(_run("b1", "bob", "t"), 10)
        shared = QueueLimits(4, None, 1)
        assert await _claim_all(queue, limits=shared) == ["a0", "b0", "a1"]
        assert await queue.finish(["a0"], 10.0, "w") == ["a0"]
        assert await _claim_all(queue, limits=shared) == ["a2"]  # both have one: the older goes first

    async def test_several_are_claimed_at_once_as_if_one_after_another(self) -> None:
        queue, chance = await self.open(), random.Random(7)
        for turn in range(12):
            limits = QueueLimits(chance.randrange(1, 9), chance.choice([None, 1, 2, 4]), chance.randrange(1, 3))
            names = [f"{turn}.{number}" for number in range(14)]
            for name in names:
                await _add(queue, _run(name, chance.choice(["ann", "bob", "cay"]), chance.choice("st") + str(turn)))
            driven = [one.run for one in await queue.claim("w", limits, 10.0, 15.0, chance.randrange(3))]
            singly = await _claim_all(queue, "other", limits)
            await queue.renew("other", 0.0)
            most = chance.randrange(1, 9)
            together = [one.run for one in await queue.claim("other", limits, 10.0, 15.0, most)]

            assert sorted(together) == sorted(singly[:most]), (turn, limits, driven)
            for name in names:
                assert await queue.cancel(name, 20.0)

    async def test_a_lease_that_runs_out_is_claimed_again_in_its_old_place(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"), _run("b"))
        assert await queue.claim("dead", WIDE, 10.0, 15.0) == [ClaimedRun("a")]
        assert await queue.claim("w", WIDE, 15.0, 20.0) == [ClaimedRun("a", claims=2)]
        assert await queue.claim("w", WIDE, 15.0, 20.0) == [ClaimedRun("b")]
        assert await queue.renew("dead", 30.0) == []  # which learns that way that another has it

    async def test_a_lease_that_is_renewed_stays(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"), _run("b"))
        await queue.claim("w", WIDE, 10.0, 15.0)
        assert await queue.renew("w", 25.0) == [ClaimedRun("a")]
        assert await _claim_all(queue, "other", now=20.0) == ["b"]

    async def test_a_worker_that_ends_gives_its_runs_back(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"))
        await queue.claim("w", WIDE, 10.0, 15.0)
        await queue.renew("w", 0.0)
        assert await queue.claim("other", WIDE, 10.0, 15.0) == [ClaimedRun("a", claims=2)]

    async def test_a_run_that_its_worker_cannot_drive_is_left_to_another(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"), _run("b"))
        assert await queue.claim("w", WIDE, 10.0, 15.0) == [ClaimedRun("a")]
        await queue.unclaim("a", "w")
        assert await queue.claim("w", WIDE, 10.0, 15.0, 9, but=["a", "z"]) == [ClaimedRun("b")]
        assert await queue.claim("w", WIDE, 10.0, 15.0, but=["a"]) == []
        assert await queue.claim("other", WIDE, 10.0, 15.0) == [ClaimedRun("a")]  # as if it had not been claimed
        await queue.unclaim("a", "w")  # which has lost it
        assert await queue.claim("w", WIDE, 10.0, 15.0) == []

    async def test_a_run_that_waits_is_taken_off_at_once(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"), _run("b"))
        assert await queue.cancel("a", 10.0)
        assert not await queue.cancel("a", 10.0)
        assert await _claim_all(queue) == ["b"]

    async def test_whoever_drives_a_run_hears_that_it_is_to_end(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"))
        await queue.claim("w", WIDE, 10.0, 15.0)
        assert not await queue.cancel("a", 10.0)
        assert await queue.renew("w", 20.0) == [ClaimedRun("a", is_cancelled=True)]
        assert await queue.finish(["a"], 10.0, "w") == ["a"]
        assert await queue.renew("w", 20.0) == []

    async def test_a_worker_that_lost_a_run_does_not_end_it(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"))
        await queue.claim("frozen", WIDE, 10.0, 15.0)
        await queue.claim("w", WIDE, 20.0, 25.0)
        assert await queue.finish(["a"], 21.0, "frozen") == []  # it wakes, and may not continue it
        assert await queue.renew("w", 30.0) == [ClaimedRun("a", claims=2)]

    async def test_what_was_to_end_with_a_worker_that_is_gone_is_told_to_the_next(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a"))
        await queue.claim("dead", WIDE, 10.0, 15.0)
        await queue.cancel("a", 10.0)
        assert await queue.claim("w", WIDE, 20.0, 25.0) == [ClaimedRun("a", claims=2, is_cancelled=True)]

    async def test_a_list_says_how_many_wait_before_each(self) -> None:
        queue = await self.open()
        await _add(queue, _run("a", session="s"), _run("b", "bob", "s"), _run("c", session="s"))
        await queue.claim("w", WIDE, 10.0, 15.0)
        whole = await queue.list(10.0)
        assert whole == [
            QueueEntry("a", "ann", "s", 1.0, None, 1),
            QueueEntry("b", "bob", "s", 1.0, 0),
            QueueEntry("c", "ann", "s", 1.0, 1),
        ]
        assert await queue.list(10.0, "ann") == [whole[0], whole[2]]
        assert [entry.position for entry in await queue.list(15.0)] == [0, 1, 2]  # its worker is gone

    async def test_of_many_workers_one_gets_a_run(self) -> None:
        queues = [await self.open() for _ in range(4)]
        await _add(queues[0], *[_run(f"r{number}") for number in range(10)])
        found = await asyncio.gather(*[_claim_all(queue, f"w{at}") for at, queue in enumerate(queues)])
        assert sorted(run for runs in found for run in runs) == sorted(f"r{number}" for number in range(10))
