"""Code and commands on Messages: the blocks of the API's own server tools, by the version that a request declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest
from tests.interaction.doors import TIMEOUT, Door, Json
from tests.server.coding import post, serving
from tests.server.coding import root as root

from ronda.core.parts import AssistantTurn
from ronda.testing import ScriptedModel, calls, says

HI: Json = {"role": "user", "content": "go"}
OLD: Json = {"type": "code_execution_20250522", "name": "code_execution"}
NEW: Json = {"type": "code_execution_20250825", "name": "code_execution"}
WRITES = "print('hi'); open('a.csv', 'w').write('x')"


def client(door: Door) -> Any:
    """Its declarations are plain dicts here."""
    url = door.url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(base_url=url, api_key="test", max_retries=0, timeout=TIMEOUT)


def script() -> ScriptedModel:
    return ScriptedModel(calls("mistralrs_execute_python", code=WRITES), says("done"))


async def test_code_is_a_server_tool_use_and_its_result(door: Door, root: Path) -> None:
    async with serving(door, script(), root), client(door) as claude:
        message = await claude.messages.create(model="default", max_tokens=99, messages=[HI], tools=[OLD])
    use, result, text = message.content
    assert (use.type, use.name, use.input) == ("server_tool_use", "code_execution", {"code": WRITES})
    assert (result.type, result.tool_use_id) == ("code_execution_tool_result", use.id)
    assert (result.content.stdout, result.content.stderr, result.content.return_code) == ("hi\n1", "", 0)
    [file] = message.files
    assert [one.file_id for one in result.content.content] == [file["id"]]
    assert (text.text, message.stop_reason) == ("done", "end_turn")
    assert message.container.id.startswith("cntr_")


async def test_a_stream_of_code_adds_up_to_the_plain_answer(door: Door, root: Path) -> None:
    asked = {"model": "default", "max_tokens": 99, "messages": [HI], "tools": [NEW]}
    async with serving(door, script(), root), client(door) as claude, claude.messages.stream(**asked) as events:
        kinds = [event.type async for event in events]
        message = await events.get_final_message()
    use, result, text = message.content
    assert (use.type, use.input, result.content.stdout, text.text) == (
        "server_tool_use",
        {"code": WRITES},
        "hi\n1",
        "done",
    )
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3


async def test_newer_code_execution_has_a_bash(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["echo a", "exit 3"]), says("done"))
    async with serving(door, model, root):
        status, answer = await post(door, "messages", {"messages": [HI], "max_tokens": 9, "tools": [NEW]})
    assert status == 200, answer
    use, result, _ = answer["content"]
    assert (use["name"], use["input"]) == ("bash_code_execution", {"command": "echo a\nexit 3"})
    assert result["type"] == "bash_code_execution_tool_result"
    assert result["content"] == {
        "type": "bash_code_execution_result", "stdout": "a\n", "stderr": "", "return_code": 3, "content": [],
    }  # fmt: skip


async def test_older_code_execution_has_none(door: Door, root: Path) -> None:
    model = ScriptedModel(says("done"))
    async with serving(door, model, root):
        await post(door, "messages", {"messages": [HI], "max_tokens": 9, "tools": [OLD]})
    assert [tool.name for tool in model.requests[0].tools] == [
        "mistralrs_execute_python", "mistralrs_reset_python_session", "mistralrs_read_file", "mistralrs_list_files",
    ]  # fmt: skip


async def test_bash_alone_is_enough_for_newer_code_execution(door: Door, root: Path) -> None:
    model = ScriptedModel(says("done"))
    async with serving(door, model, root, enable_code_execution=False):
        status, answer = await post(door, "messages", {"messages": [HI], "max_tokens": 9, "tools": [NEW]})
    assert status == 200, answer
    assert "mistralrs_shell" in [tool.name for tool in model.requests[0].tools]


async def test_what_came_back_is_taken_again(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="1"), says("done"), says("again"))
    async with serving(door, model, root):
        _, first = await post(door, "messages", {"messages": [HI], "max_tokens": 9, "tools": [OLD]})
        messages = [HI, {"role": "assistant", "content": first["content"]}, HI]
        status, answer = await post(door, "messages", {"messages": messages, "max_tokens": 9, "tools": [OLD]})
    assert status == 200, answer
    called, said = [turn for turn in model.heard[-1] if isinstance(turn, AssistantTurn)]
    assert [(call.name, call.arguments) for call in called.calls] == [("mistralrs_execute_python", '{"code":"1"}')]
    assert (said.text, said.native) == ("done", None)


async def test_code_out_of_time_is_an_error_of_its_own(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="while True: pass"), says("done"))
    async with serving(door, model, root, code_exec_timeout=0.2):
        _, answer = await post(door, "messages", {"messages": [HI], "max_tokens": 9, "tools": [OLD]})
    assert answer["content"][1]["content"] == {
        "type": "code_execution_tool_result_error", "error_code": "execution_time_exceeded",
    }  # fmt: skip


async def test_the_clients_own_bash_stays_the_clients(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("bash", command="ls"))
    async with serving(door, model, root):
        tools = [{"type": "bash_20250124", "name": "bash"}]
        status, answer = await post(door, "messages", {"messages": [HI], "max_tokens": 9, "tools": tools})
    assert status == 200, answer
    [use] = answer["content"]
    assert (use["type"], use["name"], use["input"]) == ("tool_use", "bash", {"command": "ls"})
    assert answer["stop_reason"] == "tool_use"


# ---- a server that runs no code ---------------------------------------------------------------------------------------

WISHES: dict[str, tuple[str, Json]] = {
    "chat": ("chat/completions", {"messages": [HI], "enable_code_execution": True}),
    "messages": ("messages", {"messages": [HI], "max_tokens": 9, "enable_code_execution": True}),
    "responses": ("responses", {"input": "go", "enable_shell": True}),
}
DEMANDS: dict[str, tuple[str, Json]] = {
    "chat": ("chat/completions", {"messages": [HI], "tools": [{"type": "code_interpreter"}]}),
    "messages": ("messages", {"messages": [HI], "max_tokens": 9, "tools": [NEW]}),
    "responses": (
        "responses",
        {"input": "go", "tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
    ),
    "agents": (
        "agents/completions",
        {"agent_id": "default", "messages": [HI], "tools": [{"type": "code_interpreter"}]},
    ),
}


@pytest.mark.parametrize(("path", "body"), WISHES.values(), ids=WISHES.keys())
async def test_a_flag_is_a_wish_where_nothing_runs_code(door: Door, path: str, body: Json) -> None:
    async with door.serving(ScriptedModel(says("done"))):
        status, answer = await post(door, path, body)
    assert status == 200, answer
    assert any("switches it on" in warning for warning in answer["warnings"])


@pytest.mark.parametrize(("path", "body"), DEMANDS.values(), ids=DEMANDS.keys())
async def test_a_tool_is_an_error_where_nothing_runs_code(door: Door, path: str, body: Json) -> None:
    async with door.serving(ScriptedModel(says("done"))):
        status, answer = await post(door, path, body)
    assert status in (400, 422), answer
    assert "this server has no" in str(answer)
