"""A run that waits for a person, seen at every door: its answer ends and says so, and the run goes on when a person has
answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.interaction.every_door import NAMES, PATHS, Heard, body_for, read_plain, read_stream
from tests.server.responses_door import connected
from tests.server.runs_door import Deleting, Follower, asked_of, get, post

from ronda.core.events import Answered, Asked, Event, RunFinished, RunStarted
from ronda.journal.sqlite import SqliteJournal
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

AT_EACH_DOOR = pytest.mark.parametrize("name", NAMES)
APPROVAL_ITEMS = frozenset({"mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_call_arguments"})
A_MOMENT = 0.01  # seconds: a time that is over at once
SAYS_NO_AT_ONCE = A_MOMENT / 86400  # the same in days


def script() -> ScriptedModel:
    return ScriptedModel(asks("delete", path="/a"), says("It is gone."))


async def send(served: Served, name: str, body: Json) -> tuple[Heard, dict[str, str]]:
    sent = {"authorization": "Bearer test", "anthropic-version": "2023-06-01"}
    async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=sent) as answer:
        data = await answer.read()
        headers = {key.lower(): value for key, value in answer.headers.items()}
    if not headers["content-type"].startswith("text/event-stream"):
        return read_plain(name, data, answer.status), headers
    return read_stream(name, data), headers


def sse(data: bytes) -> list[tuple[str, Json]]:
    """The name and the JSON of each event of a stream."""
    blocks = [block.split("\n") for block in data.decode().split("\n\n") if block and not block.startswith(":")]
    fields = [dict(line.split(": ", 1) for line in block) for block in blocks]
    return [(one.get("event", ""), json.loads(one["data"])) for one in fields if one["data"] != "[DONE]"]


async def decide(served: Served, run: str, decision: str = "approve", **more: Any) -> int:
    """Answer a run's first question; the status that this got."""
    _, found = await get(served, f"/runs/{run}")
    status, _ = await post(
        served, f"/runs/{run}/answer", {"id": found["questions"][0]["id"], "decision": decision, **more}
    )
    return status


async def until_over(served: Served, run: str) -> Json:
    """How a run stands when it has ended."""
    async with soon():
        await Follower(served, run).read()
    _, found = await get(served, f"/runs/{run}")
    assert isinstance(found, dict)
    return found


@AT_EACH_DOOR
async def test_an_answer_that_waited_long_enough_ends_and_its_run_goes_on_once_somebody_has_decided(
    door: Door, stream: bool, name: str
) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        heard, headers = await send(served, name, body_for(name, stream))
        run = headers["x-ronda-run"]
        _, waiting = await get(served, f"/runs/{run}")
        _, page = await get(served, "/runs?state=waiting")
        before = list(files.deleted)
        status = await decide(served, run)
        ended = await until_over(served, run)

    assert (heard.error, heard.status) == ("", 200)
    assert (waiting["state"], [one["id"] for one in page["data"]], before) == ("waiting", [run], [])
    assert (status, files.deleted) == (200, ["/a"])
    assert (ended["state"], ended["result"]["text"]) == ("finished", "It is gone.")


async def test_a_response_that_waits_is_complete_with_what_is_asked_and_later_with_the_answer(door: Door) -> None:
    async with door.serving(script(), Deleting().tool, approval_timeout=A_MOMENT) as served:
        url = f"{served.url}/responses"
        sent = {"authorization": "Bearer test"}
        async with soon(), served.http.post(url, json=body_for("responses", True), headers=sent) as answer:
            first = sse(await answer.read())
            run = answer.headers["x-ronda-run"]
        response_id = first[0][1]["response"]["id"]
        _, plain = await get(served, f"/responses/{response_id}")
        _, again = await get(served, f"/responses/{response_id}?stream=true")
        await decide(served, run)
        await until_over(served, run)
        _, whole = await get(served, f"/responses/{response_id}?stream=true")
        _, ended = await get(served, f"/responses/{response_id}")

    assert (plain["status"], [item["type"] for item in plain["output"]]) == ("completed", ["mcp_approval_request"])
    assert sse(again) == first
    assert first[-1][1]["response"] == plain
    assert [item["type"] for item in ended["output"]] == ["mcp_call", "message"]
    assert sse(whole)[-1][1]["response"] == ended


