"""Calls that wait for a person, decided at /v1/agent/approvals: once, in time, and by their owner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.server.approval_doors import (
    decide,
    deciding,
    pause,
    paused,
    post_decision,
    send,
    until_asked,
    waiting,
    watch,
)
from tests.server.approval_scripts import A_MOMENT, AT_EACH_DOOR, results, script, until_over
from tests.server.runs_door import Deleting, post

from ronda.core.events import RunFinished
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

DECISIONS: dict[str, tuple[Json, list[str], str]] = {
    "approve": ({"decision": "approve"}, ["/a"], "deleted /a"),
    "deny": ({"decision": "deny", "message": "Not that one."}, [], "Not that one."),
    "edit": ({"decision": "approve", "arguments": {"path": "/c"}}, ["/c"], "deleted /c"),
}


@AT_EACH_DOOR
@pytest.mark.parametrize(("body", "deleted", "read"), DECISIONS.values(), ids=DECISIONS)
async def test_a_stream_waits_and_goes_on(door: Door, name: str, body: Json, deleted: list[str], read: str) -> None:
    files, model = Deleting(), script()
    answers: list[tuple[int, Json]] = []
    async with door.serving(model, files.tool) as served:

        async def decide(asked: Json) -> None:
            answers.append(await post_decision(served, asked["approval_id"], **body))

        heard = await watch(served, name, decide)

    assert answers == [(200, {"status": "resolved"})]
    assert (heard.text, heard.end, files.deleted) == ("It is gone.", "stop", deleted)
    assert read in results(model)
    assert not any("approvals" in event or "approvals" in event.get("response", {}) for _, event in heard.events)
    phases = [event.get("agentic_tool_call_progress", event).get("phase") for _, event in heard.events]
    if name != "conversations":
        assert [phase for phase in phases if phase] == ["calling", "complete"]


@AT_EACH_DOOR
@pytest.mark.parametrize(("body", "deleted", "read"), DECISIONS.values(), ids=DECISIONS)
async def test_a_paused_run_goes_on_by_itself(
    door: Door, name: str, stream: bool, body: Json, deleted: list[str], read: str
) -> None:
    files, model = Deleting(), script()
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        [listed] = await waiting(served)
        answer = await post_decision(served, asked.ids[0], **body)
        ended = await until_over(served, listed["run_id"])

    assert answer == (200, {"status": "resolved"})
    assert (ended["result"]["text"], files.deleted) == ("It is gone.", deleted)
    assert read in results(model)


@AT_EACH_DOOR
async def test_what_is_remembered_is_not_asked_again(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script("/a", "/b"), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        [listed] = await waiting(served)
        await post_decision(served, asked.ids[0], remember_for_session=True)
        ended = await until_over(served, listed["run_id"])

    assert (ended["state"], files.deleted) == ("finished", ["/a", "/b"])


@AT_EACH_DOOR
async def test_what_nobody_decides_expires(door: Door, name: str, stream: bool) -> None:
    files, model = Deleting(), script()
    days = 1 / 86400  # a second: on a busy machine it takes some of it until the client is told about the question
    async with soon(), door.serving(model, files.tool, approval_timeout=0.0, approval_days=days) as served:
        asked = await pause(served, name, stream)
        journal = served.server.runs.journal
        assert isinstance(journal, Remembering)
        await journal.until(RunFinished)
        status, _ = await post_decision(served, asked.ids[0])

    assert (status, files.deleted) == (404, [])
    assert "no person approved it in time" in results(model)


@AT_EACH_DOOR
async def test_an_operator_may_deny_what_nobody_decides_while_the_stream_waits(door: Door, name: str) -> None:
    files, model = Deleting(), script()
    config: Json = {"approval_timeout": A_MOMENT, "on_approval_timeout": "deny"}
    async with soon(), door.serving(model, files.tool, **config) as served:
        heard = await watch(served, name)

    assert (heard.text, heard.end, files.deleted) == ("It is gone.", "stop", [])
    assert "no person approved it in time" in results(model)


WRONG: dict[str, tuple[Any, int, str]] = {
    "no decision": ({"decision": None}, 400, "decision"),
    "another word": ({"decision": "perhaps"}, 400, "decision"),
    "arguments that do not fit": ({"arguments": {"path": 5}}, 400, "arguments"),
    "arguments that are no object": ({"arguments": "x"}, 400, "arguments"),
    "arguments of a no": ({"decision": "deny", "arguments": {"path": "/b"}}, 400, "arguments"),
}


@pytest.mark.parametrize(("body", "status", "param"), WRONG.values(), ids=WRONG)
async def test_a_decision_that_makes_no_sense_leaves_the_question_open(
    door: Door, body: Json, status: int, param: str
) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, "chat", False)
        refused, told = await post_decision(served, asked.ids[0], **body)
        door_status, told_by_door = await post_by_chat(served, [{"id": asked.ids[0], "decision": "approve", **body}])
        heard = await decide(served, asked, False)

    if "decision" in body and body["decision"] is None:  # at a door: go on waiting for what others decide
        assert (door_status, told_by_door["status"]) == (200, "requires_action")
        assert [one["approval_id"] for one in told_by_door["approvals"]] == asked.ids
    else:
        assert (door_status, told_by_door["error"]["param"].rpartition(".")[2]) == (status, param)

    assert (refused, told["error"]["param"]) == (status, param)
    assert (heard.text, files.deleted) == ("It is gone.", ["/a"])


async def post_by_chat(served: Served, approvals: list[Json]) -> tuple[int, Json]:
    return await post(served, "/chat/completions", {"messages": [], "approvals": approvals})


async def test_of_two_decisions_of_which_one_makes_no_sense_none_is_taken(door: Door) -> None:
    files = Deleting()
    both = asks(Call("delete", {"path": "/a"}), Call("delete", {"path": "/b"}))
    async with door.serving(ScriptedModel(both, says("Done.")), files.tool) as served:
        asked = await pause(served, "chat", False)
        first, second = asked.ids
        good: Json = {"id": first, "decision": "approve"}
        status, _ = await post_by_chat(served, [good, {"id": second, "decision": "approve", "arguments": {"path": 5}}])
        unknown, _ = await post_by_chat(served, [good, {"id": "appr_other", "decision": "approve"}])
        twice, _ = await post_by_chat(served, [good, good])
        left = await waiting(served)

    assert (status, unknown, twice) == (400, 404, 400)
    assert (len(left), files.deleted) == (2, [])


async def test_a_door_does_not_decide_for_another(door: Door) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool) as served:
        asked = await pause(served, "messages", False)
        status, refused = await post_by_chat(served, [{"id": asked.ids[0], "decision": "approve"}])

    assert (status, refused["error"]["code"], files.deleted) == (400, "approval_of_another_api", [])


@pytest.mark.parametrize("name", ["chat", "messages", "completions"])
async def test_a_request_that_decides_nothing_waits_for_what_others_decide(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool) as served:
        asked = await pause(served, name, False)
        path, body = deciding(asked, stream)
        body["approvals"] = [{"id": asked.ids[0]}] if name != "messages" else []
        asking = asyncio.create_task(send(served, path, body))
        await asyncio.sleep(0)
        await post_decision(served, asked.ids[0])
        status, data, _ = await asking

    assert (status, files.deleted) == (200, ["/a"])
    assert b"It is gone." in data


async def test_a_message_that_is_sent_back_while_nobody_has_decided_pauses_again(door: Door) -> None:
    async with door.serving(script(), Deleting().tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, "messages", False)
        path, body = deciding(asked, False)
        del body["approvals"]
        _, data, _ = await send(served, path, body)

    again = paused("messages", data, False)
    assert (again.answer["stop_reason"], again.ids) == ("pause_turn", asked.ids)


async def test_a_stream_that_waits_is_among_what_waits(door: Door) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool) as served:
        asking = asyncio.create_task(served.ask(stream=True))
        one = await until_asked(served)
        await post_decision(served, one["approval_id"])
        said = await asking

    assert (said.content, files.deleted) == ("It is gone.", ["/a"])
