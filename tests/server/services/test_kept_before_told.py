"""What a client is told was taken is in the journal by then: approvals, answers, what the model is to hear, and ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.server.approval_doors import KEYS, deciding, pause, post_decision
from tests.server.approval_scripts import A_MOMENT, AT_EACH_DOOR, script, until_over
from tests.server.runs_door import HI, Deleting, Stepwise, asked_of, get, post, post_quietly, under_way
from tests.server.services.test_leaving import Gate

from ronda.core.events import Answered, ModelFinished, RunFinished, Steered
from ronda.core.parts import user
from ronda.store import StoreError
from ronda.testing import Call, ScriptedModel, says
from ronda.testing import calls as asks


class Slow(Remembering):
    """Keeps events when it is told to, or never: a barrier behind one of this kind waits for it."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind = kind
        self.is_asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.problem: StoreError | None = None

    async def barrier(self, run: str) -> None:
        if any(type(event) is self.kind for event in await self.read(run)):
            self.is_asked.set()
            await self.go_on.wait()
            if self.problem is not None:
                raise self.problem


async def told_when_kept(journal: Slow, asking: asyncio.Task[tuple[int, Any]]) -> tuple[bool, int, Any]:
    """Whether the answer was out before the journal had what it acknowledges; and the answer."""
    await journal.is_asked.wait()
    for _ in range(5):  # enough for what does not wait
        await asyncio.sleep(0)
    was_early = asking.done()
    journal.go_on.set()
    return was_early, *await asking


# ---- approvals and answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [A_MOMENT, 600.0], ids=["left", "driven"])
@pytest.mark.parametrize("address", ["approvals", "runs"])
async def test_an_approval_is_acknowledged_when_it_is_kept(door: Door, timeout: float, address: str) -> None:
    files, journal = Deleting(), Slow(Answered)
    async with door.serving(script(), files.tool, journal=journal, approval_timeout=timeout) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": timeout > 1}))
        run, question = await asked_of(served)
        if timeout < 1:
            await asking
        if address == "runs":
            answer = post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        else:
            answer = post_decision(served, question["id"], decision="approve")
        was_early, status, _ = await told_when_kept(journal, asyncio.create_task(answer))
        await asking
        await until_over(served, run)

    assert (was_early, status, files.deleted) == (False, 200, ["/a"])


@AT_EACH_DOOR
async def test_an_approval_that_cannot_be_kept_is_not_acknowledged(door: Door, name: str) -> None:
    files, journal = Deleting(), Slow(Answered)
    journal.problem = StoreError("somewhere", "it is away")
    journal.go_on.set()
    async with door.serving(script(), files.tool, journal=journal, approval_timeout=A_MOMENT) as served, soon():
        asked = await pause(served, name, False)
        path, body = deciding(asked, False)
        async with served.http.post(f"{served.url}/{path}", json=body, headers=KEYS) as answer:
            status, text = answer.status, await answer.text()

    assert (status, files.deleted) == (503, []), text


# ---- what the model is to hear ---------------------------------------------------------------------------------------


async def test_what_is_said_while_a_model_answers_is_kept_at_once(door: Door) -> None:
    journal, model = Slow(Steered), Stepwise("It ", "is", ".")
    async with door.serving(model, journal=journal) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        model.step()
        saying = asyncio.create_task(post(served, f"/runs/{run}/steer", {"text": "Shorter."}))
        was_early, status, _ = await told_when_kept(journal, saying)
        kept = (await journal.read(run))[-1]
        for _ in range(10):
            model.step()
        await asking
        events = await journal.read(run)

    assert isinstance(kept, Steered)
    assert (was_early, status, kept.turn) == (False, 200, user("Shorter."))
    assert [type(event) for event in events].count(ModelFinished) == 2  # the answer was not the last one
    assert isinstance(events[-1], RunFinished)


async def test_what_is_said_while_a_tool_runs_is_kept_at_once(door: Door) -> None:
    journal, gate, other = Slow(Steered), Gate(cares=True), Gate(cares=True)
    model = ScriptedModel(asks("wait"), says("Done."))
    async with door.serving(model, gate.tool, journal=journal) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        await gate.begun.wait()
        [run] = served.server.runs.live
        saying = asyncio.create_task(post(served, f"/runs/{run}/steer", {"text": "Shorter."}))
        was_early, status, _ = await told_when_kept(journal, saying)
        gate.go_on.set()
        await asking

    assert (was_early, status, other.begun.is_set()) == (False, 200, False)
    assert model.heard[1][-1] == user("Shorter.")


async def test_what_is_said_and_cannot_be_kept_is_not_acknowledged(door: Door) -> None:
    journal, gate = Slow(Steered), Gate(cares=True)
    journal.problem = StoreError("somewhere", "it is away")
    journal.go_on.set()
    async with door.serving(ScriptedModel(asks("wait"), says("Done.")), gate.tool, journal=journal) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        await gate.begun.wait()
        [run] = served.server.runs.live
        status, _ = await post(served, f"/runs/{run}/steer", {"text": "Shorter."})
        gate.go_on.set()
        await asking

    assert status == 503


# ---- ends ------------------------------------------------------------------------------------------------------------


