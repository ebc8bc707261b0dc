"""Agents that clients made (`POST /v1/agents`) as tools of others, by id or by name: in files, and in the settings."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, soon
from tests.server.restarts import Folder, Serving, call
from tests.server.services.test_named_agents import DOORS, KEY, ask, turn, write_agent
from tests.timeouts import TIMEOUT

from ronda import tool
from ronda.core.events import RunStarted, ToolFinished, ToolStarted
from ronda.core.parts import SystemTurn, user
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.mcp.names import offered_name

DESK = offered_name(None, "Billing desk")


async def request(served: Served, method: str, path: str, key: str = "test", **body: Any) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    data = json.dumps(body).encode() if body else None
    async with soon(), served.http.request(method, f"{served.url}{path}", data=data, headers=headers) as answer:
        text = await answer.read()
        return answer.status, json.loads(text) if text else None


async def make_agent(served: Served, key: str = "test", **fields: Any) -> str:
    body = {"model": "default", "name": "Billing desk", "instructions": "You bill.", **fields}
    status, agent = await request(served, "POST", "/agents", key, **body)
    assert status == 200, agent
    return str(agent["id"])


@DOORS
@pytest.mark.parametrize("how", ["ID", "Billing desk", "ID@0", "ID@live", "Billing desk@live"])
async def test_a_file_names_an_agent_that_a_client_made(door: Door, tmp_path: Path, which: str, how: str) -> None:
    model = ScriptedModel(says("Twelve euros."))
    async with door.serving(model, agents=str(tmp_path)) as served:
        file_id = await make_agent(served, description="Knows what is due.", completion_args={"temperature": 0.25})
        await request(served, "PATCH", f"/agents/{file_id}", instructions="You bill strictly.")
        await request(served, "PUT", f"/agents/{file_id}/aliases?alias=live&version=0")
        write_agent(
            tmp_path, "triage", turn(DESK, input="What is due?"), "Twelve.", agents=[how.replace("ID", file_id)]
        )
        [record] = await ask(served, which)
        parent, child = [events for events in await served.events if isinstance(events[0], RunStarted)]
        started = next(event for event in parent if isinstance(event, ToolStarted))
        async with soon(), served.http.get(f"{served.url}/runs/{started.child}/events", headers=KEY) as answer:
            followed = await answer.text()
    assert (record["name"], record["result_content"]) == (DESK, "Twelve euros.")
    first = child[0]
    assert isinstance(first, RunStarted)
    version = 0 if "@" in how else 1
    assert (first.run, first.agent, first.version) == (started.child, file_id, version)
    assert first.turns == (SystemTurn("You bill." if version == 0 else "You bill strictly."), user("What is due?"))
    assert first.plan.options.temperature == 0.25
    assert first.plan.model == "script:test"
    assert isinstance(parent[0], RunStarted)
    [spec] = parent[0].plan.tools
    assert (spec.description, json.loads(bytes(spec.parameters))["required"]) == ("Knows what is due.", ["input"])
    assert first.plan.limits.rounds < parent[0].plan.limits.rounds
    assert "Twelve euros." in followed


@DOORS
async def test_the_settings_make_it_a_tool_of_the_model_without_any_folder(door: Door, which: str) -> None:
    model = ScriptedModel(calls(DESK, input="What is due?"), says("Twelve euros."), says("It is twelve."))
    async with door.serving(model, agent_tools={"default": ("Billing desk",)}) as served:
        await make_agent(served)
        [record] = await ask(served, which, "default")
    assert (record["name"], record["result_content"]) == (DESK, "Twelve euros.")
    assert [spec.name for spec in model.requests[1].tools] == []  # it does not ask itself


async def test_the_settings_make_agents_tools_of_one_that_a_client_made(door: Door, tmp_path: Path) -> None:
    write_agent(tmp_path, "prices", "Two euros.")
    model = ScriptedModel(calls("prices", input="Tea?"), says("Tea costs two euros."))
    async with door.serving(model, agents=str(tmp_path), agent_tools={"Billing desk": ("prices",)}) as served:
        agent_id = await make_agent(served)
        status, answer = await request(
            served, "POST", "/conversations", agent_id=agent_id, inputs="What does tea cost?"
        )
    assert status == 200
    assert answer["outputs"][-1]["content"] == "Tea costs two euros."


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/messages", "/conversations"])
async def test_an_agent_is_its_owner_s_alone_and_who_has_none_is_told_so(door: Door, tmp_path: Path, path: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/chat/completions": {"model": "triage", "messages": [{"role": "user", "content": "go"}]},
        "/responses": {"model": "triage", "input": "go"},
        "/messages": {"model": "triage", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]},
        "/conversations": {"agent_id": "triage", "inputs": "go"},
    }
    async with door.serving(ScriptedModel(says("Twelve euros.")), agents=str(tmp_path)) as served:
        agent_id = await make_agent(served)
        write_agent(tmp_path, "triage", turn(DESK, input="What is due?"), "Twelve.", agents=[agent_id])
        status, answer = await request(served, "POST", path, "another", **bodies[path])
        assert 400 <= status < 600
        assert f"there is no agent '{agent_id}'" in json.dumps(answer)
        assert (await request(served, "POST", path, **bodies[path]))[0] == 200
        await request(served, "DELETE", f"/agents/{agent_id}")
        status, answer = await request(served, "POST", path, **bodies[path])
        assert 400 <= status < 600
        assert f"there is no agent '{agent_id}'" in json.dumps(answer)


async def test_the_model_does_without_one_that_is_gone_and_the_caller_is_told(door: Door) -> None:
    model = ScriptedModel(says("hello"))
    async with door.serving(model, agent_tools={"default": ("Billing desk",)}) as served:
        status, answer = await request(
            served, "POST", "/chat/completions", messages=[{"role": "user", "content": "hi"}]
        )
    assert status == 200
    assert answer["warnings"] == [
        "the agent 'Billing desk' is not offered to the model: there is no agent 'Billing desk'"
    ]
    assert model.requests[0].tools == ()


async def test_a_warning_about_a_file_says_nothing_of_where_it_is(door: Door, tmp_path: Path) -> None:
    front = f'model: script:x.json\ntools: "${{file:{tmp_path.parent}/outside.json}}"'
    (tmp_path / "broken.prompty").write_text(f"---\n{front}\n---\nsystem:\nHi.\n")
    model = ScriptedModel(says("hello"))
    async with door.serving(model, agents=str(tmp_path), agent_tools={"default": ("broken",)}) as served:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
        status, answer = await request(served, "POST", "/chat/completions", **body)
    assert status == 200
    [warning] = answer["warnings"]
    assert "the agent 'broken' is not offered to the model" in warning
    assert str(tmp_path.parent) not in warning


async def test_two_of_one_name_are_told_apart_by_their_ids(door: Door, tmp_path: Path) -> None:
    write_agent(tmp_path, "triage", "x", agents=["Billing desk"])
    async with door.serving(ScriptedModel(says("x")), agents=str(tmp_path)) as served:
        first, _ = await make_agent(served), await make_agent(served)
        body: dict[str, Any] = {"model": "triage", "messages": [{"role": "user", "content": "go"}]}
        status, answer = await request(served, "POST", "/chat/completions", **body)
    assert status == 400
    assert (
        f"there are 2 agents named 'Billing desk'; name one by its id, such as '{first}'" in answer["error"]["message"]
    )


@DOORS
async def test_it_has_its_tools_and_no_more_rounds_than_the_run_has_left(
    door: Door, tmp_path: Path, which: str
) -> None:
    @tool
    def step() -> str:
        """One step."""
        return "ok"

    write_agent(tmp_path, "triage", turn(DESK, input="work"), "Never mind.", agents=["Billing desk"])
    model = ScriptedModel(*[calls("step")] * 5, says("done"))
    async with door.serving(model, step, agents=str(tmp_path), max_tool_rounds_ceiling=3) as served:
        await make_agent(served)
        [record] = await ask(served, which)
        [_, child] = await served.events
    assert record["failed"] is True
    assert "has no answer" in record["result_content"]
    assert isinstance(child[0], RunStarted)
    assert child[0].plan.limits.rounds == 3
    assert len([event for event in child if isinstance(event, ToolFinished)]) == 3


async def test_a_function_that_its_caller_would_run_nobody_runs_in_a_call(door: Door, tmp_path: Path) -> None:
    function = {"name": "pay", "parameters": {"type": "object", "properties": {}}}
    write_agent(tmp_path, "triage", turn(DESK, input="work"), "Never mind.", agents=["Billing desk"])
    async with door.serving(ScriptedModel(calls("pay")), agents=str(tmp_path)) as served:
        await make_agent(served, tools=[{"type": "function", "function": function}])
        [record] = await ask(served, "chat")
    assert record["failed"] is True
    assert "pay" in record["result_content"]


@DOORS
async def test_a_client_that_leaves_ends_it(door: Door, tmp_path: Path, which: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    write_agent(tmp_path, "triage", turn(DESK, input="work"), "x", agents=["Billing desk"])
    async with door.serving(ScriptedModel(calls("wait"), says("x")), wait, agents=str(tmp_path)) as served, soon():
        await make_agent(served)
        asking = asyncio.create_task(ask(served, which))
        await begun.wait()
        asking.cancel()
        await ended.wait()
        await served.all_over()
        ends = await served.ends
    assert [end.reason for end in ends] == ["cancelled", "cancelled"]


def _send(server: Serving, method: str, path: str, **body: Any) -> Any:
    sent = urllib.request.Request(
        f"{server.url}{path}", json.dumps(body).encode(), {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(sent, timeout=TIMEOUT) as answer:
        return json.load(answer)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_goes_on_in_the_next_process_in_the_version_it_began_with(tmp_path: Path, how: signal.Signals) -> None:
    look = {"calls": [{"name": "mistralrs_search_the_web", "arguments": {"query": "tea"}}]}
    folder = Folder(tmp_path / "server", call("count"), call("wait"), look, "worked")
    agents = tmp_path / "agents"
    (tmp_path / "tea.md").write_text("Tea costs two euros.")
    (tmp_path / "ronda.toml").write_text('[search]\nbackend = "folder"\nfolder = "."\n')
    flags: tuple[str, ...] = (
        "--agents",
        str(agents),
        "--shutdown-seconds",
        "0.1",
        "--config",
        str(tmp_path / "ronda.toml"),
    )
    flags += ("--enable-search", "--search-mode", "on-request")
    agents.mkdir()
    with folder.serving(*flags) as first:
        search = [{"type": "web_search"}]
        agent = _send(first, "POST", "/agents", model="default", name="worker", instructions="Work.", tools=search)
        write_agent(agents, "triage", turn("worker", input="work"), "done", agents=["worker"])
        agent_id = first.ask(on_disconnect="detach", model="triage")
        folder.until("waiting")
        _send(first, "PATCH", f"/agents/{agent['id']}", tools=[])
        first.end(how)
    (folder.path / "go on").touch()
    with folder.serving(*flags) as second:
        response = second.ended(agent_id)
        events = list(second.events(agent_id.replace("resp_", "run_")))
        child = next(event["child"] for event in events if event["type"] == "tool_started")
        of_child = list(second.events(child))
    assert response["output"][-1]["content"][0]["text"] == "done"
    assert folder.counted == {"it": 1}  # before the end of the first process, and never again
    [result] = [event["result"]["content"] for event in events if event["type"] == "tool_finished"]
    assert result == "worked"
    assert [event["type"] for event in of_child].count("recovered") == 1
    [found] = [event["result"] for event in of_child if event["type"] == "tool_finished"][2:]
    assert "two euros" in found["content"]  # with the tools of the version that it began with
