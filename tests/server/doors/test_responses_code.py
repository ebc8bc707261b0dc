"""Code and commands on Responses: the items and events that OpenAI's own client has models for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from tests.interaction.doors import TIMEOUT, Door, Json, soon
from tests.server.coding import post, serving, stream
from tests.server.coding import root as root

from ronda.testing import ScriptedModel, calls, says
from ronda.wire.shared.containers import container_id, session_of

PYTHON: Json = {"type": "code_interpreter", "container": {"type": "auto"}}
SHELL: Json = {"type": "shell", "environment": {"type": "container_auto"}}


def client(door: Door) -> Any:
    """Its declarations are plain dicts here."""
    return AsyncOpenAI(base_url=door.url, api_key="test", max_retries=0, timeout=TIMEOUT)


def script() -> ScriptedModel:
    return ScriptedModel(calls("mistralrs_execute_python", code="print(6 * 7)"), says("It is 42."))


async def test_code_is_an_item_with_what_came_out_for_those_who_ask(door: Door, root: Path) -> None:
    async with serving(door, script(), root), client(door) as openai:
        response = await openai.responses.create(
            model="default", input="go", tools=[PYTHON], include=["code_interpreter_call.outputs"]
        )
    call, message = response.output
    assert (call.type, call.code, call.status) == ("code_interpreter_call", "print(6 * 7)", "completed")
    assert session_of(call.container_id) == response.session_id
    assert [output.model_dump() for output in call.outputs] == [{"type": "logs", "logs": "42\n"}]
    assert message.content[0].text == "It is 42."
    assert [tool.type for tool in response.tools] == ["code_interpreter"]


async def test_a_stream_of_code_adds_up_to_the_plain_answer(door: Door, root: Path) -> None:
    body = {"input": "go", "tools": [PYTHON], "session_id": "s"}
    async with serving(door, script(), root):
        _, plain = await post(door, "responses", body)
    async with (
        serving(door, script(), root),
        client(door) as openai,
        openai.responses.stream(model="default", input="go", tools=[PYTHON], extra_body={"session_id": "s"}) as events,
    ):
        types = [event.type async for event in events if "code_interpreter" in event.type]
        final = await events.get_final_response()
    assert types == [
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
    ]
    item = {**plain["output"][0], "id": final.output[0].id}
    assert item == final.output[0].model_dump()
    assert final.output[0].outputs is None  # not asked for them


async def test_commands_are_an_item_and_their_outputs_another(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["echo a", "cd /; exit 3"], timeout_ms=9000), says("done"))
    async with serving(door, model, root), client(door) as openai:
        response = await openai.responses.create(model="default", input="go", tools=[SHELL])
    call, output, _ = response.output
    assert (call.type, call.status, call.action.commands) == ("shell_call", "completed", ["echo a", "cd /; exit 3"])
    assert call.action.timeout_ms == 9000
    assert call.environment.type == "container_reference"
    assert (output.type, output.call_id) == ("shell_call_output", call.call_id)
    assert [(one.stdout, one.stderr, one.outcome.model_dump()) for one in output.output] == [
        ("a\n", "", {"type": "exit", "exit_code": 0}),
        ("", "", {"type": "exit", "exit_code": 3}),
    ]


async def test_a_command_out_of_time_says_so(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["sleep 60"], timeout_ms=100), says("done"))
    async with serving(door, model, root):
        _, answer = await post(door, "responses", {"input": "go", "tools": [SHELL]})
    assert [one["outcome"] for one in answer["output"][1]["output"]] == [{"type": "timeout"}]


async def test_a_stream_of_commands_has_the_apis_own_events(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["echo a"]), says("done"))
    async with serving(door, model, root):
        events = await stream(door, "responses", {"input": "go", "tools": [SHELL]})
    names = [
        name for name, event in events if "shell" in name or event.get("item", {}).get("type", "").startswith("shell")
    ]
    assert names == [
        "response.output_item.added",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.output_item.done",
    ]
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))


def open_gate(root: Path) -> None:
    [gate] = root.rglob("gate")
    gate.write_text("gate ")


async def test_output_of_a_command_is_shown_while_it_runs(door: Door, root: Path) -> None:
    first = "mkfifo gate; printf 'é'; printf problem >&2; cat gate; printf x; exit 0"
    model = ScriptedModel(calls("mistralrs_shell", commands=["true", f"({first})"]), says("done"))
    body = {"input": "go", "tools": [SHELL], "stream": True}
    shown: list[tuple[int, str, str]] = []
    output: Json = {}
    async with serving(door, model, root), soon(), door.http.post(f"{door.url}/responses", json=body) as answer:
        async for line in answer.content:
            event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
            if event.get("type") == "response.shell_call_output_content.delta":
                shown += [(event["command_index"], name, text) for name, text in event["delta"].items()]
                if sorted([text for _, _, text in shown]) == ["problem", "é"]:  # the command waits, and goes on
                    await asyncio.to_thread(open_gate, root)
            elif event.get("type") == "response.output_item.done" and event["item"]["type"] == "shell_call_output":
                output = event["item"]["output"][1]
    ends = {name: "".join([text for at, one, text in shown if (at, one) == (1, name)]) for name in ("stdout", "stderr")}
    assert ends == {"stdout": "égate x", "stderr": "problem"}
    assert (output["stdout"], output["stderr"]) == ("égate x", "problem")


@pytest.mark.parametrize(("type", "tool"), [("code_interpreter", PYTHON), ("shell", SHELL)])
async def test_a_tool_of_the_servers_can_be_chosen(door: Door, root: Path, type: str, tool: Json) -> None:
    names = {"code_interpreter": "mistralrs_execute_python", "shell": "mistralrs_shell"}
    arguments = {"code": "1"} if type == "code_interpreter" else {"commands": ["true"]}
    model = ScriptedModel(calls(names[type], **arguments), says("done"))
    async with serving(door, model, root):
        status, answer = await post(door, "responses", {"input": "go", "tools": [tool], "tool_choice": {"type": type}})
    assert status == 200, answer
    choice = model.requests[0].choice
    assert choice.mode == "required"
    assert names[type] in choice.names
    assert answer["tool_choice"] == {"type": type}


@pytest.mark.parametrize("session", ["s", "user-42.chat", "ein Gespräch", "_x", "sess_1234", "a" * 200])
def test_a_session_is_a_container_and_back(session: str) -> None:
    assert session_of(container_id(session)) == session


@pytest.mark.parametrize("id", ["", "s", "cntr_", "cntr__", "cntr_/x", "cntr__cw=="])
def test_what_is_no_container_is_no_session(id: str) -> None:
    assert session_of(id) is None
