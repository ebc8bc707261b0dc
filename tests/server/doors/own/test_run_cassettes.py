"""Runs of a server, written down from its journal: whatever happened in them, they can be played."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.interaction.doors import Door, soon
from tests.interaction.every_door import NAMES, PATHS, body_for, tool_of
from tests.interaction.long_results import ReadsOn, report
from tests.server.runs_door import CALLERS, HI, Deleting, Stepwise, ask, asked_of, get, post, post_quietly

from ronda.agent.cassettes.cassette import parse_cassette
from ronda.agent.cassettes.replay import ReplayResult, replay
from ronda.testing import ScriptedModel, calls, fails, says
from ronda.tools.files.reading import READ


async def played(served: Any, run: str) -> ReplayResult:
    status, body = await get(served, f"/runs/{run}/cassette")
    assert status == 200, body
    assert b"Bearer" not in body
    return await replay(parse_cassette(body, run))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_run_of_any_door_can_be_played(door: Door, name: str, stream: bool) -> None:
    async with door.serving(ScriptedModel(calls("mine", text="Hm."))) as served:
        body = body_for(name, stream, [tool_of("mine")])
        async with served.http.post(
            f"{served.url}/{PATHS[name]}", json=body, headers={"authorization": "Bearer test"}
        ) as answer:
            await answer.read()
            run = answer.headers["x-ronda-run"]
        found = await played(served, run)

    assert found.run.ended is not None
    assert (found.run.ended.reason, found.broken_off) == ("tool_calls", None)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_said_while_a_model_answered_is_said_again(door: Door, stream: bool) -> None:
    model = Stepwise("It ", "is", ".")
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": stream}))
        await model.is_asked.wait()
        [run] = served.server.runs.live
        model.step()
        assert (await post(served, f"/runs/{run}/steer", {"text": "Shorter."}))[0] == 200
        for _ in range(10):
            model.step()
        await asking
        found = await played(served, run)

    assert (found.run.steered, found.broken_off) == (1, None)
    assert found.run.ended is not None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "lines",
    [
        (fails("busy", 503, 0.0), says("at last")),
        (says("cut", cut=True), says("again")),
        (calls("mine", "mine"), says("x")),
        (says("long", stop="length"),),
        (calls("nothing"), says("oh")),
        ({"calls": [{"name": "mine", "arguments": '{"a": '}]}, says("x")),
    ],
    ids=["tried again", "broke off", "two calls", "length", "no such tool", "no JSON"],
)
async def test_what_went_wrong_goes_wrong_again(door: Door, lines: Any, stream: bool) -> None:
    async with door.serving(ScriptedModel(*lines)) as served:
        body = {"messages": [{"role": "user", "content": "go"}], "tools": [CALLERS], "stream": stream}
        sent = {"authorization": "Bearer test"}
        async with served.http.post(f"{served.url}/chat/completions", json=body, headers=sent) as answer:
            await answer.read()
            run = answer.headers["x-ronda-run"]
        (end,) = await served.ends
        found = await played(served, run)

    assert found.run.ended is not None
    assert found.run.ended == end


async def test_what_a_person_decided_is_played(door: Door) -> None:
    deleting = Deleting()
    async with door.serving(ScriptedModel(calls("delete", path="a"), says("done")), deleting.tool) as served:
        _, body = await post(served, "/chat/completions", {**body_for("chat", False), "background": True})
        run, question = await asked_of(served)
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await served.all_over()
        found = await played(served, run)

    assert (deleting.deleted, found.broken_off, body["status"]) == (["a"], None, "queued")


async def test_a_run_is_nobody_elses_to_write_down(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        run = await ask(served)
        status, _ = await get(served, f"/runs/{run}/cassette", "another")

    assert status == 404


async def test_a_result_that_was_too_long_is_played_with_what_read_it(door: Door) -> None:
    model = ReadsOn(calls("report"), calls(READ), says("done"))
    async with door.serving(model, report) as served:
        body = {"messages": [{"role": "user", "content": "go"}]}
        sent = {"authorization": "Bearer test"}
        async with served.http.post(f"{served.url}/chat/completions", json=body, headers=sent) as answer:
            await answer.read()
            run = answer.headers["x-ronda-run"]
        found = await played(served, run)

    assert found.run.ended is not None
    assert (found.run.ended.reason, found.broken_off, READ in found.run.tools) == ("stop", None, True)