async def test_a_connection_is_told_of_a_run_that_waits_and_goes_on(door: Door) -> None:
    model = ScriptedModel(asks("delete", path="/a"), says("Hello."), says("It is gone."))
    files = Deleting()
    async with (
        door.serving(model, files.tool, approval_timeout=A_MOMENT) as served,
        connected(served, hosted=APPROVAL_ITEMS) as socket,
    ):
        await socket.say(input="go")
        events = await socket.rest()
        second = await socket.turn(input="hi")
        [item] = events[-1]["response"]["output"]
        answer = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True}
        third = await socket.turn(input=[answer], previous_response_id=events[0]["response"]["id"])

    assert (events[-1]["type"], item["type"], item["name"]) == ("response.completed", "mcp_approval_request", "delete")
    assert second["type"] == third["type"] == "response.completed"
    assert [item["type"] for item in third["response"]["output"]] == ["mcp_call", "message"]
    assert files.deleted == ["/a"]


async def test_a_conversation_whose_answer_waits_is_busy_until_somebody_has_answered(door: Door) -> None:
    model = ScriptedModel(asks("delete", path="/a"), says("It is gone."), says("You are welcome."))
    async with door.serving(model, Deleting().tool, approval_timeout=A_MOMENT) as served:
        _, headers = await send(served, "conversations", body_for("conversations", False))
        [talk] = (await get(served, "/conversations"))[1]
        address = f"/conversations/{talk['id']}"
        busy, _ = await post(served, address, {"inputs": "thanks", "stream": False})
        await decide(served, headers["x-ronda-run"])
        await until_over(served, headers["x-ronda-run"])
        status, answer = await post(served, address, {"inputs": "thanks", "stream": False})

    assert (busy, status) == (409, 200)
    assert answer["outputs"][-1]["content"] == "You are welcome."


@pytest.mark.parametrize("decision", ["deny", "edit"])
async def test_what_is_decided_later_is_what_happens(door: Door, decision: str) -> None:
    files, model = Deleting(), script()
    answer: Json = {"message": "Not that one."} if decision == "deny" else {"arguments": {"path": "/b"}}
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        _, headers = await send(served, "chat", body_for("chat", False))
        run = headers["x-ronda-run"]
        await decide(served, run, "deny" if decision == "deny" else "approve", **answer)
        ended = await until_over(served, run)
        again, refused = await post(served, f"/runs/{run}/answer", {"id": "appr_x", "decision": "approve"})

    assert (ended["state"], files.deleted) == ("finished", [] if decision == "deny" else ["/b"])
    assert ("Not that one." if decision == "deny" else "deleted /b") in str(model.heard[1][-1])
    assert (again, refused["error"]["code"]) == (409, "run_is_over")


async def test_what_is_remembered_holds_for_a_run_that_nobody_waits_for(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), asks("delete", path="/b"), says("Gone."))
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        _, headers = await send(served, "chat", body_for("chat", False))
        await decide(served, headers["x-ronda-run"], remember=True)
        ended = await until_over(served, headers["x-ronda-run"])

    assert (ended["state"], files.deleted) == ("finished", ["/a", "/b"])


async def test_of_several_choices_the_one_that_waits_is_named(door: Door, stream: bool) -> None:
    model = ScriptedModel(asks("delete", path="/a"), says("No."), says("Gone."))
    async with door.serving(model, Deleting().tool, approval_timeout=A_MOMENT) as served:
        heard, headers = await send(served, "chat", body_for("chat", stream, n=2))
        first, second = headers["x-ronda-run"].split(", ")
        states = [(await get(served, f"/runs/{run}"))[1]["state"] for run in (first, second)]
        _, asked = await get(served, "/agent/approvals")

    waits = first if states[0] == "waiting" else second
    assert sorted(states) == ["finished", "waiting"]
    assert [one["run_id"] for one in asked["data"]] == [waits]
    assert (heard.error, heard.end) == ("", "stop")


# ---- its client, its process and its time ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def waiting_for(served: Served, stream: bool, on_disconnect: str) -> AsyncIterator[str]:
    """A run that waits and whose client goes away at the end of the block."""
    body = body_for("chat", stream, on_disconnect=on_disconnect)
    asking = asyncio.create_task(send(served, "chat", body))
    run, _ = await asked_of(served)
    yield run
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("on_disconnect", ["cancel", "grace:1"])
async def test_a_client_that_leaves_while_its_stream_waits_ends_its_run(door: Door, on_disconnect: str) -> None:
    files = Deleting()
    async with soon(), door.serving(script(), files.tool) as served:
        async with waiting_for(served, True, on_disconnect):
            pass
        await served.all_over()
        [end] = await served.ends

    assert (end.reason, files.deleted) == ("cancelled", [])


