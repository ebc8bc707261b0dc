"""A result that is too long for a model becomes a file, whatever tool made it. The run gets what reads it; no other run does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.long_results import LONG, MIDDLE, ReadsOn, check_reading, last_result, offered, report
from tests.interaction.upstreams import Upstream, answers
from tests.server.coding import root as root
from tests.server.coding import serving
from tests.server.session_doors import DOORS, SessionDoor

from ronda.core.limits import RESULT_CHARS
from ronda.core.plan import PermissionRule
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.files.reading import READ


async def ask(served: Served, **fields: Any) -> Json:
    body = {"model": "default", "messages": [{"role": "user", "content": "go"}], **fields}
    async with soon(), served.http.post(f"{served.url}/chat/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        found: Json = await answer.json()
        return found


@pytest.mark.parametrize("dialect", DOORS)
async def test_the_rest_is_read_on_every_door(door: Door, dialect: str) -> None:
    model = ReadsOn(calls("report"), calls(READ), says("done"))
    async with door.serving(model, report) as served:
        assert await SessionDoor(served, dialect).ask(("user", "go")) == "done"
    check_reading(model)


async def test_a_result_of_a_callback_and_one_of_a_dispatch_address(door: Door) -> None:
    declared = [{"type": "function", "function": {"name": "report", "parameters": {"type": "object"}}}]
    model = ReadsOn(calls("report"), calls(READ), says("done"))
    async with door.serving(model, callbacks={"report": lambda name, arguments: LONG}) as served:
        await ask(served, tools=declared)
    check_reading(model)
    model = ReadsOn(calls("report"), calls(READ), says("done"))
    async with Upstream(answers(LONG.encode())) as host, door.serving(model, tool_dispatch_url=host.url) as served:
        await ask(served, tools=declared)
    check_reading(model)


async def test_a_result_of_a_shell(door: Door, root: Path) -> None:
    loud = "head -c 200000 /dev/zero | tr '\\\\0' x"
    model = ScriptedModel(calls("mistralrs_shell", commands=[loud], max_output_length=250_000), says("done"))
    async with (
        serving(door, model, root),
        door.http.post(
            f"{door.url}/chat/completions",
            json={"model": "default", "messages": [{"role": "user", "content": "go"}], "enable_shell": True},
        ) as answer,
    ):
        assert answer.status == 200
    assert re.search(r"characters are left out here\. All of them are the file file-", last_result(model.heard[1]))
    assert offered(model) == [True, True]


async def test_a_result_that_is_not_too_long_changes_nothing(door: Door) -> None:
    model = ScriptedModel(calls("report", length=RESULT_CHARS), says("done"))
    async with door.serving(model, report) as served:
        await ask(served)
    assert last_result(model.heard[1]) == LONG[:RESULT_CHARS]
    assert offered(model) == [False, False]


async def test_the_operator_chooses_the_length(door: Door) -> None:
    model = ReadsOn(calls("report"), calls(READ), says("done"))
    async with door.serving(model, report, max_result_chars=10_000) as served:
        await ask(served)
    assert len(last_result(model.heard[1])) < 10_400
    assert json.loads(last_result(model.heard[2]))["text"] == LONG[MIDDLE : MIDDLE + 40]
    plain = ScriptedModel(calls("report"), says("done"))
    async with door.serving(plain, report, max_result_chars=0) as served:
        await ask(served)
    assert last_result(plain.heard[1]) == LONG


async def test_the_file_belongs_to_its_session_and_reads_nothing_else(door: Door) -> None:
    model = ScriptedModel(calls("report"), calls(READ, file_id="file-of-somebody"), says("done"))
    async with door.serving(model, report) as served:
        async with soon(), served.http.get(f"{served.url}/files") as answer:
            assert (await answer.json())["data"] == []
        await ask(served)
        [file] = [one for one in (await files(served)) if one["purpose"] == "tool_result"]
        assert file["bytes"] == len(LONG)
    assert "no file with the id" in last_result(model.heard[2])


async def files(served: Served) -> list[Json]:
    async with soon(), served.http.get(f"{served.url}/files") as answer:
        found: list[Json] = (await answer.json())["data"]
        return found


async def test_the_next_request_of_the_session_may_read_on(door: Door) -> None:
    model = ReadsOn(calls("report"), says("done"), calls(READ), says("read"), says("else"))
    async with door.serving(model, report) as served:
        await ask(served, session_id="s")
        await ask(served, session_id="s", session_mode="append", messages=[{"role": "user", "content": "more"}])
        await ask(served, session_id="other")
    assert json.loads(last_result(model.heard[3]))["text"] == LONG[MIDDLE : MIDDLE + 40]
    assert offered(model) == [False, True, True, True, False]


async def test_a_response_that_goes_on_from_another_may_read_on(door: Door) -> None:
    model = ReadsOn(calls("report"), says("done"), calls(READ), says("read"))
    async with door.serving(model, report) as served:
        door_ = SessionDoor(served, "responses")
        _, first = await door_.send(("user", "go"))
        _, second = await door_.send(("user", "more"), previous_response_id=first["id"])
    assert second["output"][-1]["content"][0]["text"] == "read"
    assert json.loads(last_result(model.heard[3]))["text"] == LONG[MIDDLE : MIDDLE + 40]


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "report"}],
                }
            },
            {},
        ),
        ({}, {"permission": (PermissionRule("deny", tool=READ),)}),
    ],
)
async def test_what_could_not_be_read_on_stays_whole(door: Door, fields: Json, settings: Json) -> None:
    model = ScriptedModel(calls("report"), says("done"))
    async with door.serving(model, report, **settings) as served:
        await ask(served, **fields)
        assert await files(served) == []
    assert last_result(model.heard[1]) == LONG
    assert offered(model) == [False, False]


async def test_people_are_asked_about_reading_on_and_the_run_goes_on_from_the_journal(door: Door) -> None:
    model = ReadsOn(calls("report"), calls(READ), says("done"))
    async with door.serving(model, report, permission=(PermissionRule("ask", tool=READ),)) as served:
        answer = await ask(served, session_id="s")
        [approval] = answer["approvals"]
        decision = {"decision": "approve", "remember_for_session": True}
        url = f"{served.url}/agent/approvals/{approval['approval_id']}"
        async with soon(), served.http.post(url, json=decision) as answered:
            assert answered.status == 200
        await served.all_over()
    check_reading(model)
