"""One run at a time continues a session: others wait, are told so, or take over; over processes, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.interaction.doors import Door, Raw, Remembering, Served, soon
from tests.server.session_doors import told

from ronda import tool
from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.events import ModelFinished, RunFinished, RunStarted
from ronda.core.parts import ToolTurn
from ronda.core.request import ModelRequest
from ronda.core.run import rebuild
from ronda.drive import Show
from ronda.host import leases as host
from ronda.host.sessions import SessionHost
from ronda.journal.memory import MemoryJournal
from ronda.server.app import create_app
from ronda.store import StoreError
from ronda.store.claims import FileClaims, MemoryClaims
from ronda.store.memory import MemoryCatalog
from ronda.store.sessions import Sessions
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.store.values.sessions import Lease
from ronda.testing import ScriptedModel, calls
from ronda.wire.shared.door_request import SessionWish


class Held(ScriptedModel):
    """Answers its first call when it may."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self._calls = 0
        self.may_answer = asyncio.Event()
        self.was_asked = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.was_asked.set()
        self._calls += 1
        if self._calls == 1:
            await self.may_answer.wait()
        return await super().call(request, show)


def ask(served: Served, text: str, **fields: object) -> asyncio.Task[Raw]:
    return asyncio.create_task(served.post({"messages": text, "session_id": "s", **fields}))


async def until(holds: Callable[[], bool]) -> None:
    async with soon():
        while not holds():  # noqa: ASYNC110  # what is looked at rings no bell
            await asyncio.sleep(0.001)


async def until_waiting(served: Served, count: int) -> None:
    await until(lambda: sum([len(line) for line in served.server.runs.sessions.leases.lines.values()]) == count)


async def test_requests_of_a_session_are_answered_one_after_another(door: Door) -> None:
    model = Held("One.", "Two.", "Three.")
    async with door.serving(model) as served:
        asking = [ask(served, "First?")]
        await model.was_asked.wait()
        for text in ("Second?", "Third?"):
            asking.append(ask(served, text))
            await until_waiting(served, len(asking) - 1)
        assert model.heard == []
        model.may_answer.set()
        answers = await asyncio.gather(*asking)
    assert [answer.said.content for answer in answers] == ["One.", "Two.", "Three."]
    assert told(model.heard[2]) == [
        "user: First?",
        "assistant: One.",
        "user: Second?",
        "assistant: Two.",
        "user: Third?",
    ]


async def test_other_sessions_do_not_wait(door: Door) -> None:
    model = Held("Other.", "One.")
    async with door.serving(model) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        other = await served.post({"messages": "Other?", "session_id": "t"})
        assert not first.done()
        model.may_answer.set()
        assert (await first).status == other.status == 200


async def test_who_will_not_wait_is_told_so(door: Door) -> None:
    model = Held("One.", "Two.")
    async with door.serving(model) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        refused = await ask(served, "Second?", on_busy="reject")
        model.may_answer.set()
        await first
        accepted = await ask(served, "Third?", on_busy="reject")
    assert (refused.status, refused.error["code"], refused.error["param"]) == (409, "session_busy", "session_id")
    assert accepted.status == 200  # the answer before has ended, and so has its lease
    assert len(model.heard) == 2


async def test_a_stream_is_over_when_its_session_is_free(door: Door) -> None:
    async with door.serving(ScriptedModel(*["Yes."] * 6)) as served:
        for _ in range(6):
            answer = await ask(served, "Well?", stream=True, on_busy="reject", session_mode="append")
            assert answer.said.content == "Yes."


async def test_who_cannot_wait_takes_over(door: Door) -> None:
    model = Held("Now.")
    async with door.serving(model) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        second = ask(served, "Second?", on_busy="interrupt")
        async with soon():
            interrupted = await first
        answer = await second
    assert interrupted.status == 409
    assert "another request interrupted this run" in interrupted.error["message"]
    assert answer.said.content == "Now."
    assert told(model.heard[0]) == ["user: Second?"]  # nothing had come of the first


