"""Agents of a server that are tools of others by their names: in a file, and in the settings."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, soon
from tests.server.labelled_tools import labelled_tools
from tests.server.restarts import Folder, call

from ronda import tool
from ronda.agent.children import MAX_ANSWER, SHOWN_CHARS
from ronda.core.events import Asked, RunStarted, ToolFinished, ToolStarted
from ronda.core.parts import user
from ronda.server.services.agent_files import AgentFiles
from ronda.server.services.toolbox import Toolbox
from ronda.testing import ScriptedModel, calls, says

KEY = {"authorization": "Bearer test"}
DOORS = pytest.mark.parametrize("which", ["chat", "responses"])


def write_agent(folder: Path, name: str, *turns: Any, **front: Any) -> None:
    """An agent of a script: system message alone, unless `inputs` are among what stands in its front matter."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.prompty"
    file.parent.mkdir(exist_ok=True)
    (file.parent / f"{file.stem}.json").write_text(json.dumps(turns))
    head = json.dumps({"model": f"script:{file.parent / f'{file.stem}.json'}", **front})
    file.write_text(f"---\n{head}\n---\nsystem:\nYou are {name}.\n")


def turn(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments, "id": "c1"}]}


async def ask(served: Served, which: str, model: str = "triage") -> list[dict[str, Any]]:
    """The records of the tools that ran, through the official SDK."""
    async with soon():
        if which == "chat":
            messages: Any = [{"role": "user", "content": "go"}]
            answer: Any = await served.client().chat.completions.create(model=model, messages=messages)
        else:
            answer = await served.client().responses.create(model=model, input="go")
        records: list[dict[str, Any]] = answer.to_dict()["agentic_tool_calls"]
        return records


async def of_runs(served: Served) -> tuple[list[Any], list[Any]]:
    """The events of the first run, and of the one that its call is."""
    events = await served.events
    return events[0], events[1]


@DOORS
async def test_an_agent_asks_another_by_its_name(door: Door, tmp_path: Path, which: str) -> None:
    write_agent(tmp_path, "triage", turn("desk_billing", input="What is due?"), "Twelve.", agents=["desk/billing"])
    write_agent(tmp_path, "desk/billing", "Twelve euros.", description="Knows what is due.")
    async with door.serving(ScriptedModel(says("never")), agents=str(tmp_path)) as served:
        [record] = await ask(served, which)
        parent, child = await of_runs(served)
        started = next(event for event in parent if isinstance(event, ToolStarted))
        async with soon(), served.http.get(f"{served.url}/runs/{started.child}/events", headers=KEY) as answer:
            followed = await answer.text()
    assert (record["name"], record["result_content"]) == ("desk_billing", "Twelve euros.")
    first = child[0]
    assert isinstance(first, RunStarted)
    assert (first.run, first.parent, first.agent) == (started.child, (parent[0].run, 4), "billing")
    assert first.turns[-1] == user("What is due?")
    [spec] = parent[0].plan.tools
    assert (spec.description, json.loads(bytes(spec.parameters))["required"]) == ("Knows what is due.", ["input"])
    # Its share of the limits is in its first event, which every reader of the parent may read.
    assert first.plan.limits.rounds < parent[0].plan.limits.rounds
    frames = [json.loads(line[6:]) for line in followed.splitlines() if line.startswith("data: ")]
    assert (frames[0]["call"], frames[0]["limits"]) == ("c1", {"rounds": first.plan.limits.rounds})
    assert "Twelve euros." in followed


@DOORS
async def test_the_settings_make_agents_tools_of_the_model_and_of_others(
    door: Door, tmp_path: Path, which: str
) -> None:
    write_agent(tmp_path, "triage", turn("billing", what="tea"), "Done.")
    write_agent(tmp_path, "billing", "Two euros.", inputs={"what": {"kind": "string", "required": True}})
    settings: dict[str, Any] = {
        "agents": str(tmp_path),
        "agent_tools": {"default": ("triage",), "triage": ("billing",)},
    }
    model = ScriptedModel(calls("triage", input="What does tea cost?"), says("ok"))
    async with door.serving(model, **settings) as served:
        [record] = await ask(served, which, "default")
        events = await served.events
    assert (record["name"], record["result_content"]) == ("triage", "Done.")
    assert [one[0].agent for one in events if isinstance(one[0], RunStarted)] == ["", "triage", "billing"]
    assert {name: json.loads(bytes(value)) for name, value in events[2][0].inputs.items()} == {"what": "tea"}  # type: ignore[union-attr]  # a RunStarted, as above


