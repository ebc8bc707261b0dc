"""The queue on DBOS: what every queue promises, what it tells DBOS, and what it relies on in DBOS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import psycopg
import pytest

pytest.importorskip("dbos", reason="dbos is not installed: pip install 'ronda[dbos]'")

from tests.store.queues import WIDE, QueueContract
from tests.timeouts import TIMEOUT

from ronda.store import StoreError
from ronda.store.dbos_executor import Executor
from ronda.store.dbos_queue import DbosQueue
from ronda.store.postgres import Database
from ronda.store.postgres_catalog import PostgresCatalog
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.queue import ClaimedRun, Queue, QueuedRun
from ronda.store.sql_queue import SqlQueue


def _run(name: str) -> QueuedRun:
    return QueuedRun(name, "ann", f"session of {name}", 1.0)


class Process:
    """DBOS is one for a process, and takes a second to start: all tests here have the same."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)
        self.presence = PostgresPresence(self.database)
        self.catalog = PostgresCatalog(self.database, self.presence)
        self.executor = Executor(self.database, self.presence.id)

    def queue(self) -> DbosQueue:
        return DbosQueue(SqlQueue(self.catalog), self.executor)

    def statuses(self) -> dict[str, str]:
        """Of the workflows, as DBOS has them."""
        found = self.executor.client.list_workflows(load_input=False, load_output=False)
        return {one.workflow_id: one.status for one in found}

    def placed(self) -> dict[str, tuple[str, str | None]]:
        """Of each workflow: its status, and the queue that it is in."""
        found = self.executor.client.list_workflows(load_input=False, load_output=False)
        return {one.workflow_id: (one.status, one.queue_name) for one in found}

    async def until(self, statuses: dict[str, str]) -> None:
        """DBOS writes in its own time how a workflow ended."""
        async with asyncio.timeout(TIMEOUT):
            while await asyncio.to_thread(self.statuses) != statuses:
                pass

    def forget_all(self) -> None:
        runs = list(self.statuses())
        for run in runs:
            self.executor.drop(run)
        self.executor.client.delete_workflows(runs)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DELETE FROM queued_run")


@pytest.fixture(scope="module")
def shared_process(postgres_server: str) -> Iterator[Process]:
    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        process = Process(f"{postgres_server}?options=-csearch_path%3D{name}")
        yield process
        process.executor.close()
        process.presence.leave()
        asyncio.run(process.database.close())
        connection.execute(f"DROP SCHEMA {name}, {process.executor.schema} CASCADE")


@pytest.fixture
def process(shared_process: Process) -> Iterator[Process]:
    yield shared_process
    shared_process.forget_all()


class TestDbosQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def place(self, process: Process) -> None:
        self.process = process

    async def open(self) -> Queue:
        return self.process.queue()

    async def test_dbos_shows_where_each_run_is(self) -> None:
        queue = self.process.queue()
        for run in ("a", "b", "c", "d"):
            await queue.enqueue(_run(run), 10)
        waiting = self.process.placed()
        for _ in range(2):
            await queue.claim("w", WIDE, 10.0, 15.0)
        driven = self.process.placed()
        assert await queue.finish(["a"], 10.0, "w") == ["a"]  # it is over
        assert await queue.cancel("c", 10.0)  # it is not to be driven
        await queue.renew("w", 0.0)

        name = self.process.executor.name
        assert waiting == dict.fromkeys("abcd", ("ENQUEUED", "ronda"))
        assert driven == {**waiting, "a": ("PENDING", name), "b": ("PENDING", name)}
        await self.process.until({"a": "SUCCESS", "b": "ENQUEUED", "c": "CANCELLED", "d": "ENQUEUED"})
        assert self.process.placed()["b"] == ("ENQUEUED", "ronda")

    async def test_whoever_cancels_with_the_tools_of_dbos_ends_the_run(self) -> None:
        queue = self.process.queue()
        for run in ("a", "b"):
            await queue.enqueue(_run(run), 10)
        await queue.claim("w", WIDE, 10.0, 15.0)
        for run in ("a", "b"):
            self.process.executor.client.cancel_workflow(run)

        assert await queue.renew("w", 20.0) == [ClaimedRun("a", is_cancelled=True)]
        assert await queue.claim("w", WIDE, 10.0, 15.0) == [ClaimedRun("b", is_cancelled=True)]
        assert sorted(await queue.finish(["a", "b"], 10.0, "w")) == ["a", "b"]
        assert self.process.statuses() == {"a": "CANCELLED", "b": "CANCELLED"}

    async def test_a_run_that_the_table_alone_knows_is_driven(self) -> None:
        table, queue = SqlQueue(self.process.catalog), self.process.queue()
        await table.enqueue(_run("a"), 10)

        assert await queue.claim("w", WIDE, 10.0, 15.0) == [ClaimedRun("a")]
        assert self.process.statuses() == {"a": "PENDING"}

    async def test_a_run_may_be_queued_again_when_it_is_off(self) -> None:
        queue = self.process.queue()
        for _ in range(2):
            await queue.enqueue(_run("a"), 10)
            assert await queue.claim("w", WIDE, 10.0, 15.0) == [ClaimedRun("a")]
            assert await queue.finish(["a"], 10.0, "w") == ["a"]
            await self.process.until({"a": "SUCCESS"})

    async def test_a_process_that_was_taken_for_dead_is_called_again(self) -> None:
        queue, executor = self.process.queue(), self.process.executor
        executor.client.delete_queue(executor.name)  # as others do, when it is gone
        for run in ("a", "b"):
            await queue.enqueue(_run(run), 10)
        claimed: list[ClaimedRun] = []
        async with asyncio.timeout(TIMEOUT):
            while len(claimed) < 2:  # the second at the latest is not called for
                claimed += await queue.claim("w", WIDE, 10.0, 15.0)

        assert claimed == [ClaimedRun("a"), ClaimedRun("b")]  # what was not driven does not count


async def test_what_a_process_left_behind_is_ended(process: Process) -> None:
    queue, executor = process.queue(), process.executor
    await queue.enqueue(_run("queued"), 10)
    await executor.add("over")  # its process died when it was off the queue, and before DBOS heard of it
    executor.client.register_queue("ronda-dead")
    left = await asyncio.to_thread(executor.tidy, set())
    assert left == {"over"}
    await asyncio.to_thread(executor.tidy, left)

    await process.until({"queued": "ENQUEUED", "over": "SUCCESS"})
    assert {one.name for one in executor.client.list_queues()} == {"ronda", executor.name}


async def test_dbos_is_given_the_id_of_a_run_as_json_and_nothing_else(process: Process) -> None:
    await process.queue().enqueue(QueuedRun("a", "ann\0", "a session of hers", 1.0), 10)

    with psycopg.connect(process.url) as connection:
        query = f"""SELECT s.serialization, i.inputs, s.authenticated_user, s.queue_partition_key, s.attributes,
            s.application_version FROM {process.executor.schema}.workflow_status AS s
            JOIN {process.executor.schema}.workflow_input AS i USING (workflow_uuid)"""
        rows = connection.execute(query).fetchall()
    assert rows == [("portable_json", '{"namedArgs":{},"positionalArgs":["a"]}', None, None, None, "1")]


def test_dbos_is_there_once_in_a_process(process: Process) -> None:
    with pytest.raises(StoreError, match="DBOS is there once in a process"):
        Executor(process.database, 7)


async def test_what_another_has_called_is_not_ended_by_the_first(process: Process) -> None:
    """What recovery relies on: `resume_workflow` takes a workflow away from a process that does not answer, and what that
    one says of it later does not count."""
    executor = process.executor
    await executor.add("a")
    assert await executor.call("a", "frozen")
    executor.client.resume_workflow("a", queue_name="ronda")
    await executor.finish("a")
    async with asyncio.timeout(TIMEOUT):
        while executor.called_for("frozen"):  # until its body is over
            await asyncio.to_thread(process.statuses)

    assert process.placed() == {"a": ("ENQUEUED", "ronda")}
    assert await executor.call("a", "w")
    assert process.placed() == {"a": ("PENDING", executor.name)}
