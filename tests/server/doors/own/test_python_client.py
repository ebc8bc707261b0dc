"""The small client, in Python, with a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.interaction.doors import Door, Remembering, Served, soon
from tests.server.runs_door import Deleting

from ronda.client import Client, RondaHttpError
from ronda.client.transport import ServerEvent
from ronda.core.events import Asked
from ronda.providers.script import ScriptedModel, calls, says
from ronda.store.keys import new_key


def client_of(served: Served, key: str | None = None) -> Client:
    return Client(served.url, key)


async def wait_for(call: Any, *places: Any, **fields: Any) -> Any:
    """What the client answers: it waits, so it does so beside the loop that the server is on."""
    async with soon():
        return await asyncio.to_thread(call, *places, **fields)


async def until_asked(served: Served) -> None:
    """Until a run waits for a decision."""
    journal = served.server.runs.journal
    assert isinstance(journal, Remembering)
    async with soon():
        await journal.until(Asked)


def events_of(client: Client, run: str, **fields: Any) -> list[ServerEvent[Any]]:
    return list(client.follow_run(run, **fields))


async def test_a_run_is_started_followed_and_read(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        client = client_of(served)
        started = await wait_for(client.start_runs, input="go")
        run = started["data"][0]["id"]
        events = await wait_for(events_of, client, run)
        found = await wait_for(client.get_run, run)
        listed = await wait_for(client.list_runs, q="go", limit=5, children=False)
        rest = await wait_for(events_of, client, run, after=events[-2].position)
    assert [events[0].event["type"], events[-1].event["type"]] == ["run_started", "run_finished"]
    assert (found["state"], found["result"]) == ("finished", {"text": "Hello.", "tool_calls": []})
    assert [row["id"] for row in listed["data"]] == [run]
    assert rest == events[-1:]


async def test_a_call_that_waits_is_listed_and_decided(door: Door) -> None:
    deleting = Deleting()
    async with door.serving(ScriptedModel(calls("delete", path="x"), says("Gone.")), deleting.tool) as served:
        client = client_of(served)
        run = (await wait_for(client.start_runs, input="go"))["data"][0]["id"]
        await until_asked(served)
        [approval] = (await wait_for(client.list_approvals))["data"]
        decided = await wait_for(client.decide, approval["approval_id"], decision="approve")
        await wait_for(events_of, client, run)
        found = await wait_for(client.get_run, run)
    assert (approval["run_id"], decided) == (run, {"status": "resolved"})
    assert (found["result"]["text"], deleting.deleted) == ("Gone.", ["x"])


async def test_sessions_are_listed_named_copied_and_deleted(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        client = client_of(served)
        await wait_for(client.put_session, "trip to Rome/2", messages=[{"role": "user", "content": "hi"}])
        named = await wait_for(client.change_session, "trip to Rome/2", title="Rome")
        copied = await wait_for(client.fork_session, "trip to Rome/2", id="copy")
        await wait_for(client.delete_session, "trip to Rome/2")
        left = await wait_for(client.list_sessions)
    assert (named["title"], copied["id"], [one["id"] for one in left["data"]]) == ("Rome", "copy", ["copy"])


async def test_what_the_server_refuses_is_an_error_with_its_words(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(RondaHttpError, match="does not exist") as refused:
            await wait_for(client_of(served).get_run, "run_x")
    assert (refused.value.status, refused.value.code, refused.value.param) == (404, "run_not_found", "id")


async def test_the_key_goes_with_every_request(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        key, row = new_key("ann", 0.0)
        await served.server.catalog.keys.add(row)
        me = await wait_for(client_of(served, key).get_me)
        with pytest.raises(RondaHttpError) as refused:
            await wait_for(client_of(served).get_me)
    assert (me["owner"], refused.value.status) == ("ann", 401)