async def test_a_detached_run_waits_without_its_client(door: Door, stream: bool) -> None:
    files = Deleting()
    async with soon(), door.serving(script(), files.tool, approval_timeout=0.05) as served:
        async with waiting_for(served, stream, "detach") as run:
            pass
        await served.all_over()  # no process drives it any more
        _, waiting = await get(served, f"/runs/{run}")
        await decide(served, run)
        ended = await until_over(served, run)

    assert (waiting["state"], ended["state"], files.deleted) == ("waiting", "finished", ["/a"])


async def test_a_server_that_stops_leaves_a_run_that_waits_as_it_is(door: Door, stream: bool) -> None:
    files, journal = Deleting(), Remembering()
    async with soon(), door.serving(script(), files.tool, journal=journal) as served:
        asking = asyncio.create_task(send(served, "chat", body_for("chat", stream)))
        run, _ = await asked_of(served)
        await served.server.runs.stop(60.0)  # it has nothing to do that it would need the time for
        heard, _ = await asking
    async with soon(), door.serving(ScriptedModel(says("It is gone.")), files.tool, journal=journal) as served:
        await served.server.recovery.recover_all()
        _, waiting = await get(served, f"/runs/{run}")
        await decide(served, run)
        ended = await until_over(served, run)

    assert (heard.error, heard.end) == ("", "stop")
    assert (waiting["state"], ended["state"], files.deleted) == ("waiting", "finished", ["/a"])


async def test_a_question_that_nobody_answers_closes_by_itself_and_the_run_goes_on(door: Door) -> None:
    files, model = Deleting(), script()
    days = 10 * SAYS_NO_AT_ONCE
    async with soon(), door.serving(model, files.tool, approval_timeout=A_MOMENT, approval_days=days) as served:
        heard, headers = await send(served, "chat", body_for("chat", False))
        journal = served.server.runs.journal
        assert isinstance(journal, Remembering)
        await journal.until(RunFinished)
        _, ended = await get(served, f"/runs/{headers['x-ronda-run']}")

    assert (heard.status, ended["state"], files.deleted) == (200, "finished", [])
    assert "no person approved it in time" in str(model.heard[1][-1])


async def test_a_question_whose_time_was_up_before_the_server_started_closes_then(door: Door) -> None:
    files, journal = Deleting(), Remembering()
    async with soon(), door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        await send(served, "chat", body_for("chat", False))
        [left] = await served.events
    assert isinstance(left[0], RunStarted)
    run = left[0].run
    journal.append(run, [replace(event, expires_at=1.0) if isinstance(event, Asked) else event for event in left])
    journal.release(run, waiting=True)
    async with soon(), door.serving(ScriptedModel(says("Well.")), files.tool, journal=journal) as served:
        await served.server.recovery.recover_all()
        await journal.until(RunFinished)
        events: list[Event] = await journal.read(run)

    assert [event.decision for event in events if isinstance(event, Answered)] == ["expired"]
    assert files.deleted == []


async def test_a_run_that_waits_is_cancelled_although_nobody_drives_it(door: Door) -> None:
    files = Deleting()
    async with soon(), door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        _, headers = await send(served, "responses", body_for("responses", False))
        run = headers["x-ronda-run"]
        steered, _ = await post(served, f"/runs/{run}/steer", {"text": "Hurry."})
        stranger, _ = await post(served, f"/runs/{run}/cancel", key="eve")
        status, cancelled = await post(served, f"/runs/{run}/cancel")
        again, _ = await post(served, f"/runs/{run}/cancel")
        late, _ = await post(served, f"/runs/{run}/answer", {"id": "ask", "decision": "approve"})

    assert (steered, stranger) == (200, 404)
    assert (status, cancelled["state"], again, late, files.deleted) == (200, "cancelled", 409, 409, [])


async def test_a_run_that_is_not_stored_asks_nobody(door: Door, stream: bool) -> None:
    """No person could find it in order to answer."""
    files, model = Deleting(), script()
    async with door.serving(model, files.tool) as served:
        heard, _ = await send(served, "responses", body_for("responses", stream, store=False))

    assert (heard.end, files.deleted) == ("stop", [])
    assert "no person approved it in time" in str(model.heard[1][-1])


async def test_runs_that_wait_are_not_pruned(tmp_path: Any, door: Door) -> None:
    now = [0.0]
    journal = SqliteJournal(str(tmp_path / "journal.db"), max_age=10.0, now=lambda: now[0])
    async with soon(), door.serving(script(), Deleting().tool, journal=journal, approval_timeout=A_MOMENT) as served:
        _, headers = await send(served, "chat", body_for("chat", False))
        await send(served, "chat", body_for("chat", False))  # the newest is never pruned
        now[0] = 1e12
        await journal.prune()
        status, _ = await get(served, f"/runs/{headers['x-ronda-run']}")

    assert status == 200
