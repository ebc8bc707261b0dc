"""Large commits of the SQLite journal: made by a thread, so that the event loop goes on, and in order anyway."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from pathlib import Path

import pytest
from msgspec import structs
from tests.timeouts import soon

from ronda.core.events import Event, ModelFinished, ModelStarted
from ronda.core.parts import AssistantTurn, Text, UserTurn
from ronda.journal import codecs, sqlite_reader, sqlite_tables, sqlite_writer
from ronda.journal.buffers import LARGE
from ronda.journal.sqlite import SqliteJournal
from ronda.testing.facts import finish, start


def large(sign: str) -> ModelFinished:
    return ModelFinished(AssistantTurn((Text(sign * (LARGE + 1)),)))


class Gate:
    """Holds the thread that writes a large value, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._may_pass = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.is_reached = asyncio.Event()
        hash_value = codecs.hash_value

        def wait(body: bytes) -> bytes:
            self._loop.call_soon_threadsafe(self.is_reached.set)
            assert self._may_pass.wait(60.0), "the event loop waits for what it must let pass"
            return hash_value(body)

        monkeypatch.setattr(sqlite_writer, "hash_value", wait)

    def open(self) -> None:
        self._may_pass.set()


async def test_the_event_loop_goes_on_while_a_large_commit_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    gate = Gate(monkeypatch)
    events: list[Event] = [start("a"), ModelStarted(0), large("x")]
    journal.append("a", events)
    async with soon():
        keeping = asyncio.create_task(journal.barrier("a"))
        await gate.is_reached.wait()
        assert not keeping.done()
        gate.open()
        await keeping

    assert await journal.read("a") == events
    await journal.close()


async def test_what_is_said_while_a_large_commit_is_made_is_kept_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    gate = Gate(monkeypatch)
    events: list[Event] = [start("a"), ModelStarted(0), large("x")]
    journal.append("a", events)
    async with soon():
        first = asyncio.create_task(journal.barrier("a"))
        await gate.is_reached.wait()
        journal.append("a", [ModelStarted(1), large("y"), *finish()])
        journal.expect("me", ["c1"], "a")
        journal.append("b", [start("b")])
        others = [asyncio.create_task(wait) for wait in (journal.barrier("a"), journal.barrier("b"))]
        reading = asyncio.create_task(journal.read("b"))
        waiting = asyncio.create_task(journal.runs_of_calls("me", ["c1"]))
        journal.release("a")
        gate.open()
        await asyncio.gather(first, *others)

        assert await journal.read("a") == [*events, ModelStarted(1), large("y"), *finish()]
        assert await reading == [start("b")]
        assert await waiting == {"c1": "a"}
    await journal.close()

    again = SqliteJournal(tmp_path / "journal.db")
    assert await again.read("a") == [*events, ModelStarted(1), large("y"), *finish()]
    assert [one.run for one in await again.unfinished_runs()] == ["b"]
    await again.close()


async def test_a_large_commit_that_is_refused_says_so_and_lets_the_others_pass(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.append("a", [start("a"), ModelStarted(0), large("\ud800")])  # half a character is no text
    journal.append("b", [start("b"), ModelStarted(0), large("x")])
    async with soon():
        told = await asyncio.gather(journal.barrier("a"), journal.barrier("b"), return_exceptions=True)

    assert [type(one).__name__ for one in told] == ["StoreError", "NoneType"]
    assert await journal.read("b") == [start("b"), ModelStarted(0), large("x")]
    await journal.close()


async def test_a_long_run_is_read_by_a_thread_before_it_is_driven_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    events: list[Event] = [start("a"), ModelStarted(0), large("x")]
    journal.append("a", events)
    journal.release("a")
    await journal.barrier("a")
    here: list[bool] = []
    decode = sqlite_tables.decode_row

    def noted(body: bytes) -> object:
        here.append(threading.current_thread() is threading.main_thread())
        return decode(body)

    monkeypatch.setattr(sqlite_reader, "decode_row", noted)
    assert await journal.resume("a") == events
    journal.append("a", [ModelStarted(1)])
    journal.release("a")
    assert await journal.read("a") == [*events, ModelStarted(1)]
    await journal.close()

    assert here
    assert not any(here)


async def test_a_large_conversation_is_written_with_one_copy_of_it_at_a_time(tmp_path: Path) -> None:
    """The writer holds a turn as JSON, in a buffer of half as much again, and what it decodes from it in order to check it."""
    size = 8 << 20
    journal = SqliteJournal(tmp_path / "journal.db")
    first = structs.replace(start("a"), turns=(UserTurn((Text("x" * size),)),))
    tracemalloc.start()
    try:
        journal.append("a", [first])
        await journal.barrier("a")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    await journal.close()

    assert 1.9 * size < peak < 3 * size
