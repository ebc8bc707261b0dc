"""Tasks beside requests: what ends one is in the log, under its name, and one that is to last is started again."""

from __future__ import annotations

import asyncio

import pytest
from tests.interaction.doors import Pauses, soon

from ronda.host.supervisor import Supervisor
from ronda.store import StoreError


class Job:
    """Fails so many times, then lasts."""

    def __init__(self, *problems: BaseException) -> None:
        self.problems = [*problems]
        self.lasts = asyncio.Event()

    async def __call__(self) -> None:
        if self.problems:
            raise self.problems.pop(0)
        self.lasts.set()
        await asyncio.get_running_loop().create_future()


async def test_a_task_that_fails_is_logged_by_its_name_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    pauses, job = Pauses(), Job(ValueError("odd"), StoreError("there", "it is away"), asyncio.CancelledError())
    supervisor = Supervisor(pauses)
    supervisor.keep("the tidying of files", job)
    async with soon():
        await job.lasts.wait()
        await supervisor.close()

    assert pauses.asked == [1.0, 2.0, 4.0]
    first, second, third = [record.getMessage() for record in caplog.records]
    assert first == "the tidying of files ended, and is started again in 1 s"
    assert second == "the tidying of files ended, and is started again in 2 s: there: it is away"
    assert third == "the tidying of files ended, and is started again in 4 s"
    assert "ValueError: odd" in caplog.text  # with its traceback: it was not raised on purpose


async def test_pauses_grow_up_to_a_minute_and_begin_anew_when_a_task_has_lasted() -> None:
    now = [0.0]
    pauses, failures = Pauses(), [0]

    async def job() -> None:
        failures[0] += 1
        if failures[0] == 9:
            now[0] += 60.0
        if failures[0] == 11:
            return
        raise ValueError

    async with soon():
        await Supervisor(pauses, lambda: now[0]).keep("it", job)

    assert pauses.asked == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 1.0, 2.0]


async def test_what_is_done_once_says_what_went_wrong(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise StoreError("there", "it is away")

    async with soon():
        await Supervisor().do("the answer to a letter", fail())

    assert [record.getMessage() for record in caplog.records] == [
        "the answer to a letter was not done: there: it is away"
    ]


async def test_a_supervisor_that_closes_ends_its_tasks_and_waits_for_them() -> None:
    supervisor, job, over = Supervisor(), Job(), list[str]()

    async def last() -> None:
        try:
            await job()
        finally:
            await asyncio.sleep(0)
            over.append("over")

    supervisor.keep("it", last)
    async with soon():
        await job.lasts.wait()
        await supervisor.close()

    assert over == ["over"]


async def test_a_task_that_is_told_to_end_by_someone_else_is_not_started_again() -> None:
    supervisor, job = Supervisor(), Job()
    task = supervisor.keep("it", job)
    async with soon():
        await job.lasts.wait()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()
