"""Runs over HTTP in our own words: which there are, what became of one, what happened in it, and an end to it."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.runs_door import (
    CALLERS,
    HI,
    ask,
    frames,
    get,
    post,
    post_quietly,
)

from ronda import tool
from ronda.core.events import RunFinished
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks
from ronda.wire.own.events import WireEvent, wire_event


@tool
async def look(city: str) -> str:
    """Look at the sky."""
    return f"sky over {city}"


# ---- every door says which runs ---------------------------------------------------------------------------------------

DOORS: dict[str, tuple[str, Json]] = {
    "chat": ("/chat/completions", {"messages": HI}),
    "responses": ("/responses", {"input": "go"}),
    "messages": ("/messages", {"messages": HI, "max_tokens": 9}),
    "agents": ("/agents/completions", {"agent_id": "default", "messages": HI}),
    "conversations": ("/conversations", {"model": "default", "inputs": "go"}),
}


@pytest.mark.parametrize(("path", "body"), DOORS.values(), ids=DOORS.keys())
async def test_every_door_names_its_run(door: Door, path: str, body: Json, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, soon():
        sent = {"authorization": "Bearer test"}
        async with served.http.post(f"{served.url}{path}", json={**body, "stream": stream}, headers=sent) as answer:
            await answer.read()
        status, run = await get(served, f"/runs/{answer.headers['x-ronda-run']}")

    assert (status, run["state"], run["result"]["text"]) == (200, "finished", "Hello.")


async def test_a_door_names_all_its_runs(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served:
        named = (await ask(served, n=2)).split(", ")
        found = [(await get(served, f"/runs/{run_id}"))[1]["result"]["text"] for run_id in named]

    assert sorted(found) == ["A.", "B."]


# ---- one --------------------------------------------------------------------------------------------------------------


async def test_a_run_is_shown_with_its_result_and_its_usage(door: Door) -> None:
    model = ScriptedModel(asks("look", city="Oslo"), says("Cold."))

    async with door.serving(model, look) as served:
        session_id = await ask(served, session_id="s1")
        status, run = await get(served, f"/runs/{session_id}")
        [events] = await served.events

    created, ended = run.pop("created_at"), run.pop("ended_at")
    assert created <= ended
    usage = run.pop("usage")
    assert (usage["tool_calls"], usage["output_tokens"] > 0) == (1, True)
    assert status == 200
    assert run == {
        "object": "run",
        "id": session_id,
        "state": "finished",
        "model": "script:test",
        "agent": None,
        "session": "s1",
        "group": None,
        "parent": None,
        "position": str(len(events) - 1),
        "questions": [],
        "incomplete": [],
        "result": {"text": "Cold.", "tool_calls": []},
        "end": {"reason": "stop", "limit": None, "message": None, "code": None},
        "budget": None,
        "previews": "gone",
    }


async def test_what_the_caller_is_to_run_is_part_of_the_result(door: Door) -> None:
    async with door.serving(ScriptedModel(asks("mine"))) as served:
        call_id = await ask(served, tools=[CALLERS])
        _, run = await get(served, f"/runs/{call_id}")

    [call] = run["result"]["tool_calls"]
    assert (run["state"], call["name"], call["arguments"]) == ("finished", "mine", "{}")


async def test_a_run_that_failed_says_why(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, _ = await post(served, "/chat/completions", {"messages": HI})
        _, page = await get(served, "/runs")
        [listed] = page["data"]
        _, run = await get(served, f"/runs/{listed['id']}")

    assert status >= 500
    assert (run["state"], run["result"], run["end"]["reason"]) == ("failed", None, "failed")
    assert run["end"]["message"]


# ---- whose ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/events"), ("POST", "/cancel")])
async def test_another_owners_run_is_not_there(door: Door, method: str, path: str) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        run_id = await ask(served, key="ann")
        answers = []
        for named in (run_id, "run_nothing"):
            sent = {"authorization": "Bearer bob"}
            async with served.http.request(method, f"{served.url}/runs/{named}{path}", headers=sent) as answer:
                answers.append((answer.status, (await answer.text()).replace(named, "ID")))
        _, page = await get(served, "/runs", key="bob")

    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    assert page["data"] == []


# ---- all --------------------------------------------------------------------------------------------------------------


async def test_runs_are_listed_page_by_page_the_newest_first(door: Door) -> None:
    async with door.serving(ScriptedModel(*[says(str(n)) for n in range(5)])) as served:
        asked = [await ask(served) for _ in range(5)]
        pages = [(await get(served, "/runs?limit=2"))[1]]
        while (after := pages[-1]["next"]) is not None:
            pages.append((await get(served, f"/runs?limit=2&before={after}"))[1])

    assert [[run["id"] for run in page["data"]] for page in pages] == [asked[:2:-1], asked[2:0:-1], asked[:1]]
    assert [page["has_more"] for page in pages] == [True, True, False]


async def test_runs_are_listed_by_state_session_and_agent(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served:
        _, agent = await post(served, "/agents", {"model": "default", "name": "helper", "instructions": "Help."})
        first = await ask(served, session_id="s1")
        second = await ask(served, session_id="s2", model=agent["id"])
        await post(served, "/chat/completions", {"messages": HI})
        found = {}
        for query in ("session=s1", "session=s2", "state=finished", "state=failed", f"agent={agent['id']}", "agent=x"):
            _, page = await get(served, f"/runs?{query}")
            found[query.replace(agent["id"], "helper")] = [run["id"] for run in page["data"]]

    assert found.pop("state=failed") not in ([], [first], [second])
    assert found == {
        "session=s1": [first],
        "session=s2": [second],
        "state=finished": [second, first],
        "agent=helper": [second],
        "agent=x": [],
    }


@pytest.mark.parametrize("query", ["state=asleep", "limit=0", "limit=101", "limit=x", "before=x", "before=-1"])
async def test_a_list_that_cannot_be_is_refused_by_name(door: Door, query: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, body = await get(served, f"/runs?{query}")

    assert (status, body["error"]["param"]) == (400, query.partition("=")[0])


# ---- what happened ----------------------------------------------------------------------------------------------------


async def test_the_events_of_a_run_are_those_of_its_journal(door: Door) -> None:
    async with door.serving(ScriptedModel(asks("look", city="Oslo"), says("Cold.")), look) as served:
        run_id = await ask(served)
        status, body = await get(served, f"/runs/{run_id}/events")
        [events] = await served.events

    found = frames(body)
    expected = [json.loads(msgspec.json.encode(said)) for event in events if (said := wire_event(event)) is not None]
    assert status == 200
    assert [data for _, _, data in found] == expected
    assert [run_id for run_id, _, _ in found] == [str(number) for number in range(len(events))]
    assert [kind for _, kind, _ in found] == [data["type"] for data in expected]
    assert msgspec.json.decode(json.dumps(found[-1][2]), type=WireEvent) == events[-1]


@pytest.mark.parametrize("how", ["after", "header", "both"])
async def test_whoever_comes_back_sees_what_came_after(door: Door, how: str) -> None:
    async with door.serving(ScriptedModel(asks("look", city="Oslo"), says("Cold.")), look) as served:
        run_id = await ask(served)
        _, body = await get(served, f"/runs/{run_id}/events")
        whole = frames(body)
        for at, (position, _, _) in enumerate(whole):
            query = {"after": f"?after={position}", "header": "", "both": "?after=0"}[how]
            headers = {} if how == "after" else {"last-event-id": position}
            status, rest = await get(served, f"/runs/{run_id}/events{query}", **headers)
            if at == len(whole) - 1:
                assert (status, rest) == (204, b"")  # an EventSource does not come again then
            else:
                assert (status, frames(rest)) == (200, whole[at + 1 :])


@pytest.mark.parametrize("position", ["x", "1.x", "-1", "1.2.3"])
async def test_what_is_no_position_is_a_400(door: Door, position: str) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        run_id = await ask(served)
        status, body = await get(served, f"/runs/{run_id}/events?after={position}")

    assert (status, body["error"]["param"]) == (400, "after")


# ---- its end ----------------------------------------------------------------------------------------------------------


async def test_a_run_under_way_is_cancelled(door: Door, stream: bool) -> None:
    started, never = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await never.wait()
        return ""

    async with door.serving(ScriptedModel(asks("wait")), wait) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": stream}))
        await started.wait()
        _, page = await get(served, "/runs?state=running")
        [running] = page["data"]
        _, before = await get(served, f"/runs/{running['id']}")
        status, run = await post(served, f"/runs/{running['id']}/cancel")
        again, refused = await post(served, f"/runs/{running['id']}/cancel")
        await asking
        [events] = await served.events

    assert (before["state"], before["ended_at"], before["result"]) == ("running", None, None)
    assert (status, run["state"], run["end"]["reason"]) == (200, "cancelled", "cancelled")
    assert (again, refused["error"]["code"]) == (409, "run_is_over")
    assert isinstance(events[-1], RunFinished)


@pytest.mark.parametrize(("seconds", "expected"), [(3600.0, "kept"), (0.0, "gone")])
async def test_a_run_says_whether_its_previews_are_kept(door: Door, seconds: float, expected: str) -> None:
    async with door.serving(ScriptedModel(says("Hello.")), keep_previews=seconds) as served:
        run_id = await ask(served, stream=True)
        _, run = await get(served, f"/runs/{run_id}")

    assert run["previews"] == expected
