"""GET /v1/events: one stream of what happens to an owner's runs and sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.interaction.doors import Door, Served, soon
from tests.server.runs_door import HI, Deleting, ask, asked_of, get, post, post_quietly

from ronda.server.services import feed
from ronda.testing import ScriptedModel, calls, says


class Stream:
    """Frames of a stream, one after another."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.last = ""

    async def next(self) -> tuple[str, Any]:
        """The kind and the data of the next event."""
        fields: dict[str, str] = {}
        async for line in self._answer.content:
            text = line.decode().rstrip("\n")
            if not text and fields:
                break
            if text and not text.startswith(":"):
                name, _, value = text.partition(": ")
                fields[name] = value
        self.last = fields["id"]
        return fields["event"], json.loads(fields["data"])

    async def until(self, kind: str) -> Any:
        while True:
            found, data = await self.next()
            if found == kind:
                return data


@asynccontextmanager
async def following(served: Served, query: str = "", key: str = "test", **headers: str) -> AsyncIterator[Stream]:
    sent = {"authorization": f"Bearer {key}", **headers}
    async with soon(), served.http.get(f"{served.url}/events{query}", headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        yield Stream(answer)


async def test_a_run_is_told_from_its_start_to_its_end(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, following(served) as stream:
        ready = await stream.next()
        run = await ask(served, session_id="s1")
        told = [await stream.next()]
        while told[-1][0] != "session_changed":
            told.append(await stream.next())

    runs = [data["run"] for kind, data in told[:-1]]
    assert ready[0] == "ready"
    assert (told[0][0], runs[-1]["id"], runs[-1]["state"]) == ("run_started", run, "finished")
    assert {kind for kind, _ in told[1:-1]} <= {"run_changed"}
    assert told[-1][1]["session"]["id"] == "s1"


async def test_questions_and_answers_are_told(door: Door) -> None:
    deleting = Deleting()
    model = ScriptedModel(calls("delete", path="x"), says("Done."))
    async with door.serving(model, deleting.tool) as served, following(served) as stream:
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        asked = await stream.until("asked")
        run, question = await asked_of(served)
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        answered = await stream.until("answered")
        await asking

    assert (asked["question"]["id"], asked["question"]["tool"]) == (question["id"], "delete")
    assert asked["run"]["id"] == answered["run"]["id"] == run
    assert answered["question"] == {"id": question["id"]}


async def test_changes_of_sessions_are_told(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        await ask(served, session_id="s1")
        async with following(served) as stream:
            await stream.next()
            sent = {"authorization": "Bearer test"}
            async with served.http.patch(f"{served.url}/sessions/s1", json={"title": "T"}, headers=sent) as answer:
                assert answer.status == 200
            changed = await stream.until("session_changed")
            async with served.http.delete(f"{served.url}/sessions/s1", headers=sent) as answer:
                assert answer.status == 200
            deleted = await stream.until("session_changed")

    assert [(one["session"]["id"], one["session"]["deleted"]) for one in (changed, deleted)] == [
        ("s1", False),
        ("s1", True),
    ]


async def test_what_another_owner_does_is_not_told(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served, following(served, key="ann") as stream:
        await stream.next()
        await ask(served, key="bob")
        mine = await ask(served, key="ann")
        kind, data = await stream.next()

    assert (kind, data["run"]["id"]) == ("run_started", mine)


@pytest.mark.parametrize("how", ["after", "header"])
async def test_a_client_that_comes_back_gets_what_it_missed(door: Door, how: str) -> None:
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served:
        async with following(served) as stream:
            await stream.next()
            first = await ask(served)
            await stream.next()
            last = stream.last
        second = await ask(served)
        query, headers = (f"?after={last}", {}) if how == "after" else ("", {"last-event-id": last})
        async with following(served, query, **headers) as stream:
            ready, data = await stream.next()
            started = await stream.until("run_started")

    assert (ready, data["position"]) == ("ready", last)
    assert (started["run"]["id"], first == second) == (second, False)


async def test_a_client_that_fell_behind_or_came_from_elsewhere_is_told(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "KEPT_EVENTS", 2)
    async with door.serving(ScriptedModel(*[says("A.")] * 4)) as served:
        async with following(served) as stream:
            await stream.next()
            begin = stream.last
            for _ in range(4):
                await ask(served)
            while not stream.last.endswith(".4"):
                await stream.next()
        kinds = []
        for after in (begin, "other.3"):
            async with following(served, f"?after={after}") as stream:
                kinds.append((await stream.next())[0])

    assert kinds == ["reset", "reset"]


async def test_the_events_of_named_runs_ride_along(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."), says("More."))) as served:
        run = await ask(served)
        _, body = await get(served, f"/runs/{run}/events")
        expected = body.decode().count("\n\n")
        async with following(served, f"?run={run}") as stream:
            told: list[tuple[str, str, str]] = []
            while len(told) < expected:
                kind, data = await stream.next()
                if kind == "run_event":
                    told.append((data["run"], data["position"], data["event"]["type"]))
            last = stream.last
        async with following(served, f"?run={run}&after={last}") as stream:
            await stream.next()
            await ask(served)
            after = await stream.next()
        missing, refused = await get(served, "/events?run=run_nothing")
        others, _ = await get(served, f"/events?run={run}", key="bob")

    assert [one[0] for one in told] == [run] * expected
    assert (told[0][1:], told[-1][2]) == (("0", "run_started"), "run_finished")
    assert after[0] == "run_started"  # nothing of the run again
    assert (missing, refused["error"]["code"], others) == (404, "run_not_found", 404)


@pytest.mark.parametrize("query", ["after=x", "after=a.1,run", "run=" + ",".join(f"r{n}" for n in range(9))])
async def test_what_cannot_be_is_refused(door: Door, query: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, body = await get(served, f"/events?{query}")

    assert (status, body["error"]["param"]) == (400, query.partition("=")[0])


async def test_too_many_streams_of_one_owner_are_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_FOLLOWERS", 1)
    async with door.serving(ScriptedModel()) as served, following(served) as stream:
        await stream.next()
        status, _ = await get(served, "/events")

    assert status == 429


async def test_without_a_client_nothing_is_watched(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."))) as served:
        await ask(served)
        assert served.server.runs.journal.watchers == ()
