"""Runs that no client waits for: the answer comes at once, and what becomes of them is found later. At every door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for, read_plain, read_stream
from tests.server.runs_door import Stepwise, get, post, under_way
from tests.server.services.test_leaving import Gate

from ronda import tool
from ronda.core.events import ModelFinished, RunFinished, TextDelta
from ronda.core.parts import AssistantTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.server.services.background import LEASE_SECONDS
from ronda.store.memory import MemoryCatalog
from ronda.store.queue import ClaimedRun, QueuedRun, QueueLimits
from ronda.store.sql import Tables
from ronda.store.sql_queue import SqlQueue
from ronda.testing import ScriptedModel, calls, says

AT_EACH_DOOR = pytest.mark.parametrize("name", NAMES)
WITH_OBJECT = pytest.mark.parametrize("name", [name for name in NAMES if name != "conversations"])


class Later:
    """A background run, as the client that asked for it knows it."""

    def __init__(self, served: Served, status: int, headers: dict[str, str], body: Json) -> None:
        self.served = served
        self.status = status
        self.run = headers["x-ronda-run"]
        self.place = headers["location"].removeprefix("/v1")
        self.body = body

    async def get(self, query: str = "") -> Any:
        status, body = await get(self.served, self.place + query)
        assert status == 200, body
        return body

    async def until(self, *statuses: str) -> Json:
        async with soon():
            while True:
                body: Json = await self.get()
                if body["status"] in statuses:
                    return body


async def begin(served: Served, name: str, **more: Any) -> Later:
    body = body_for(name, False, background=True, **more)
    sent = {"authorization": "Bearer test"}
    async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=sent) as answer:
        data = await answer.read()
        assert answer.status in (200, 202), data
        headers = {key.lower(): value for key, value in answer.headers.items()}
        return Later(served, answer.status, headers, json.loads(data))


@AT_EACH_DOOR
async def test_a_background_run_is_answered_at_once_and_found_later(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        later = await begin(served, name)
        await gate.begun.wait()
        meanwhile = await later.get()
        gate.go_on.set()
        over = await later.until("completed")

    assert (later.status, later.body["status"], later.body["progress"]["queue_position"]) == (202, "queued", 0)
    assert (meanwhile["status"], meanwhile["progress"]) == ("in_progress", {"rounds": 1, "tool_calls": 1})
    assert over["progress"] == {"rounds": 2, "tool_calls": 1}
    if name != "conversations":
        assert (later.body["id"], over["id"]) == (meanwhile["id"], meanwhile["id"])
        assert later.place.endswith(over["id"])
        assert read_plain(name, json.dumps(over).encode()).text == "over"


async def test_the_answer_of_a_conversation_is_in_its_history(door: Door) -> None:
    async with door.serving(ScriptedModel(says("over"))) as served:
        later = await begin(served, "conversations")
        await later.until("completed")
        _, history = await get(served, f"{later.place}/history")

    assert later.body["conversation_id"] == later.place.rpartition("/")[2]
    assert [entry["content"] for entry in history["entries"]] == ["go", "over"]


@AT_EACH_DOOR
async def test_a_background_run_can_be_followed(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        later = await begin(served, name)
        await gate.begun.wait()
        following = asyncio.create_task(later.get("?stream=true"))
        gate.go_on.set()
        stream = await following
        again = await later.get("?stream=true")

    assert read_stream(name, stream).text == "over"
    assert again == stream


@AT_EACH_DOOR
async def test_a_background_stream_begins_at_once_and_outlives_its_connection(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    body = body_for(name, True, background=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        sent = {"authorization": "Bearer test"}
        async with served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=sent) as answer:
            status, place = answer.status, answer.headers["location"].removeprefix("/v1")
            await gate.begun.wait()
        gate.go_on.set()
        await served.all_over()
        _, whole = await get(served, f"{place}?stream=true")

    assert status == 200
    assert read_stream(name, whole).text == "over"


@AT_EACH_DOOR
async def test_a_background_stream_says_how_its_run_ended(door: Door, name: str) -> None:
    """It is followed from the queue on: before any process drives its run."""
    async with soon(), door.serving(ScriptedModel(says("over"))) as served:
        body, sent = body_for(name, True, background=True), {"authorization": "Bearer test"}
        async with served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=sent) as answer:
            place, stream = answer.headers["location"].removeprefix("/v1"), await answer.read()
        _, again = await get(served, f"{place}?stream=true")

    assert again == stream
    assert (read_stream(name, stream).text, read_stream(name, stream).end) == ("over", "stop")


async def test_a_response_is_queued_then_in_progress_then_completed(door: Door) -> None:
    body = body_for("responses", True, background=True)
    async with (
        soon(),
        door.serving(ScriptedModel(says("hi"))) as served,
        served.http.post(f"{served.url}/responses", json=body) as answer,
    ):
        stream = await answer.read()

    events = read_stream("responses", stream).events
    assert [kind for kind, _ in events[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert [event["response"]["status"] for _, event in events[:3]] == ["queued", "queued", "in_progress"]
    assert events[-1][1]["response"]["background"] is True


# ---- ends -------------------------------------------------------------------------------------------------------------


@WITH_OBJECT
async def test_a_cancel_stops_the_model_call(door: Door, name: str) -> None:
    model = Stepwise("never", "said")
    async with soon(), door.serving(model) as served:
        later = await begin(served, name)
        await under_way(served)
        status, body = await post(served, f"{later.place}/cancel")
        (end,) = await served.ends
        live = dict(served.server.runs.live)

    assert (status, body["status"], end.reason, live) == (200, "cancelled", "cancelled", {})


@WITH_OBJECT
async def test_a_cancel_stops_tools(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        later = await begin(served, name)
        await gate.begun.wait()
        _, body = await post(served, f"{later.place}/cancel")
        _, again = await post(served, f"{later.place}/cancel")

    assert (body["status"], again["status"], gate.go_on.is_set()) == ("cancelled", "cancelled", False)


@WITH_OBJECT
async def test_one_that_is_deleted_is_gone(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        later = await begin(served, name)
        await gate.begun.wait()
        sent = {"authorization": "Bearer test"}
        async with served.http.delete(served.url + later.place, headers=sent) as answer:
            deleted = await answer.json()
        status, _ = await get(served, later.place)
        queue = await served.server.catalog.queue.list(0.0)

    assert (deleted["deleted"], deleted["id"], status, queue) == (True, later.body["id"], 404, [])


@WITH_OBJECT
async def test_one_that_fails_says_why(door: Door, name: str) -> None:
    async with door.serving(ScriptedModel()) as served:  # which has nothing to say
        later = await begin(served, name)
        over = await later.until("failed")

    assert over["error"]["message"]


# ---- the queue --------------------------------------------------------------------------------------------------------


async def test_a_run_waits_until_the_server_has_room(door: Door) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), says("first"), says("second"), says("third"))
    async with soon(), door.serving(model, gate.tool, background_runs=1) as served:
        first = await begin(served, "chat")
        await gate.begun.wait()
        second, third = await begin(served, "responses"), await begin(served, "messages")
        waiting = [await later.get() for later in (second, third)]
        _, run = await get(served, f"/runs/{third.run}")
        lists = {state: (await get(served, f"/runs?state={state}"))[1]["data"] for state in ("queued", "running", "")}
        gate.go_on.set()
        texts = [
            read_plain(name, json.dumps(await later.until("completed")).encode()).text
            for name, later in (("chat", first), ("responses", second), ("messages", third))
        ]

    assert [body["status"] for body in waiting] == ["queued", "queued"]
    assert [body["progress"]["queue_position"] for body in waiting] == [0, 1]
    assert (run["state"], run["queue_position"]) == ("queued", 1)
    listed = {state: [(one["id"], one["state"]) for one in runs] for state, runs in lists.items()}
    queued, running = [(third.run, "queued"), (second.run, "queued")], [(first.run, "running")]
    assert listed == {"queued": queued, "running": running, "": queued + running}
    assert texts == ["first", "second", "third"]


async def test_a_session_has_one_run_at_a_time(door: Door) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), says("elsewhere"), says("first"), says("second"))
    async with soon(), door.serving(model, gate.tool) as served:
        first = await begin(served, "chat", session_id="mine")
        await gate.begun.wait()
        busy, _ = await post(
            served, "/chat/completions", body_for("chat", False, background=True, session_id="mine", on_busy="reject")
        )
        other = await begin(served, "chat", session_id="another")
        await other.until("completed")
        gate.go_on.set()
        await first.until("completed")
        second = await begin(served, "chat", session_id="mine", session_mode="append")
        await second.until("completed")

    assert busy == 409
    before = [turn.text for turn in model.heard[-1] if isinstance(turn, AssistantTurn)]
    assert before[-1:] == ["first"]  # from which it goes on


@WITH_OBJECT
async def test_one_that_waits_is_cancelled_without_having_begun(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), says("over"))
    async with soon(), door.serving(model, gate.tool, background_runs=1) as served:
        first = await begin(served, "chat")
        await gate.begun.wait()
        later = await begin(served, name)
        following = asyncio.create_task(later.get("?stream=true"))
        _, body = await post(served, f"{later.place}/cancel")
        await following
        gate.go_on.set()
        await first.until("completed")
        _, run = await get(served, f"/runs/{later.run}")

    assert body["status"] == "cancelled"
    assert (run["state"], run["usage"]["input_tokens"], len(model.heard)) == ("cancelled", 0, 2)


@AT_EACH_DOOR
async def test_a_queue_that_is_full_says_so(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), says("over"))
    async with soon(), door.serving(model, gate.tool, background_runs=1, background_queue=1) as served:
        first = await begin(served, "chat")
        await gate.begun.wait()
        second = await begin(served, "chat")
        status, body = await post(served, f"/{PATHS[name]}", body_for(name, False, background=True))
        await post(served, f"{second.place}/cancel")
        gate.go_on.set()
        await first.until("completed")

    assert (status, "1 runs wait already" in json.dumps(body)) == (429, True)


@AT_EACH_DOOR
async def test_places_in_the_queue_are_counted_for_each_owner(door: Door, name: str) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), *[says("over")] * 3)
    settings: dict[str, Any] = {"background_runs": 1, "background_queue": 10, "background_queue_per_owner": 1}
    async with soon(), door.serving(model, gate.tool, **settings) as served:
        first = await begin(served, "chat")
        await gate.begun.wait()
        statuses = []
        for key in ("ann", "ann", "bob"):
            sent = {"authorization": f"Bearer {key}"}
            body = body_for(name, False, background=True)
            async with served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=sent) as answer:
                statuses.append(answer.status)
        gate.go_on.set()
        await first.until("completed")
        await served.all_over()

    assert statuses == [202, 429, 202]


@pytest.mark.parametrize("name", ["responses", "conversations"])
async def test_a_run_that_is_not_stored_cannot_be_queued(door: Door, name: str) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        status, body = await post(served, f"/{PATHS[name]}", body_for(name, False, background=True, store=False))

    assert (status, "background" in json.dumps(body)) == (400, True)


async def test_every_choice_is_found_under_the_answers_id(door: Door) -> None:
    async with soon(), door.serving(ScriptedModel(says("hi"), says("ho"))) as served:
        later = await begin(served, "chat", n=2)
        over = await later.until("completed")

    assert sorted(choice["message"]["content"] for choice in over["choices"]) == ["hi", "ho"]


async def test_what_is_nobodys_answer_is_not_found(door: Door) -> None:
    async with soon(), door.serving(ScriptedModel(says("hi"))) as served:
        later = await begin(served, "chat")
        await later.until("completed")
        digits = later.run.removeprefix("run_")
        found = [
            (await get(served, path, key))[0]
            for path, key in (
                (f"/chat/completions/chatcmpl-{digits}", "another"),
                (f"/messages/msg_{digits}", "test"),
                (f"/agents/completions/{digits}", "test"),
                (f"/responses/resp_{digits}", "test"),
                ("/chat/completions/nothing", "test"),
            )
        ]

    assert found == [404] * 5


async def test_a_run_in_the_queue_has_no_end_yet(door: Door) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), says("over"), says("then"))
    async with soon(), door.serving(model, gate.tool, background_runs=1) as served:
        await begin(served, "chat")
        await gate.begun.wait()
        later = await begin(served, "chat")
        events = await served.server.runs.journal.read(later.run)
        gate.go_on.set()
        await later.until("completed")

    assert not isinstance(events[-1], RunFinished)


class SlowQueue(SqlQueue):
    """Half a second passes with each claim."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.now = self._renewed = 1000.0
        self.longest = 0.0  # seconds between two renewals

    async def claim(
        self, worker: str, limits: QueueLimits, now: float, until: float, limit: int = 1, *, but: Sequence[str] = ()
    ) -> list[ClaimedRun]:
        self.now += 0.5
        self.longest = max(self.longest, self.now - self._renewed)
        await asyncio.sleep(0)  # others have their turn
        return await super().claim(worker, limits, now, until, limit, but=but)

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        self._renewed = self.now
        return await super().renew(worker, until)