async def begun(served: Served, gate: Gate, **more: Any) -> tuple[str, asyncio.Task[None]]:
    asking = asyncio.create_task(post_quietly(served, {"messages": HI, **more}))
    await gate.begun.wait()
    [run] = served.server.runs.live
    return run, asking


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"on_disconnect": "detach", "stream": True}])
async def test_a_cancel_is_acknowledged_when_the_end_is_kept(door: Door, more: Json) -> None:
    journal, gate = Slow(RunFinished), Gate(cares=True)
    async with door.serving(ScriptedModel(asks("wait"), says("Done.")), gate.tool, journal=journal) as served, soon():
        run, asking = await begun(served, gate, **more)
        was_early, status, ended = await told_when_kept(
            journal, asyncio.create_task(post(served, f"/runs/{run}/cancel"))
        )
        await asking

    assert (was_early, status, ended["state"]) == (False, 200, "cancelled")


async def test_a_cancel_whose_end_cannot_be_kept_is_not_acknowledged(door: Door) -> None:
    journal, gate = Slow(RunFinished), Gate(cares=True)
    journal.problem = StoreError("somewhere", "it is away")
    journal.go_on.set()
    async with door.serving(ScriptedModel(asks("wait"), says("Done.")), gate.tool, journal=journal) as served, soon():
        run, asking = await begun(served, gate)
        status, _ = await post(served, f"/runs/{run}/cancel")
        await asking

    assert status == 503


async def test_a_cancel_of_a_run_that_waits_is_acknowledged_when_the_end_is_kept(door: Door) -> None:
    files, journal = Deleting(), Slow(RunFinished)
    async with door.serving(script(), files.tool, journal=journal, approval_timeout=A_MOMENT) as served, soon():
        await post_quietly(served, {"messages": HI})
        run, _ = await asked_of(served)
        was_early, status, ended = await told_when_kept(
            journal, asyncio.create_task(post(served, f"/runs/{run}/cancel"))
        )

    assert (was_early, status, ended["state"]) == (False, 200, "cancelled")


# ---- all of it, or nothing -------------------------------------------------------------------------------------------


async def test_of_several_decisions_all_are_taken_or_none(door: Door) -> None:
    """The second cannot be taken: its question stays open, and so does the first."""
    files = Deleting()
    both = asks(Call("delete", {"path": "/a"}), Call("delete", {"path": "/b"}))
    async with (
        door.serving(ScriptedModel(both, says("Well.")), files.tool, approval_timeout=A_MOMENT) as served,
        soon(),
    ):
        asked = await pause(served, "chat", False)
        first, second = asked.ids
        wrong = [{"id": first, "decision": "approve"}, {"id": second, "decision": "approve", "arguments": {"x": 1}}]
        twice = [{"id": first, "decision": "approve"}, {"id": first, "decision": "deny"}]
        refused = [
            (await post(served, "/chat/completions", {"messages": [], "approvals": one}))[0] for one in (wrong, twice)
        ]
        [run] = [one["id"] for one in (await get(served, "/runs"))[1]["data"]]
        _, found = await get(served, f"/runs/{run}")
        right = [{"id": first, "decision": "approve"}, {"id": second, "decision": "deny"}]
        status, _ = await post(served, "/chat/completions", {"messages": [], "approvals": right})

    assert (refused, [one["id"] for one in found["questions"]]) == ([400, 400], [first, second])
    assert (status, files.deleted) == (200, ["/a"])


async def test_decisions_about_several_choices_are_all_taken_or_none(door: Door) -> None:
    """One of two runs cannot be held just then: neither is told."""

    class Held(Remembering):
        held = ""

        async def previews(self, run: str, after: int = 0) -> Any:
            if run == self.held:
                raise StoreError("somewhere", "it is away")
            return await super().previews(run, after)

    files, journal = Deleting(), Held()
    turns = [asks(Call("delete", {"path": "/a"}))] * 2 + [says("Well.")] * 2
    async with (
        door.serving(ScriptedModel(*turns), files.tool, journal=journal, approval_timeout=A_MOMENT) as served,
        soon(),
    ):
        asked = await pause(served, "chat", False, n=2)
        approvals = [{"id": approval_id, "decision": "approve"} for approval_id in asked.ids]
        journal.held = journal.runs[1]
        refused, _ = await post(served, "/chat/completions", {"messages": [], "approvals": approvals})
        states = [(await get(served, f"/runs/{run}"))[1]["state"] for run in journal.runs]
        told = [event for run in journal.runs for event in await journal.read(run) if isinstance(event, Answered)]
        journal.held = ""
        status, _ = await post(served, "/chat/completions", {"messages": [], "approvals": approvals})

    assert (refused, states, told) == (503, ["waiting", "waiting"], [])
    assert (status, files.deleted) == (200, ["/a", "/a"])


async def test_what_is_remembered_decides_about_what_came_with_it(door: Door) -> None:
    files = Deleting()
    both = asks(Call("delete", {"path": "/a"}), Call("delete", {"path": "/b"}))
    async with (
        door.serving(ScriptedModel(both, says("Well.")), files.tool, approval_timeout=A_MOMENT) as served,
        soon(),
    ):
        asked = await pause(served, "chat", False)
        approvals = [
            {"id": session_id, "decision": "approve", "remember_for_session": True} for session_id in asked.ids
        ]
        status, _ = await post(served, "/chat/completions", {"messages": [], "approvals": approvals})

    assert (status, files.deleted) == (200, ["/a", "/b"])
