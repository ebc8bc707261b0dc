"""Python and shell of a server, asked for in the words of each door, in a sandbox of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.interaction.doors import Door, Json
from tests.server.coding import post, serving, stream
from tests.server.coding import root as root

from ronda.core.parts import ToolTurn
from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.function import as_tool

HI = [{"role": "user", "content": "go"}]
PYTHON: dict[str, tuple[str, Json]] = {
    "chat, a flag": ("chat/completions", {"messages": HI, "enable_code_execution": True}),
    "chat, a tool": (
        "chat/completions",
        {"messages": HI, "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
    ),
    "responses": ("responses", {"input": "go", "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    "messages": (
        "messages",
        {"messages": HI, "max_tokens": 99, "tools": [{"type": "code_execution_20250522", "name": "code_execution"}]},
    ),
    "agents": (
        "agents/completions",
        {"agent_id": "default", "messages": HI, "tools": [{"type": "code_interpreter"}]},
    ),
    "conversations": ("conversations", {"model": "default", "inputs": "go", "tools": [{"type": "code_interpreter"}]}),
}


def result(model: ScriptedModel) -> str:
    """The last that the model has read of its calls."""
    [*_, turn] = [turn for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    return turn.results[0].content


@pytest.mark.parametrize(("path", "body"), PYTHON.values(), ids=PYTHON.keys())
async def test_python_runs_for_whoever_asks_for_it(door: Door, root: Path, path: str, body: Json) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="6 * 7"), says("done"))
    async with serving(door, model, root):
        status, answer = await post(door, path, body)
    assert status == 200, answer
    assert json.loads(result(model))["result"] == "42"


async def test_python_is_not_offered_to_whoever_does_not_ask(door: Door, root: Path) -> None:
    model = ScriptedModel(says("done"))
    async with serving(door, model, root):
        status, _ = await post(door, "chat/completions", {"messages": HI})
    assert status == 200
    assert not (root / "work").exists()


async def test_a_session_keeps_its_variables_and_files_over_requests(door: Door, root: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_execute_python", code="x = 1; open('a.csv', 'w').write('x')"),
        says("one"),
        calls("mistralrs_execute_python", code="x + len(open('a.csv').read())"),
        says("two"),
    )
    asked = {"messages": HI, "enable_code_execution": True, "session_id": "s"}
    async with serving(door, model, root):
        _, first = await post(door, "chat/completions", asked)
        [session_id] = first["agentic_tool_calls"][0]["file_ids"]
        async with door.http.get(f"{door.url}/files/{session_id}/content") as answer:
            assert await answer.read() == b"x"
        await post(door, "chat/completions", asked)
    assert json.loads(result(model))["result"] == "2"


async def test_a_shell_is_asked_for_on_responses(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["echo hello"]), says("done"))
    async with serving(door, model, root):
        tools = [{"type": "shell", "environment": {"type": "container_auto"}}]
        status, answer = await post(door, "responses", {"input": "go", "tools": tools})
    assert status == 200, answer
    assert json.loads(result(model))["stdout"] == "hello\n"


async def test_a_request_may_refuse_what_it_asks_for(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="1"), says("done"))
    async with serving(door, model, root):
        await post(
            door, "chat/completions", {"messages": HI, "enable_code_execution": True, "agent_permission": "deny"}
        )
    assert "not permitted" in result(model)
    assert not (root / "work").exists()


WRITES = "print('hi'); open('a.csv', 'w').write('x\\n1\\n')"


@pytest.mark.parametrize("output", [{"name": "a.csv"}, "a.csv"])
async def test_a_stream_tells_of_code_in_the_words_of_its_kind(door: Door, root: Path, output: Json | str) -> None:
    """And of the file before the call's end, as programs for mistral.rs expect."""
    model = ScriptedModel(calls("mistralrs_execute_python", code=WRITES, outputs=[output]), says("done"))
    async with serving(door, model, root):
        events = await stream(door, "chat/completions", {"messages": HI, "enable_code_execution": True})
    named = [(name, event) for name, event in events if name]
    assert [name for name, _ in named] == [
        "agentic_tool_call_progress", "file_produced", "agentic_tool_call_progress",
    ]  # fmt: skip
    calling, file, complete = [event for _, event in named]
    assert calling["data"] == {"tool_type": "code_execution", "code": WRITES}
    assert (calling["tool_name"], calling["phase"], calling["round"]) == ("mistralrs_execute_python", "calling", 0)
    assert {name: file[name] for name in ("name", "format", "mime_type", "bytes", "purpose", "text", "preview")} == {
        "name": "a.csv", "format": "csv", "mime_type": "text/csv", "bytes": 4, "purpose": "agent_output",
        "text": "x\n1\n", "preview": "x\n1\n",
    }  # fmt: skip
    assert file["source"] == {"tool": "mistralrs_execute_python", "round": 0, "turn": 0}
    assert file["id"].startswith("file_")
    assert file["choices"][0]["delta"] == {"content": ""}
    data = complete["data"]
    assert data.keys() == {"tool_type", "code", "stdout", "result", "working_directory", "execution_time_ms"}
    assert (data["tool_type"], data["code"], data["stdout"]) == ("code_execution", WRITES, "hi\n")
    assert data["working_directory"]
    assert data["execution_time_ms"] >= 0


