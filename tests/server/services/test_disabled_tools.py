"""Tools that a request turns off by name: the model neither sees nor calls them, and neither do agents that it calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.interaction.doors import Door, Json
from tests.server.services.test_agent_permission import EVERY_DOOR, post, read_page, results
from tests.timeouts import soon
from tests.tools.mcp.serving import program

from ronda import tool
from ronda.testing import ScriptedModel, calls, says

PARENT = """---
model: script:parent.json
tools:
  - name: ask
    kind: prompty
    path: child.prompty
    mode: agentic
---
system:
Ask the child.
"""
CHILD = """---
model: script:child.json
tools:
  - name: read_page
    kind: function
    parameters:
      - name: url
        kind: string
---
system:
Read.
"""


@tool
async def send_mail(to: str) -> str:
    """Send a mail."""
    return "sent"


def names(model: ScriptedModel) -> list[str]:
    return [spec.name for spec in model.requests[0].tools]


@EVERY_DOOR
async def test_a_tool_that_a_request_turns_off_is_neither_offered_nor_run(door: Door, path: str) -> None:
    model = ScriptedModel(calls("read_page", url="http://a"), says("done"))
    async with door.serving(model, read_page, send_mail):
        status, _ = await post(door, path, disabled_tools=["read_page"])
    assert status == 200
    assert names(model) == ["send_mail"]
    assert "read http" not in str(results(model))


@EVERY_DOOR
async def test_a_name_may_be_a_pattern(door: Door, path: str) -> None:
    model = ScriptedModel(says("done"))
    async with door.serving(model, read_page, send_mail):
        await post(door, path, disabled_tools=["*_mail"])
    assert names(model) == ["read_page"]


@EVERY_DOOR
@pytest.mark.parametrize("wrong", ["read_page", [""], [7], ["x"] * 257])
async def test_what_is_no_list_of_names_is_refused(door: Door, path: str, wrong: object) -> None:
    async with door.serving(ScriptedModel(says("done")), read_page):
        status, answer = await post(door, path, disabled_tools=wrong)
    assert status in (400, 422)
    assert "disabled_tools" in str(answer)


async def test_a_tool_that_the_caller_runs_stays(door: Door) -> None:
    mine = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}
    model = ScriptedModel(says("done"))
    async with door.serving(model, read_page):
        await post(door, "chat/completions", tools=[mine], disabled_tools=["*"])
    assert names(model) == ["mine"]


async def test_all_tools_of_an_mcp_server_are_turned_off_by_its_name(door: Door) -> None:
    model = ScriptedModel(says("done"))
    async with door.serving(model, read_page, mcp=[program()]):
        await post(door, "chat/completions", disabled_tools=["mcp:every"])  # which waits for the server
        async with soon(), door.http.get(f"{door.url}/tools") as answer:
            rows = (await answer.json())["data"]
    assert names(model) == ["read_page"]
    sources = {row["name"]: (row["label"], row["source"]["server"]) for row in rows}
    assert sources["read_page"] == ("read_page", None)
    assert sources["every_add"] == ("add", "every")


async def test_a_name_that_turns_nothing_off_is_warned_about(door: Door) -> None:
    async with door.serving(ScriptedModel(says("done")), read_page):
        _, answer = await post(door, "chat/completions", disabled_tools=["read_pag", "mcp:docs", "read_page"])
    warned = [one for one in answer["warnings"] if "disabled_tools" in one]
    assert [("read_pag'" in one, "mcp:docs" in one) for one in warned] == [(True, False), (False, True)]


async def test_an_agent_that_the_run_calls_goes_without_it_too(door: Door, tmp_path: Path) -> None:
    (tmp_path / "parent.prompty").write_text(PARENT)
    (tmp_path / "child.prompty").write_text(CHILD)
    (tmp_path / "parent.json").write_text(
        json.dumps([{"calls": [{"name": "ask", "arguments": {"input": "x"}}]}, "Done."])
    )
    (tmp_path / "child.json").write_text(
        json.dumps([{"calls": [{"name": "read_page", "arguments": {"url": "http://a"}}]}, "Read."])
    )
    was_run: list[str] = []

    @tool(name="read_page")
    async def spied(url: str) -> str:
        """Read a page."""
        was_run.append(url)
        return "read"

    async with door.serving(ScriptedModel(says("no")), spied, agents=str(tmp_path)):
        status, _ = await post(door, "chat/completions", model="parent", disabled_tools=["read_page"])
        assert (status, was_run) == (200, [])
        status, _ = await post(door, "chat/completions", model="parent")
        assert (status, was_run) == (200, ["http://a"])


async def test_runs_without_a_client_take_the_same_field(door: Door) -> None:
    model = ScriptedModel(says("done"))
    async with door.serving(model, read_page, send_mail) as served:
        body: Json = {"input": "go", "disabled_tools": ["send_mail"]}
        async with soon(), door.http.post(f"{door.url}/runs", json=body) as answer:
            assert answer.status == 202
        await served.all_over()
    assert names(model) == ["read_page"]