async def test_a_name_in_a_file_that_nobody_has_is_told_to_whoever_asks(door: Door, tmp_path: Path) -> None:
    write_agent(tmp_path, "triage", "x", agents=["nobody"])
    async with door.serving(ScriptedModel(says("x")), agents=str(tmp_path)) as served, soon():
        body = {"model": "triage", "messages": [{"role": "user", "content": "go"}]}
        answer = await served.post(body)
    assert answer.status >= 400
    assert "there is no agent 'nobody'" in answer.error["message"]
    assert str(tmp_path) not in answer.error["message"]


async def test_agents_may_ask_each_other_to_a_depth(door: Door, tmp_path: Path) -> None:
    for name, other in (("ping", "pong"), ("pong", "ping")):
        write_agent(tmp_path, name, turn(other, input="you"), f"{name} is done", agents=[other])
    async with door.serving(ScriptedModel(says("x")), agents=str(tmp_path)) as served:
        [record] = await ask(served, "chat", "ping")
        events = await served.events
    assert record["result_content"] == "pong is done"
    assert len(events) == 8
    [last] = [event for event in events[-1] if isinstance(event, ToolFinished)]
    assert last.result.failed
    assert "8 deep at the most" in last.result.content


@DOORS
async def test_an_agent_has_no_more_rounds_than_the_run_has_left(door: Door, tmp_path: Path, which: str) -> None:
    @tool
    def step() -> str:
        """One step."""
        return "ok"

    write_agent(tmp_path, "triage", turn("worker", input="work"), "Never mind.", agents=["worker"])
    write_agent(tmp_path, "worker", *[turn("step")] * 5, "done", tools=[{"name": "step", "kind": "function"}])
    async with door.serving(ScriptedModel(says("x")), step, agents=str(tmp_path), max_tool_rounds_ceiling=3) as served:
        [record] = await ask(served, which)
        _, child = await of_runs(served)
    assert record["failed"] is True
    assert "has no answer" in record["result_content"]
    assert child[0].plan.limits.rounds == 3
    assert len([event for event in child if isinstance(event, ToolFinished)]) == 3


@DOORS
async def test_a_client_that_leaves_ends_the_agent_that_works_for_it(door: Door, tmp_path: Path, which: str) -> None:
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

    write_agent(tmp_path, "triage", turn("worker", input="work"), "x", agents=["worker"])
    write_agent(tmp_path, "worker", turn("wait"), "x", tools=[{"name": "wait", "kind": "function"}])
    async with door.serving(ScriptedModel(says("x")), wait, agents=str(tmp_path)) as served, soon():
        asking = asyncio.create_task(ask(served, which))
        await begun.wait()
        asking.cancel()
        await ended.wait()
        await served.all_over()
        ends = await served.ends
    assert [end.reason for end in ends] == ["cancelled", "cancelled"]


@DOORS
async def test_what_an_agent_has_read_of_strangers_counts_for_who_asked_it(
    door: Door, tmp_path: Path, which: str
) -> None:
    sent: list[str] = []
    read, fetch, send_out = labelled_tools(sent)

    write_agent(tmp_path, "reader", turn("fetch"), "Send it.", tools=[{"name": "fetch", "kind": "function"}])
    model = ScriptedModel(calls("read"), calls("reader", input="?"), calls("send_out", words="a secret"), says("Well."))
    settings: dict[str, Any] = {"agents": str(tmp_path), "agent_tools": {"default": ("reader",)}}
    async with door.serving(model, read, fetch, send_out, approval_timeout=0.01, **settings) as served, soon():
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}]} if which == "chat" else {"input": "go"}
        path = "chat/completions" if which == "chat" else "responses"
        async with served.http.post(f"{served.url}/{path}", json=body) as answer:
            await answer.read()
        events = (await served.events)[0]
    [question] = [event for event in events if isinstance(event, Asked)]
    assert (question.tool, question.cause, sent) == ("send_out", "taint", [])