async def test_a_line_has_an_end(door: Door) -> None:
    model = Held("One.")
    async with door.serving(model, max_session_queue=1) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        second = ask(served, "Second?")
        await until_waiting(served, 1)
        third = await ask(served, "Third?")
        model.may_answer.set()
        await asyncio.gather(first, second)
    assert (third.status, third.error["code"]) == (409, "session_busy")


async def test_who_leaves_the_line_is_not_waited_for(door: Door) -> None:
    model = Held("One.", "Three.")
    async with door.serving(model) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        second = ask(served, "Second?")
        await until_waiting(served, 1)
        second.cancel()
        await until_waiting(served, 0)
        model.may_answer.set()
        await first
        await ask(served, "Third?")
    assert told(model.heard[1]) == ["user: First?", "assistant: One.", "user: Third?"]


# ---- several processes that share a folder ------------------------------------------------------------------------------


@asynccontextmanager
async def two_servers(door: Door, path: Path, one: ScriptedModel, two: ScriptedModel) -> AsyncIterator[list[Served]]:
    catalogs = [SqliteCatalog(str(path / "catalog.db")) for _ in range(2)]
    async with (
        door.serving(one, catalog=catalogs[0]) as first,
        door.serving(two, catalog=catalogs[1]) as second,
    ):
        yield [first, second]


async def test_another_process_waits_too_and_sees_what_was_said(door: Door, tmp_path: Path) -> None:
    model, other = Held("One."), ScriptedModel("Two.")
    async with two_servers(door, tmp_path, model, other) as (first, second):
        door.put(create_app(first.server))
        asking = ask(first, "First?")
        await model.was_asked.wait()
        door.put(create_app(second.server))
        refused = await ask(second, "Second?", on_busy="reject")
        waiting = ask(second, "Second?")
        await until_waiting(second, 1)
        model.may_answer.set()
        await asking
        answer = await waiting
    assert refused.status == 409
    assert answer.said.content == "Two."
    assert told(other.heard[0]) == ["user: First?", "assistant: One.", "user: Second?"]


async def test_another_process_takes_over(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "RENEW_SECONDS", 0.02)
    model, other = Held("never"), ScriptedModel("Now.")
    async with two_servers(door, tmp_path, model, other) as (first, second):
        door.put(create_app(first.server))
        asking = ask(first, "First?")
        await model.was_asked.wait()
        door.put(create_app(second.server))
        answer = await ask(second, "Second?", on_busy="interrupt")
        async with soon():
            interrupted = await asking
    assert interrupted.status >= 400
    assert answer.said.content == "Now."


def a_host(store: Sessions, claims: MemoryClaims | FileClaims, journal: MemoryJournal, **more: float) -> SessionHost:
    async def find_run(run: str, owner: str) -> object:
        events = await journal.read(run)
        return rebuild(events) if events else None

    return SessionHost(store, claims, find_run=find_run, cancel=lambda run, owner: None)  # type: ignore[arg-type]  # as said


async def test_a_lease_is_renewed_for_as_long_as_its_run_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(host, "LEASE_SECONDS", 5.0)
    store = MemoryCatalog().sessions
    sessions = a_host(store, MemoryClaims(), MemoryJournal())
    visit = await sessions.enter("ann", SessionWish("s"), "run_1")
    renew, renewed = store.renew, asyncio.Event()

    async def renew_and_tell(holder: str, until: float) -> list[tuple[str, str]]:
        rows = await renew(holder, until)
        renewed.set()
        return rows

    monkeypatch.setattr(store, "renew", renew_and_tell)
    async with soon():
        await renewed.wait()
    other = Lease("other", "run_2", visit.hold.lease.until + 5)
    assert not (await store.lease("ann", "s", other, visit.hold.lease.until)).is_ours
    await visit.leave()
    assert (await store.lease("ann", "s", Lease("other", "run_2", 1.0), 0.0)).is_ours
    await sessions.close()


