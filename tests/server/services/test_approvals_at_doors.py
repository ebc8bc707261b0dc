"""Calls that wait for a person, at every door, plain and streamed: what is asked, each way to decide, and what comes of it."""

from __future__ import annotations

import re

from tests.interaction.doors import Door, soon
from tests.server.approval_doors import (
    EVENT,
    decide,
    deciding,
    pause,
    paused,
    post_decision,
    send,
    waiting,
)
from tests.server.approval_scripts import A_MOMENT, AT_EACH_DOOR, results, script
from tests.server.runs_door import Deleting

from ronda.providers.script import Call
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

# ---- what is asked -------------------------------------------------------------------------------------------------


@AT_EACH_DOOR
async def test_what_waits_says_all_there_is_to_decide_about(door: Door, name: str, stream: bool) -> None:
    async with door.serving(script(), Deleting().tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        listed = await waiting(served)
        others = await waiting(served, key="eve")

    [one] = asked.approvals
    assert re.fullmatch("appr_[0-9a-f]{32}", one["approval_id"])
    assert (one["type"], one["round"], one["arguments"]) == (EVENT, 0, {"path": "/a"})
    assert one["tool"] == {"source": "user", "kind": "custom", "label": "delete"}
    assert one["session_id"]
    assert [{**one, "run_id": two["run_id"], "created_at": two["created_at"]} for two in listed] == listed
    assert others == []


@AT_EACH_DOOR
async def test_the_shape_is_the_doors_own(door: Door, name: str, stream: bool) -> None:
    async with door.serving(script(), Deleting().tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)

    answer = asked.answer
    match name:
        case "chat" | "completions":
            assert (answer["status"], answer["choices"][0]["finish_reason"]) == ("requires_action", "stop")
        case "messages":
            stop = (answer["delta"] if stream else answer)["stop_reason"]
            use = answer["content"][-1]
            assert (stop, use["type"], use["name"], use["input"]) == (
                "pause_turn",
                "server_tool_use",
                "delete",
                {"path": "/a"},
            )
        case "responses":
            [item] = answer["output"]
            assert answer["status"] == "completed"
            assert item == {
                "type": "mcp_approval_request",
                "id": asked.ids[0],
                "server_label": "ronda",
                "name": "delete",
                "arguments": '{"path":"/a"}',
            }
        case _:
            [entry] = answer["outputs"]
            assert (entry["confirmation_status"], entry["name"]) == ("pending", "delete")


# ---- decided by the door's next request ----------------------------------------------------------------------------


@AT_EACH_DOOR
async def test_the_next_request_approves_and_gets_what_came_of_it(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        before = list(files.deleted)
        heard = await decide(served, asked, stream)
        left = await waiting(served)

    assert (before, files.deleted, left) == ([], ["/a"], [])
    assert (heard.status, heard.text, heard.error, heard.end) == (200, "It is gone.", "", "stop")


@AT_EACH_DOOR
async def test_the_next_request_denies(door: Door, name: str, stream: bool) -> None:
    files, model = Deleting(), script()
    message = None if name == "conversations" else "Not that one."
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        heard = await decide(served, await pause(served, name, stream), stream, "deny", message=message)

    assert (heard.text, files.deleted) == ("It is gone.", [])
    assert (message or "not approved") in results(model)


@AT_EACH_DOOR
async def test_what_waits_again_is_told_again(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script("/a", "/b"), files.tool, approval_timeout=A_MOMENT) as served:
        first = await pause(served, name, stream)
        path, body = deciding(first, False)
        _, data, _ = await send(served, path, body)
        second = paused(name, data, False)
        heard = await decide(served, second, stream)

    assert [one["arguments"] for one in second.approvals] == [{"path": "/b"}]
    assert [one["round"] for one in second.approvals] == [1]
    assert (files.deleted, heard.text) == (["/a", "/b"], "It is gone.")


@AT_EACH_DOOR
async def test_two_calls_are_decided_at_once(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    both = asks(Call("delete", {"path": "/a"}), Call("delete", {"path": "/b"}))
    async with door.serving(ScriptedModel(both, says("Done.")), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        heard = await decide(served, asked, stream)

    assert len(asked.ids) == 2
    assert (sorted(files.deleted), heard.text) == (["/a", "/b"], "Done.")


@AT_EACH_DOOR
async def test_an_approval_takes_one_answer(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        await decide(served, asked, stream)
        again = await decide(served, asked, False, "deny")
        status, told = await post_decision(served, asked.ids[0], decision="deny")

    assert (again.status, files.deleted) == (409, ["/a"])
    assert (status, told["status"]) == (404, "not_found")


@AT_EACH_DOOR
async def test_nobody_but_its_owner_decides(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        status, told = await post_decision(served, asked.ids[0], key="eve")
        path, body = deciding(asked, False)
        sent = {"authorization": "Bearer eve", "anthropic-version": "2023-06-01"}
        async with soon(), served.http.post(f"{served.url}/{path}", json=body, headers=sent) as answer:
            refused = answer.status
        before = list(files.deleted)
        heard = await decide(served, asked, stream)

    assert (status, told["status"], refused, before) == (404, "not_found", 404, [])
    assert (heard.text, files.deleted) == ("It is gone.", ["/a"])