async def test_who_follows_the_parent_reads_what_the_agent_writes(door: Door, tmp_path: Path) -> None:
    write_agent(tmp_path, "triage", turn("billing", input="?"), "Done.", agents=["billing"])
    write_agent(tmp_path, "billing", "Twelve euros, and not a cent more.")
    async with door.serving(ScriptedModel(says("x")), agents=str(tmp_path)) as served, soon():
        body = {"model": "triage", "stream": True, "messages": [{"role": "user", "content": "go"}]}
        answer = await served.post(body)
        run = answer.headers["x-ronda-run"]
        async with served.http.get(f"{served.url}/runs/{run}/events") as events:
            text = await events.text()
    frames = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    shown = "".join([frame["text"] for frame in frames if frame["type"] == "tool_progressed"])
    assert shown == "Twelve euros, and not a cent more."


@DOORS
async def test_a_long_answer_becomes_a_file(door: Door, tmp_path: Path, which: str) -> None:
    answer = "word " * (MAX_ANSWER // 5 + 1)
    write_agent(tmp_path, "triage", turn("writer", input="write"), "Done.", agents=["writer"])
    write_agent(tmp_path, "writer", answer)
    async with door.serving(ScriptedModel(says("x")), agents=str(tmp_path)) as served:
        [record] = await ask(served, which)
        [file_id] = record["file_ids"]
        async with (
            soon(),
            served.http.get(f"{served.url}/files/{file_id}/content", headers=KEY) as got,
        ):
            content = await got.text()
        async with soon(), served.http.get(f"{served.url}/runs", headers=KEY) as listed:
            run = next(one["id"] for one in (await listed.json())["data"] if one["agent"] == "triage")
        async with soon(), served.http.get(f"{served.url}/runs/{run}/events", headers=KEY) as told:
            events = [json.loads(line[6:]) for line in (await told.text()).splitlines() if line.startswith("data: ")]
    [finished] = [event for event in events if event["type"] == "tool_finished"]
    assert (finished["offers"], finished["result"]["whole"]) == (["mistralrs_read_file"], file_id)
    assert content == answer
    assert record["result_content"].startswith(answer[:SHOWN_CHARS])
    assert f"id {file_id}" in record["result_content"]
    assert len(record["result_content"]) < SHOWN_CHARS + 200


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_goes_on_in_the_next_process(tmp_path: Path, how: signal.Signals) -> None:
    folder = Folder(tmp_path / "server", turn("worker", input="work"), "done")
    agents = tmp_path / "agents"
    declared = [{"name": "count", "kind": "function"}, {"name": "wait", "kind": "function"}]
    write_agent(agents, "worker", call("count"), call("wait"), "worked", tools=declared)
    settings = tmp_path / "ronda.toml"
    settings.write_text('agents = "agents"\n[agent_tools]\ndefault = ["worker"]\n')
    with folder.serving("--config", str(settings), "--shutdown-seconds", "0.1") as first:
        agent_id = first.ask(on_disconnect="detach")
        folder.until("waiting")
        first.end(how)
    (folder.path / "go on").touch()
    write_agent(agents, "other", "another one by now")
    (agents / "other.prompty").rename(agents / "worker.prompty")  # it goes on as it was
    with folder.serving("--config", str(settings)) as second:
        response = second.ended(agent_id)
        run = agent_id.replace("resp_", "run_")
        events = list(second.events(run))
        child = next(event["child"] for event in events if event["type"] == "tool_started")
        of_child = list(second.events(child))

    assert response["output"][-1]["content"][0]["text"] == "done"
    assert folder.counted == {"it": 1}  # before the end of the first process, and never again
    [result] = [event["result"]["content"] for event in events if event["type"] == "tool_finished"]
    assert result == "worked"
    assert [event["type"] for event in of_child].count("recovered") == 1


def test_a_name_that_leads_nowhere_is_told_when_the_server_starts(tmp_path: Path) -> None:
    write_agent(tmp_path, "triage", "x", agents=["nobody", "billing"])
    write_agent(tmp_path, "billing", "x")
    files = AgentFiles(str(tmp_path), Toolbox(), {"default": ("billing", "ag_1"), "none": ("triage",)})
    why = "which it names; it is looked for among the agents that clients make"
    assert files.report()[:2] == [
        f"[agent_tools]: no file is the agent 'ag_1', {why}",
        f"[agent_tools]: no file is the agent 'none', {why}",
    ]
    assert f"the agent 'triage': no file is the agent 'nobody', {why}" in files.report()