async def test_the_lease_of_a_process_that_died_gives_way_at_once(door: Door, tmp_path: Path) -> None:
    """What the run had come to is in the journal, and is in the session when the next request reads it."""
    journal = Remembering()
    store = SqliteCatalog(str(tmp_path / "catalog.db"))
    model = Held("never")
    async with door.serving(model, catalog=store, journal=journal) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        [start] = [events[0] for events in await served.events]
        assert isinstance(start, RunStarted)
        row = (await store.sessions.lease("", "s", Lease("x", "run_x", 1.0), 0.0)).other
        assert row is not None
        assert row.run == start.run
        # The process is gone: its claim is let go by the system, its lease is as it was.
        store.claims.close()
        other = SqliteCatalog(str(tmp_path / "catalog.db"))
        sessions = SessionHost(
            other.sessions, other.claims, find_run=served.server.runs.find, cancel=lambda run, owner: None
        )
        async with soon():
            visit = await sessions.enter("", SessionWish("s"), "run_2")
        assert visit.hold.lease.run == "run_2"
        await visit.leave()
        await other.close()
        model.may_answer.set()
        await first


async def test_a_call_under_way_when_its_process_died_has_an_unknown_outcome(door: Door, tmp_path: Path) -> None:
    """Though the run has no end yet, since another process is about to write it."""
    started, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        started.set()
        await may_end.wait()
        return "over"

    journal, store = Remembering(), SqliteCatalog(str(tmp_path / "catalog.db"))
    async with door.serving(ScriptedModel(calls("wait"), "Done."), wait, catalog=store, journal=journal) as served:
        first = ask(served, "First?")
        async with soon():
            await started.wait()
        store.claims.close()  # the process is gone
        other = SqliteCatalog(str(tmp_path / "catalog.db"))
        visit = await a_host(other.sessions, other.claims, journal).enter("", SessionWish("s"), "run_2")
        [_, _, results] = visit.history.turns
        await visit.leave()
        await other.close()
        may_end.set()
        await first
    assert isinstance(results, ToolTurn)
    assert [result.content for result in results.results] == [OUTCOME_UNKNOWN]


async def test_a_frozen_process_that_wakes_up_leaves_a_branch(door: Door) -> None:
    model = Held("Now.", "Late.", "Then.")
    async with door.serving(model) as served:
        first = ask(served, "First?")
        await model.was_asked.wait()
        store = served.server.catalog.sessions
        held = (await store.lease("", "s", Lease("x", "x", 1.0), 0.0)).other
        assert held is not None
        await store.release("", "s", held)  # its time was up
        second = await ask(served, "Second?")
        model.may_answer.set()
        await first
        last = await ask(served, "Third?")
        row = await store.find("", "s")
        tips = await store.tips("", "s")
    assert (second.status, last.status) == (200, 200)
    assert told(model.heard[-1])[0] == "user: Second?"
    assert "user: First?" not in told(model.heard[-1])
    assert row is not None
    assert [tip.number == row.head for tip in tips].count(True) == 1
    assert len(tips) == 2


async def test_an_end_is_journaled_although_its_session_cannot_be_written(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel("One.")
    async with door.serving(model) as served:

        async def broken(*args: object, **more: object) -> None:
            raise StoreError("catalog.db", "the disk is full")

        monkeypatch.setattr(served.server.catalog.sessions, "add", broken)
        answer = await served.post({"messages": "Hello", "session_id": "s"})
        [end] = await served.ends
    assert answer.status == 503
    assert isinstance(end, RunFinished)


async def test_a_run_is_told_once_to_make_room() -> None:
    told_to_end: list[str] = []
    is_driven = False

    def cancel(run: str, owner: str) -> str | None:
        told_to_end.append(run)
        return run if is_driven else None

    async def find_run(run: str, owner: str) -> None:
        return None

    sessions = SessionHost(MemoryCatalog().sessions, MemoryClaims(), find_run=find_run, cancel=cancel)
    visit = await sessions.enter("ann", SessionWish("s"), "run_1")
    sessions.begin(visit, ["run_1"])
    for _ in range(2):  # no process drives it yet
        visit.hold.make_room(cancel)
    is_driven = True
    for _ in range(3):
        visit.hold.make_room(cancel)
    assert told_to_end == ["run_1"] * 3
    other = asyncio.create_task(sessions.enter("ann", SessionWish("s", on_busy="interrupt"), "run_2"))
    await until(lambda: bool(sessions.leases.lines))
    await visit.leave()
    async with soon():
        await (await other).leave()
    assert told_to_end == ["run_1"] * 3
