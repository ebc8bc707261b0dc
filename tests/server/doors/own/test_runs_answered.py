"""A say in a run: an answer to what it asks, an end to it, a word to its model."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.interaction.doors import Door, Json, Remembering, soon
from tests.server.runs_door import (
    HI,
    Deleting,
    Follower,
    asked_of,
    frames,
    get,
    post,
    post_quietly,
)

from ronda import tool
from ronda.core.events import Steered
from ronda.core.parts import user
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

ANSWERS: dict[str, tuple[Json, list[str], str]] = {
    "approved": ({"decision": "approve"}, ["/a"], "deleted /a"),
    "denied": ({"decision": "deny", "message": "Not that one."}, [], "Not that one."),
    "edited": ({"decision": "approve", "arguments": {"path": "/b"}}, ["/b"], "deleted /b"),
}


@pytest.mark.parametrize(("answer", "deleted", "heard"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_call_waits_for_an_answer(door: Door, answer: Json, deleted: list[str], heard: str) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Well."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(served.ask(stream=True))
        run, question = await asked_of(served)
        _, waiting = await get(served, f"/runs/{run}")
        while not (listed := (await get(served, "/runs?state=waiting"))[1]["data"]):
            pass  # it is asked a moment before it waits
        assert files.deleted == []
        status, _ = await post(served, f"/runs/{run}/answer", {"id": question["id"], **answer})
        said = await asking
        again, refused = await post(served, f"/runs/{run}/answer", {"id": question["id"], **answer})
        _, body = await get(served, f"/runs/{run}/events")

    assert [(one["id"], one["state"]) for one in listed] == [(run, "waiting")]
    assert (waiting["state"], question["kind"], question["tool"]) == ("waiting", "approval", "delete")
    assert json.loads(question["arguments"]) == {"path": "/a"}
    assert (status, said.content, files.deleted) == (200, "Well.", deleted)
    assert heard in str(model.heard[1][-1])
    assert (again, refused["error"]["code"]) == (409, "run_is_over")
    assert [kind for _, kind, _ in frames(body) if kind in ("asked", "answered")] == ["asked", "answered"]


async def test_what_is_remembered_is_not_asked_again(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), asks("delete", path="/b"), says("Done."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(served.ask(stream=False))
        run, question = await asked_of(served)
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve", "remember": True})
        await asking

    assert files.deleted == ["/a", "/b"]


async def test_a_question_that_nobody_answers_counts_as_a_no(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Well."))
    async with door.serving(model, files.tool, approval_days=0.01 / 86400) as served, soon():
        said = await served.ask(stream=True)

    assert (said.content, files.deleted) == ("Well.", [])


WRONG_ANSWERS: dict[str, tuple[Json, int, str | None]] = {
    "no id": ({"decision": "approve"}, 400, "id"),
    "no decision": ({"id": "QUESTION"}, 400, "decision"),
    "another decision": ({"id": "QUESTION", "decision": "perhaps"}, 400, "decision"),
    "another question": ({"id": "ask_nothing", "decision": "approve"}, 404, "id"),
    "arguments that do not fit": (
        {"id": "QUESTION", "decision": "approve", "arguments": {"path": 5}},
        400,
        "arguments",
    ),
}


@pytest.mark.parametrize(("answer", "status", "param"), WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
async def test_an_answer_that_cannot_be_taken_leaves_the_question_open(
    door: Door, answer: Json, status: int, param: str | None
) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Well."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(served.ask(stream=False))
        run, question = await asked_of(served)
        filled = {name: question["id"] if value == "QUESTION" else value for name, value in answer.items()}
        got, body = await post(served, f"/runs/{run}/answer", filled)
        stranger, _ = await post(
            served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"}, key="eve"
        )
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await asking

    assert (got, body["error"]["param"]) == (status, param)
    assert stranger == 404
    assert files.deleted == ["/a"]


async def test_a_run_that_waits_can_be_cancelled(door: Door) -> None:
    files = Deleting()
    async with door.serving(ScriptedModel(asks("delete", path="/a")), files.tool) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        run, _ = await asked_of(served)
        status, cancelled = await post(served, f"/runs/{run}/cancel")
        await asking

    assert (status, cancelled["state"], files.deleted) == (200, "cancelled", [])


async def test_an_answer_goes_on_with_a_run_whose_process_is_gone(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Done."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        run, question = await asked_of(served)
        [events] = await served.events
        await post(served, f"/runs/{run}/cancel")
        await asking
    left = Remembering()
    left.append(run, events)
    left.release(run, waiting=True)

    async with door.serving(model, files.tool, journal=left) as served, soon():
        _, waiting = await get(served, f"/runs/{run}")
        _, page = await get(served, "/runs?state=waiting")
        wrong, _ = await post(served, f"/runs/{run}/answer", {"id": "ask_nothing", "decision": "approve"})
        status, _ = await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await Follower(served, run).read()
        _, ended = await get(served, f"/runs/{run}")

    assert (waiting["state"], [one["id"] for one in page["data"]]) == ("waiting", [run])
    assert (wrong, status, files.deleted) == (404, 200, ["/a"])
    assert (ended["state"], ended["result"]["text"]) == ("finished", "Done.")


async def test_a_run_is_steered(door: Door) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await go_on.wait()
        return "waited"

    model = ScriptedModel(asks("wait"), says("Shorter."))
    async with door.serving(model, wait) as served, soon():
        asking = asyncio.create_task(served.ask(stream=False))
        await started.wait()
        [run] = served.server.runs.live
        empty, refused = await post(served, f"/runs/{run}/steer", {})
        status, _ = await post(served, f"/runs/{run}/steer", {"text": "Make it short."})
        go_on.set()
        await asking
        over, _ = await post(served, f"/runs/{run}/steer", {"text": "Too late."})

    assert (empty, refused["error"]["param"]) == (400, "text")
    assert (status, over) == (200, 409)
    assert model.heard[1][-1] == user("Make it short.")


async def test_what_is_said_to_a_run_that_waits_is_kept_until_it_continues(door: Door) -> None:
    """No process drives it: the words are in the journal, and outlive another process that dies before the decision."""
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Shorter."))
    async with door.serving(model, files.tool, approval_timeout=0.01) as served, soon():
        await post_quietly(served, {"messages": HI})
        run, question = await asked_of(served)
        await served.all_over()
        status, told = await post(served, f"/runs/{run}/steer", {"text": "Make it short."})
        await served.all_over()
        _, waiting = await get(served, f"/runs/{run}")
        [events] = await served.events

    assert (status, told["state"], waiting["state"]) == (200, "waiting", "waiting")
    assert [event.turn for event in events if isinstance(event, Steered)] == [user("Make it short.")]
    left = Remembering()
    left.append(run, events)
    left.release(run, waiting=True)
    async with door.serving(model, files.tool, journal=left) as served, soon():
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await Follower(served, run).read()
        over, _ = await post(served, f"/runs/{run}/steer", {"text": "Too late."})

    assert (over, files.deleted) == (409, ["/a"])
    assert model.heard[1][-1] == user("Make it short.")


@pytest.mark.parametrize("is_left", [False, True], ids=["driven", "left"])
async def test_a_question_takes_one_answer(door: Door, is_left: bool) -> None:
    """Also while the run goes on waiting for another: the first answer stands."""
    files = Deleting()
    both = asks(Call("delete", {"path": "/a"}), Call("delete", {"path": "/b"}))
    timeout = 0.01 if is_left else 600.0
    async with door.serving(ScriptedModel(both, says("Well.")), files.tool, approval_timeout=timeout) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        run, first = await asked_of(served)
        if is_left:
            await asking
        status, _ = await post(served, f"/runs/{run}/answer", {"id": first["id"], "decision": "deny"})
        again, refused = await post(served, f"/runs/{run}/answer", {"id": first["id"], "decision": "approve"})
        _, waiting = await get(served, f"/runs/{run}")
        [second] = waiting["questions"]
        await post(served, f"/runs/{run}/answer", {"id": second["id"], "decision": "approve"})
        await asking
        await served.all_over()

    assert (status, again) == (200, 409)
    assert first["id"] in refused["error"]["message"]
    assert files.deleted == ["/b"]


async def test_a_question_says_why_it_is_asked_and_what_arguments_look_like(door: Door) -> None:
    deleting = Deleting()
    async with door.serving(ScriptedModel(asks("delete", path="x"), says("Done.")), deleting.tool) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        run, question = await asked_of(served)
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await asking
        _, body = await get(served, f"/runs/{run}/events")

    [told] = [data for _, kind, data in frames(body) if kind == "asked"]
    assert told["parameters"] == question["parameters"]
    assert question["parameters"]["properties"] == {"path": {"type": "string"}}
    assert told.get("cause", "permission") == "permission"