async def test_leases_are_renewed_while_much_is_claimed(door: Door) -> None:
    catalog = MemoryCatalog()
    queue = catalog.queue = SlowQueue(catalog)
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait")), gate.tool, catalog=catalog) as served:
        served.server.runs.clock = lambda: queue.now
        driven = await begin(served, "chat")
        await gate.begun.wait()
        for number in range(20):  # runs that are not known any more: they are claimed, and taken off
            await queue.enqueue(QueuedRun(f"run_{number}", "", f"{number}", 1.0), 100)
        served.server.background.look()
        while len(left := await queue.list(queue.now)) > 1 and queue.longest < LEASE_SECONDS:
            await get(served, f"/runs/{driven.run}")
        claims = [(entry.run, entry.position, entry.claims) for entry in left]

    assert claims == [(driven.run, None, 1)]
    assert queue.longest < LEASE_SECONDS


class CountingQueue(SqlQueue):
    renewals = 0

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        self.renewals += 1
        return await super().renew(worker, until)


async def test_leases_are_not_renewed_with_each_run_that_is_over(door: Door) -> None:
    catalog = MemoryCatalog()
    queue = catalog.queue = CountingQueue(catalog)
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait")), gate.tool, catalog=catalog) as served:
        served.server.runs.clock = lambda: 1000.0
        driven = await begin(served, "chat")
        await gate.begun.wait()
        for number in range(20):  # each is claimed, found to be no run, and taken off
            await queue.enqueue(QueuedRun(f"run_{number}", "", f"{number}", 1.0), 100)
        served.server.background.look()
        while len(await queue.list(1000.0)) > 1:
            await get(served, f"/runs/{driven.run}")
        renewals = queue.renewals

    assert renewals <= 1


