"""What was approved for a whole session is listed, and taken back; and which tools there are."""

from __future__ import annotations

from tests.interaction.doors import Door, Served
from tests.server.approval_doors import pause, post_decision, waiting
from tests.server.approval_scripts import A_MOMENT, until_over
from tests.server.runs_door import Deleting, get

from ronda import tool
from ronda.testing import ScriptedModel, calls, says


async def delete(served: Served, path: str) -> int:
    async with served.http.delete(f"{served.url}{path}", headers={"authorization": "Bearer test"}) as answer:
        return answer.status


async def test_what_was_approved_for_a_session_is_listed_and_taken_back(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(calls("delete", path="/a"), says("One."), calls("delete", path="/b"), says("Two."))
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        first = await pause(served, "chat", False, session_id="s")
        [listed] = await waiting(served)
        await post_decision(served, first.ids[0], remember_for_session=True)
        await until_over(served, listed["run_id"])
        _, approved = await get(served, "/sessions/s/approvals")
        others, _ = await get(served, "/sessions/s/approvals", key="bob")
        missing = await delete(served, "/sessions/s/approvals?tool=other")
        taken = await delete(served, "/sessions/s/approvals?tool=delete")
        _, left = await get(served, "/sessions/s/approvals")
        again = await pause(served, "chat", False, session_id="s")

    assert [(one["kind"], one["tool"]) for one in approved["data"]] == [("tool", "delete")]
    assert (others, missing, taken, left["data"]) == (404, 404, 200, [])
    assert (len(again.ids), files.deleted) == (1, ["/a"])


async def test_tools_are_listed_with_what_they_take(door: Door) -> None:
    @tool
    async def look(city: str) -> str:
        """Look at the weather."""
        return city

    async with door.serving(ScriptedModel(), look, Deleting().tool) as served:
        status, found = await get(served, "/tools")

    rows = {row["name"]: row for row in found["data"]}
    assert status == 200
    assert rows["look"] == {
        "object": "tool",
        "name": "look",
        "label": "look",
        "description": "Look at the weather.",
        "source": {"kind": "function", "type": None, "server": None},
        "labels": [],
        "approval": "auto",
        "parameters": rows["look"]["parameters"],
        "offered": True,
    }
    assert rows["look"]["parameters"]["required"] == ["city"]
    assert rows["delete"]["approval"] == "ask"