async def test_a_plain_answer_has_the_files_and_who_made_them(door: Door, root: Path) -> None:
    first = calls("mistralrs_execute_python", code=WRITES)
    second = calls("mistralrs_shell", commands=["printf PNG > b.png", "exit 3"])
    model = ScriptedModel(first, second, says("done"))
    body = {"messages": HI, "enable_code_execution": True, "enable_shell": True}
    async with serving(door, model, root):
        _, answer = await post(door, "chat/completions", body)
    python, shell = answer["agentic_tool_calls"]
    text, picture = answer["files"]
    assert (python["file_ids"], shell["file_ids"]) == ([text["id"]], [picture["id"]])
    assert python["result_content"] == "stdout: hi\n"
    assert json.loads(shell["result_content"])["exit_code"] == 3
    assert (text["text"], picture["data_base64"], picture["mime_type"]) == ("x\n1\n", "UE5H", "image/png")


async def test_two_python_calls_of_one_turn_keep_their_files_apart(door: Door, root: Path) -> None:
    write = "open('{0}.txt', 'w').write('{0}')"
    model = ScriptedModel(
        calls(
            Call("mistralrs_execute_python", {"code": write.format("a")}),
            Call("mistralrs_execute_python", {"code": write.format("b")}),
        ),
        says("done"),
    )
    async with serving(door, model, root):
        _, answer = await post(door, "chat/completions", {"messages": HI, "enable_code_execution": True})
    names = {file["id"]: file["name"] for file in answer["files"]}
    made = [[names[file_id] for file_id in record["file_ids"]] for record in answer["agentic_tool_calls"]]
    assert made == [["a.txt"], ["b.txt"]]


async def test_a_file_is_handed_on_again_when_it_changes_and_only_then(door: Door, root: Path) -> None:
    codes = ["open('a.txt', 'w').write('1')", "open('a.txt').read()", "open('a.txt', 'w').write('2')"]
    model = ScriptedModel(*[calls("mistralrs_execute_python", code=code) for code in codes], says("done"))
    async with serving(door, model, root):
        _, answer = await post(door, "chat/completions", {"messages": HI, "enable_code_execution": True})
    assert [len(record.get("file_ids", [])) for record in answer["agentic_tool_calls"]] == [1, 0, 1]
    assert [file["text"] for file in answer["files"]] == ["2"]


async def test_a_shell_tells_of_its_commands(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["echo a", "false"]), says("done"))
    async with serving(door, model, root):
        events = await stream(door, "chat/completions", {"messages": HI, "enable_shell": True})
    calling, complete = [event["data"] for name, event in events if name]
    assert calling == {"tool_type": "shell", "commands": ["echo a", "false"]}
    told = {name: complete[name] for name in ("commands", "stdout", "stderr", "exit_code", "status", "timed_out")}
    assert told == {
        "commands": ["echo a", "false"], "stdout": "a\n", "stderr": "", "exit_code": 1, "status": "error", "timed_out": False,
    }  # fmt: skip


async def test_a_result_too_long_for_a_model_is_a_file_that_it_can_read(door: Door, root: Path) -> None:
    """Of any tool, in a run that can read files."""

    async def log(lines: int) -> str:
        """Show the log."""
        return "".join(f"line {number}\n" for number in range(lines))

    model = ScriptedModel(calls("log", lines=20_000), says("done"))
    body = {"messages": HI, "enable_code_execution": True}
    async with serving(door, model, root, tools=[as_tool(log)]):
        _, answer = await post(door, "chat/completions", body)
        shown = result(model)
        found = re.search(r"are the file (\S+): mistralrs_read_file reads", shown)
        assert found is not None
        async with door.http.get(f"{door.url}/files/{found[1]}/content") as content:
            assert await content.text() == await log(20_000)
    assert "mistralrs_read_file" in [tool.name for tool in model.requests[-1].tools]
    assert shown.startswith("line 0\nline 1\n")
    assert shown.endswith("line 19999\n")
    assert len(shown) < 66_000
    assert "files" not in answer  # none was made