class Held:
    """A model, and a tool that it may call first: one of them takes longer than any process lives."""

    def __init__(self, what: str) -> None:
        self.begun, self.is_over = asyncio.Event(), asyncio.Event()
        self._script = ScriptedModel(*([] if what == "model" else [calls("wait")]), says("over"))
        self._is_model = what == "model"

        @tool(repeatable=True)
        async def wait() -> str:
            """Wait."""
            await self._wait()
            return "waited"

        self.tool = wait

    async def _wait(self) -> None:
        self.begun.set()
        await self.is_over.wait()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if self._is_model:
            show([TextDelta("over ")])
            await self._wait()
        return await self._script.call(request, show)


@pytest.mark.parametrize("what", ["model", "tool"])
async def test_servers_that_end_in_order_are_no_crash_loop(door: Door, what: str) -> None:
    journal, catalog, held = Remembering(), MemoryCatalog(), Held(what)
    async with soon(), door.serving(held, held.tool, journal=journal, catalog=catalog) as served:
        later = await begin(served, "responses")
        await held.begun.wait()
    status = "in_progress"
    for _ in range(5):
        held.begun.clear()
        async with soon(), door.serving(held, held.tool, journal=journal, catalog=catalog) as served:
            served.server.background.start()
            while not held.begun.is_set() and status != "failed":
                status = (await get(served, later.place))[1]["status"]
    async with soon(), door.serving(held, held.tool, journal=journal, catalog=catalog) as served:
        held.is_over.set()
        served.server.background.start()
        later.served = served
        over = await later.until("completed", "failed")

    assert (over["status"], over["error"]) == ("completed", None)
