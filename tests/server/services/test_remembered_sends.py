"""What a person lets go out, for a session: the same call again, there and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door, Served
from tests.interaction.every_door import PATHS, body_for, read_plain
from tests.server.approval_doors import pause, post_decision, send, waiting
from tests.server.approval_scripts import A_MOMENT, until_over
from tests.server.labelled_tools import labelled_tools

from ronda.core.plan import PermissionRule
from ronda.providers.script import Call
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

READS = asks(Call("read", {}), Call("fetch", {}))
HOME = {"words": "hello, mother"}


def sends(**arguments: str) -> Any:
    return asks("send_out", **arguments)


async def let_go(served: Served, name: str = "chat", **more: Any) -> None:
    """The first run of the session s asks, and a person says: always."""
    asked = await pause(served, name, False, session_id="s", **more)
    [listed] = await waiting(served)
    assert await post_decision(served, asked.ids[0], remember_for_session=True) == (200, {"status": "resolved"})
    await until_over(served, listed["run_id"])


async def say(served: Served, name: str = "chat", **more: Any) -> str:
    status, data, _ = await send(served, PATHS[name], body_for(name, False, session_id="s", **more))
    return read_plain(name, data, status).text


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "completions"])
async def test_what_may_go_out_is_not_asked_about_again_in_the_session(door: Door, name: str) -> None:
    sent: list[str] = []
    model = ScriptedModel(READS, sends(**HOME), says("One."), sends(**HOME), says("Two."), READS, sends(**HOME))
    async with door.serving(model, *labelled_tools(sent), approval_timeout=A_MOMENT) as served:
        await let_go(served, name)
        heard = await say(served, name)
        elsewhere = await pause(served, name, False, session_id="t")

    assert (heard, sent, len(elsewhere.ids)) == ("Two.", ["hello, mother"] * 2, 1)
    assert "private" in elsewhere.approvals[0]["reason"]


async def test_other_words_are_asked_about_again(door: Door) -> None:
    sent: list[str] = []
    model = ScriptedModel(READS, sends(**HOME), says("One."), sends(words="a secret"))
    async with door.serving(model, *labelled_tools(sent), approval_timeout=A_MOMENT) as served:
        await let_go(served)
        asked = await pause(served, "chat", False, session_id="s")

    assert (asked.approvals[0]["arguments"], sent) == ({"words": "a secret"}, ["hello, mother"])
    assert "private" in asked.approvals[0]["reason"]


async def test_what_a_person_changed_is_what_may_go_out_again(door: Door) -> None:
    sent: list[str] = []
    model = ScriptedModel(
        READS, sends(words="a secret"), says("One."), sends(**HOME), says("Two."), sends(words="a secret")
    )
    async with door.serving(model, *labelled_tools(sent), approval_timeout=A_MOMENT) as served:
        asked = await pause(served, "chat", False, session_id="s")
        [listed] = await waiting(served)
        await post_decision(served, asked.ids[0], remember_for_session=True, arguments=HOME)
        await until_over(served, listed["run_id"])
        heard = await say(served)
        again = await pause(served, "chat", False, session_id="s")

    assert (heard, sent, len(again.ids)) == ("Two.", ["hello, mother"] * 2, 1)


async def test_a_rule_asks_about_what_may_go_out_all_the_same(door: Door) -> None:
    sent: list[str] = []
    rule = PermissionRule("ask", "send_out", arguments={"/words": "mother"})
    model = ScriptedModel(READS, sends(**HOME), says("One."), sends(**HOME))
    settings: Any = {"approval_timeout": A_MOMENT, "permission": (rule,)}
    async with door.serving(model, *labelled_tools(sent), **settings) as served:
        await let_go(served)
        asked = await pause(served, "chat", False, session_id="s")

    assert (len(asked.ids), "reason" in asked.approvals[0], sent) == (1, False, ["hello, mother"])


async def test_it_survives_a_restart_and_goes_with_its_session(door: Door) -> None:
    sent: list[str] = []
    model = ScriptedModel(READS, sends(**HOME), says("One."), sends(**HOME), says("Two."), READS, sends(**HOME))
    settings: Any = {"approval_timeout": A_MOMENT, "catalog": MemoryCatalog()}
    async with door.serving(model, *labelled_tools(sent), **settings) as served:
        await let_go(served)
    async with door.serving(model, *labelled_tools(sent), **settings) as served:
        assert await say(served) == "Two."
        async with served.http.delete(f"{served.url}/sessions/s", headers={"authorization": "Bearer test"}) as answer:
            assert answer.status == 200
        asked = await pause(served, "chat", False, session_id="s")

    assert (len(asked.ids), sent) == (1, ["hello, mother"] * 2)
