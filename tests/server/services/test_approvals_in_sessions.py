"""Approvals with sessions, labels and the words of a dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.every_door import PATHS, Heard, body_for, read_plain, tool_of
from tests.server.approval_doors import (
    KEYS,
    decide,
    deciding,
    pause,
    paused,
    post_decision,
    send,
    until_asked,
    waiting,
    watch,
)
from tests.server.approval_scripts import A_MOMENT, AT_EACH_DOOR, results, script, until_over
from tests.server.labelled_tools import labelled_tools
from tests.server.runs_door import Deleting, get, post

from ronda import Agent, tool
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.providers.script import Call
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "completions"])
async def test_what_is_remembered_holds_in_the_session_and_nowhere_else(door: Door, name: str, stream: bool) -> None:
    files = Deleting()
    model = ScriptedModel(
        asks("delete", path="/a"), says("One."), asks("delete", path="/b"), says("Two."), asks("delete", path="/c")
    )
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        first = await pause(served, name, False, session_id="s")
        [listed] = await waiting(served)
        await post_decision(served, first.ids[0], remember_for_session=True)
        await until_over(served, listed["run_id"])
        heard = await watch_or_ask(served, name, stream, session_id="s")
        elsewhere = await pause(served, name, False, session_id="t")

    assert (heard.text, heard.end) == ("Two.", "stop")
    assert (files.deleted, len(elsewhere.ids)) == (["/a", "/b"], 1)


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "completions"])
async def test_what_is_remembered_survives_a_restart_and_goes_with_its_session(door: Door, name: str) -> None:
    files, catalog = Deleting(), MemoryCatalog()
    model = ScriptedModel(
        asks("delete", path="/a"), says("One."), asks("delete", path="/b"), says("Two."), asks("delete", path="/c")
    )
    settings: Any = {"approval_timeout": A_MOMENT, "catalog": catalog}
    async with door.serving(model, files.tool, **settings) as served:
        first = await pause(served, name, False, session_id="s")
        [listed] = await waiting(served)
        await post_decision(served, first.ids[0], remember_for_session=True)
        await until_over(served, listed["run_id"])
    async with door.serving(model, files.tool, **settings) as served:
        heard = await watch_or_ask(served, name, False, session_id="s")
        async with soon(), served.http.delete(f"{served.url}/sessions/s", headers=KEYS) as answer:
            assert answer.status == 200
        asked = await pause(served, name, False, session_id="s")

    assert (heard.text, heard.end) == ("Two.", "stop")
    assert (files.deleted, len(asked.ids)) == (["/a", "/b"], 1)


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "completions"])
async def test_a_session_whose_run_waits_lets_another_in_and_keeps_both(door: Door, name: str, stream: bool) -> None:
    """What the run that waited adds is a branch: the session has moved on."""
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Meanwhile."), says("It is gone."))
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        first = await pause(served, name, False, session_id="s")
        [listed] = await waiting(served)
        heard = await watch_or_ask(served, name, stream, session_id="s")
        await post_decision(served, first.ids[0])
        await until_over(served, listed["run_id"])
        async with soon(), served.http.get(f"{served.url}/sessions/s", headers=KEYS) as answer:
            document = await answer.json()

    assert (heard.text, files.deleted) == ("Meanwhile.", ["/a"])
    assert document["messages"][-1]["content"] == "Meanwhile."
    assert len(document["branches"]) == 2, document


async def watch_or_ask(served: Served, name: str, stream: bool, **more: Any) -> Heard:
    if stream:
        return await watch(served, name, **more)
    status, data, _ = await send(served, PATHS[name], body_for(name, False, **more))
    return read_plain(name, data, status)


@AT_EACH_DOOR
async def test_a_run_that_read_private_and_foreign_data_asks_before_it_sends_anything(
    door: Door, name: str, stream: bool
) -> None:
    sent: list[str] = []
    read, fetch, send_out = labelled_tools(sent)

    model = ScriptedModel(
        asks("send_out", words="hello"),
        asks(Call("read", {}), Call("fetch", {})),
        asks("send_out", words="a secret"),
        says("Well."),
    )
    async with door.serving(model, read, fetch, send_out, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream, agent_permission="auto")
        heard = await decide(served, asked, stream, "deny")

    [one] = asked.approvals
    assert (one["arguments"], "private" in one["reason"]) == ({"words": "a secret"}, True)
    assert (sent, heard.text) == (["hello"], "Well.")


@pytest.mark.parametrize("called", ["code_interpreter", "run_python"])
async def test_a_tool_of_mistrals_is_confirmed_under_its_name_or_ours(door: Door, stream: bool, called: str) -> None:
    ran: list[str] = []

    @tool(name="run_python")
    def python(code: str) -> str:
        """Run Python."""
        ran.append(code)
        return "2"

    declared = {"type": "code_interpreter", "tool_configuration": {"requires_confirmation": [called]}}
    model = ScriptedModel(asks("run_python", code="1+1"), says("Two."))
    async with door.serving(model, capabilities={"python": (python,)}, approval_timeout=600.0) as served:
        asked = await pause(
            served, "conversations", stream, more={"tools": [declared]}
        )  # at once, whatever a stream may wait
        before = list(ran)
        heard = await decide(served, asked, stream)

    assert (before, ran, heard.text) == ([], ["1+1"], "Two.")


async def test_a_confirmation_of_another_tool_asks_nobody(door: Door) -> None:
    @tool(name="run_python")
    def python(code: str) -> str:
        """Run Python."""
        return "2"

    declared = {"type": "code_interpreter", "tool_configuration": {"requires_confirmation": ["another"]}}
    model = ScriptedModel(asks("run_python", code="1+1"), says("Two."))
    async with door.serving(model, capabilities={"python": (python,)}) as served:
        status, data, _ = await send(served, "conversations", {**body_for("conversations", False), "tools": [declared]})

    assert (status, read_plain("conversations", data, status).text) == (200, "Two.")


class Coding:
    """What runs code, as far as its calls are told about."""

    def __init__(self, tool_type: str) -> None:
        name = {"code_execution": "mistralrs_execute_python", "shell": "mistralrs_shell"}[tool_type]
        self.spec = ToolSpec(name, tool_type=tool_type)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput("1")


ASKED: dict[str, tuple[str, Json, Json, Json]] = {
    "code": (
        "code_execution",
        {"code": "print(1)", "outputs": [{"name": "a.csv", "format": "csv"}, "b.txt"]},
        {"code": "print(1)", "outputs": ["a.csv", "b.txt"]},
        {
            "tool_type": "code_execution",
            "code": "print(1)",
            "exception": "The user denied this action.",
            "failed": True,
        },
    ),
    "shell": (
        "shell",
        {"commands": ["ls"]},
        {"commands": ["ls"]},
        {
            "tool_type": "shell",
            "commands": ["ls"],
            "status": "denied",
            "timed_out": False,
            "stderr": "The user denied this action.",
            "failed": True,
        },
    ),
}


@pytest.mark.parametrize(("tool_type", "arguments", "shown", "denied"), ASKED.values(), ids=ASKED)
async def test_code_asks_and_is_denied_as_programs_for_mistral_rs_read_it(
    door: Door, tool_type: str, arguments: Json, shown: Json, denied: Json
) -> None:
    coding = Coding(tool_type)
    model = ScriptedModel(asks(Call(coding.spec.name, arguments)), says("Well."))
    capability: Any = {"python" if tool_type == "code_execution" else "shell": (coding,)}
    flag = "enable_code_execution" if tool_type == "code_execution" else "enable_shell"
    asked: list[Json] = []
    async with door.serving(model, capabilities=capability) as served:

        async def refuse(event: Json) -> None:
            asked.append(event)
            body: Json = {"decision": "deny", "remember_for_session": False, "message": "The user denied this action."}
            await post_decision(served, event["approval_id"], **body)

        heard = await watch(served, "chat", refuse, agent_permission="ask", session_id="approval-demo", **{flag: True})

    label = {"code_execution": "Python code", "shell": "Shell command"}[tool_type]
    [event] = asked
    assert event["tool"] == {"source": "built_in", "kind": tool_type, "label": label}
    assert (event["session_id"], event["arguments"]) == ("approval-demo", shown)
    [told] = [event["data"] for kind, event in heard.events if event.get("phase") == "complete"]
    assert (told, heard.text) == (denied, "Well.")


@AT_EACH_DOOR
async def test_what_is_not_permitted_is_told_as_a_call_that_failed(door: Door, name: str, stream: bool) -> None:
    model = ScriptedModel(asks(Call("mistralrs_shell", {"commands": ["ls"]})), says("Well."))
    async with door.serving(model, Coding("shell"), agent_permission="deny") as served:
        status, data, _ = await send(served, PATHS[name], body_for(name, stream))

    assert (status, b"approvals" in data) == (200, False)
    assert "not permitted" in results(model)
    if name != "conversations":  # which tell what the model read
        assert b"Shell command was denied by policy." in data
    else:
        assert b"not permitted" in data


@pytest.mark.parametrize("name", ["chat", "messages", "completions", "responses"])
async def test_an_answer_that_nobody_waits_for_says_later_that_it_waits(door: Door, name: str) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool) as served:
        body = body_for(name, False, background=True)
        async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=KEYS) as answer:
            place = answer.headers["location"].removeprefix("/v1")
        one = await until_asked(served)
        run = one["run_id"]
        async with soon():
            while (found := (await get(served, place))[1]).get("status") not in ("requires_action", "completed"):
                pass
        await post_decision(served, one["approval_id"])
        await until_over(served, run)
        _, ended = await get(served, place)

    assert found["status"] == ("completed" if name == "responses" else "requires_action")
    assert [two["approval_id"] for two in found["approvals"]] == [one["approval_id"]]
    assert (ended["status"], "approvals" in ended, files.deleted) == ("completed", False, ["/a"])
    assert "It is gone." in str(ended)


@AT_EACH_DOOR
async def test_what_an_agent_asks_that_is_a_tool_of_another_is_asked_by_its_answer(
    door: Door, name: str, stream: bool
) -> None:
    files = Deleting()
    helper = Agent(ScriptedModel(asks("delete", path="/a"), says("Done.")), tools=[files.tool], name="helper")
    model = ScriptedModel(asks("helper", input="Delete it."), says("It is gone."))
    async with door.serving(model, helper.as_tool(), approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream)
        heard = await decide(served, asked, stream)

    [one] = asked.approvals
    assert (one["tool_name"], one["arguments"]) == ("delete", {"path": "/a"})
    assert (heard.text, heard.end, files.deleted) == ("It is gone.", "stop", ["/a"])


@AT_EACH_DOOR
async def test_the_callers_call_beside_one_that_waits_is_handed_out_when_that_is_decided(
    door: Door, name: str, stream: bool
) -> None:
    files = Deleting()
    both = asks(Call("delete", {"path": "/a"}), Call("mine", {"q": "x"}))
    async with door.serving(ScriptedModel(both, says("Done.")), files.tool, approval_timeout=A_MOMENT) as served:
        asked = await pause(served, name, stream, tools=[tool_of("mine", q="string")])
        heard = await decide(served, asked, stream)

    assert (len(asked.ids), files.deleted) == (1, ["/a"])
    assert ([(name, json.loads(text)) for name, text in heard.calls], heard.end) == (
        [("mine", {"q": "x"})],
        "tool_calls",
    )


async def test_an_agent_that_hands_over_after_it_waited_leaves_the_next_one_to_another_append(
    door: Door, stream: bool
) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), asks("handoff_to_b"), says("I am b."))
    async with door.serving(model, files.tool, approval_timeout=A_MOMENT) as served:
        _, second = await post(served, "/agents", {"model": "default", "name": "b"})
        _, first = await post(served, "/agents", {"model": "default", "name": "a", "handoffs": [second["id"]]})
        status, data, _ = await send(served, "conversations", {"agent_id": first["id"], "inputs": "go"})
        asked = paused("conversations", data, False)
        path, body = deciding(asked, stream)
        _, data, _ = await send(served, path, body)
        _, answer = await post(served, f"/{path}", {"inputs": []})

    assert (status, files.deleted) == (200, ["/a"])
    assert b"agent.handoff" in data
    assert not stream or b"conversation.response.done" in data
    assert answer["outputs"][-1]["content"] == "I am b."
