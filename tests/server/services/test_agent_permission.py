"""Which calls of the server's tools run: what its operator says, what a request adds, and that no request takes anything away."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door, Json

from ronda import tool
from ronda.core.parts import ToolTurn
from ronda.core.plan import PermissionRule
from ronda.testing import ScriptedModel, calls, says

HI = [{"role": "user", "content": "go"}]
DOORS: dict[str, Json] = {
    "chat/completions": {"messages": HI},
    "responses": {"input": "go"},
    "messages": {"messages": HI, "max_tokens": 99},
    "agents/completions": {"agent_id": "default", "messages": HI},
    "conversations": {"model": "default", "inputs": "go"},
}
EVERY_DOOR = pytest.mark.parametrize("path", DOORS)


@tool
async def read_page(url: str) -> str:
    """Read a page."""
    return f"read {url}"


def model(*urls: str) -> ScriptedModel:
    return ScriptedModel(*[calls("read_page", url=url) for url in urls], says("done"))


async def post(door: Door, path: str, **more: Any) -> tuple[int, Json]:
    async with door.http.post(f"{door.url}/{path}", json={**DOORS[path], **more}) as answer:
        return answer.status, await answer.json()


def results(model: ScriptedModel) -> list[str]:
    """What the model has read of its calls, in the end."""
    return [result.content for turn in model.heard[-1] if isinstance(turn, ToolTurn) for result in turn.results]


@EVERY_DOOR
async def test_a_request_may_refuse_the_servers_tools(door: Door, path: str) -> None:
    scripted = model("http://a")
    async with door.serving(scripted, read_page):
        status, _ = await post(door, path, agent_permission="deny")
    assert status == 200
    assert len(results(scripted)) == 1
    assert "read http" not in results(scripted)[0]


@EVERY_DOOR
async def test_no_request_widens_what_the_operator_allowed(door: Door, path: str) -> None:
    scripted = model("http://a")
    async with door.serving(scripted, read_page, agent_permission="deny"):
        status, _ = await post(door, path, agent_permission="auto")
    assert status == 200
    assert "read http" not in results(scripted)[0]


@EVERY_DOOR
async def test_a_word_that_is_no_permission_is_refused(door: Door, path: str) -> None:
    async with door.serving(model(), read_page):
        status, answer = await post(door, path, agent_permission="always")
    assert status in (400, 422)
    assert "agent_permission" in str(answer)


@EVERY_DOOR
async def test_rules_look_at_the_arguments_of_each_call(door: Door, path: str) -> None:
    scripted = model("https://good", "http://bad")
    rule = PermissionRule("deny", tool="read_*", arguments={"/url": "^http://"})
    async with door.serving(scripted, read_page, permission=(rule,)):
        status, _ = await post(door, path, agent_permission="auto")
    assert status == 200
    first, second = results(scripted)
    assert first == "read https://good"
    assert "read http" not in second


async def test_the_older_name_of_the_field_counts_where_the_newer_is_not_there(door: Door) -> None:
    for fields, runs in (
        ({"code_execution_permission": "deny"}, False),
        ({"code_execution_permission": "deny", "agent_permission": "auto"}, True),
    ):
        scripted = model("http://a")
        async with door.serving(scripted, read_page):
            await post(door, "chat/completions", **fields)
        assert (results(scripted) == ["read http://a"]) is runs


async def test_a_call_that_a_rule_asks_about_waits_for_a_person(door: Door) -> None:
    scripted = model("https://good", "http://bad")
    rule = PermissionRule("ask", arguments={"/url": "^http://"})
    async with door.serving(scripted, read_page, permission=(rule,), approval_timeout=0.01):
        status, answer = await post(door, "chat/completions")
    assert (status, answer["status"]) == (200, "requires_action")
    assert results(scripted) == ["read https://good"]
