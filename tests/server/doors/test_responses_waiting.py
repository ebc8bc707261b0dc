"""Tools that the client runs and the Responses API has types for: patches, shells, approvals. Their calls reach the client."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.interaction.doors import Door, Json
from tests.server.responses_door import ask, items_of, post
from tests.wire.exchanges import watched
from tests.wire.responses_items import call, message, plain, reasoning, response, said_again

from ronda import tool
from ronda.core.events import CallDelta
from ronda.core.parts import AssistantTurn, ToolResult, ToolTurn, user
from ronda.testing import Call, ScriptedModel, calls, says
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.openai_responses.input import read_items

PATCH: Json = {"operation": {"type": "create_file", "path": "a.txt", "diff": "+hello"}}
PATCHING: Json = {
    "id": "apc_1",
    "type": "apply_patch_call",
    "status": "completed",
    "call_id": "call_p",
    **PATCH,
}
SHELL: Json = {"id": "sh_1", "type": "shell_call", "status": "completed", "call_id": "call_s", "environment": None}
RUNNING: Json = {**SHELL, "action": {"commands": ["ls"], "timeout_ms": None}}
LOCAL: Json = {
    "id": "lsh_1",
    "type": "local_shell_call",
    "status": "completed",
    "call_id": "call_l",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
}
APPROVAL: Json = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "wiki",
    "name": "ask",
    "arguments": "{}",
}
WAITING: dict[str, tuple[Json, str, str, Json, Json]] = {
    "apply_patch": (
        PATCHING,
        "call_p",
        "apply_patch",
        {"type": "apply_patch_call_output", "call_id": "call_p", "status": "completed", "output": "done"},
        {"type": "apply_patch_call_output", "call_id": "call_p", "status": "failed", "output": "no"},
    ),
    "shell": (
        RUNNING,
        "call_s",
        "shell",
        {
            "type": "shell_call_output",
            "call_id": "call_s",
            "output": [{"stdout": "done", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        {
            "type": "shell_call_output",
            "call_id": "call_s",
            "output": [{"stdout": "no", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
        },
    ),
    "local_shell": (
        LOCAL,
        "call_l",
        "local_shell",
        {"type": "local_shell_call_output", "id": "call_l", "output": "done"},
        {"type": "local_shell_call_output", "id": "call_l", "output": "no"},
    ),
    "mcp_approval": (
        APPROVAL,
        "mcpr_1",
        "mcp_approval",
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False},
    ),
}


# ---- as its client ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAITING)
def test_an_item_that_waits_for_the_client_is_a_call_of_its(name: str) -> None:
    item, call_id, called, done, failed = WAITING[name]
    turn = read_plain(plain(reasoning("hm"), item)).turn

    (asked,) = turn.calls
    assert (turn.stop, asked.id, asked.name) == ("tool_calls", call_id, called)
    own = ("id", "type", "status", "call_id", "environment")
    assert json.loads(asked.arguments) == {key: value for key, value in item.items() if key not in own}
    for content, is_failed, answer in (("done", False, done), ("no", True, failed)):
        results = ToolTurn((ToolResult(call_id, content, failed=is_failed),))
        assert said_again(user("go"), turn, results)[1:] == [reasoning("hm"), item, answer]


def test_what_is_approved_was_said_to_be() -> None:
    turn = read_plain(plain(APPROVAL)).turn
    for content, approve in (("true", True), ('{"approve":true}', True), ("yes", False), ("false", False)):
        assert said_again(turn, ToolTurn((ToolResult("mcpr_1", content),)))[1]["approve"] is approve


def test_a_shell_that_the_service_has_itself_waits_for_nobody() -> None:
    item = {**RUNNING, "environment": {"type": "container_reference", "container_id": "c"}}
    turn = read_plain(plain(item, message("Done."))).turn

    assert (turn.stop, turn.calls) == ("stop", ())


@given(st.lists(st.sampled_from([PATCHING, RUNNING, LOCAL, APPROVAL, call(), message("Hm")]), unique_by=id, min_size=1))
def test_a_stream_of_such_items_comes_to_the_plain_answer(output: list[Json]) -> None:
    events: list[Any] = []
    for at, item in enumerate(output):
        begun = {**item, "status": "in_progress", "operation": {}, "arguments": "", "content": []}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": response(*output)})
    stream = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    previews, finished = watched(Reader(), stream)

    assert finished == read_plain(plain(*output))
    shown = [preview for preview in previews if type(preview) is CallDelta]
    folded = {delta.index: (delta.id, delta.name) for delta in shown}
    assert [folded[n] for n in sorted(folded)] == [(one.id, one.name) for one in finished.turn.calls]
    for n, one in enumerate(finished.turn.calls):
        assert "".join(delta.arguments for delta in shown if delta.index == n) == one.arguments


# ---- as its server ----------------------------------------------------------------------------------------------------


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("tools", [(), (look,)], ids=["alone", "beside a tool of the server's"])
async def test_a_call_of_such_a_tool_reaches_the_client_and_its_answer_the_model(
    door: Door, stream: bool, tools: Any
) -> None:
    model = ScriptedModel(calls(Call("apply_patch", PATCH, "call_p"), text="Wait."), says("Done."))
    async with door.serving(model, *tools) as served:
        first = await ask(served.client(), stream, tools=[{"type": "apply_patch"}])
        (said,) = [item for item in first.to_dict()["output"] if item["type"] == "apply_patch_call"]
        call_id = said["call_id"]
        answer = {"type": "apply_patch_call_output", "call_id": call_id, "status": "completed", "output": "ok"}
        asked = [{"role": "user", "content": "go"}, said, answer]
        second = await ask(served.client(), stream, tools=[{"type": "apply_patch"}], input=asked)

    assert items_of(first)[1:] == [{**PATCH, "type": "apply_patch_call", "call_id": call_id, "status": "completed"}]
    assert (call_id == "call_p") is not bool(tools)
    assert first.to_dict()["tools"] == [{"type": "apply_patch"}]
    assert second.output_text == "Done."
    assert [one.name for one in model.requests[0].tools if one.kind == "caller"] == ["apply_patch"]
    called, answered = model.heard[1][-2:]
    assert isinstance(called, AssistantTurn)
    assert isinstance(answered, ToolTurn)
    assert [(one.id, one.name, json.loads(one.arguments)) for one in called.calls] == [("call_p", "apply_patch", PATCH)]
    assert [(one.call_id, one.content) for one in answered.results] == [("call_p", "ok")]


@pytest.mark.parametrize(
    "choice", [{"type": "apply_patch"}, {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "apply_patch"}]}]
)
async def test_such_a_tool_can_be_chosen(door: Door, choice: Json) -> None:
    model = ScriptedModel(calls(Call("apply_patch", PATCH, "call_p")))
    async with door.serving(model) as served:
        answer = await post(served, {"input": "go", "tools": [{"type": "apply_patch"}], "tool_choice": choice})

    assert answer.status == 200, answer.body
    assert answer.json["tool_choice"] == choice
    assert model.requests[0].choice.names == ("apply_patch",)


EXEC = {"type": "exec", "command": ["ls"], "env": {}}
LOOSE: dict[str, tuple[str, Json, Json]] = {
    "without an action": ("local_shell", {"command": ["ls"]}, {"action": EXEC}),
    "a line": (
        "local_shell",
        {"action": {"command": "ls -a"}},
        {"action": {**EXEC, "command": ["bash", "-lc", "ls -a"]}},
    ),
    "nothing": ("local_shell", {}, {"action": {**EXEC, "command": []}}),
    "commands without an action": ("shell", {"commands": ["ls"]}, {"action": {"commands": ["ls"]}}),
    "no commands": ("shell", {"action": {}}, {"action": {"commands": []}}),
}


@pytest.mark.parametrize(("name", "arguments", "told"), LOOSE.values(), ids=LOOSE.keys())
async def test_an_item_has_what_its_client_reads_whatever_the_model_left_out(
    door: Door, stream: bool, name: str, arguments: Json, told: Json
) -> None:
    model = ScriptedModel(calls(Call(name, arguments)))
    tool = {"type": name} if name == "local_shell" else {"type": name, "environment": {"type": "local"}}
    async with door.serving(model) as served:
        response = await ask(served.client(), stream, tools=[tool])

    item = response.output[-1].to_dict()
    assert (item["type"], item["action"]) == (f"{name}_call", told["action"])


async def test_a_shell_in_a_container_is_refused_by_name(door: Door) -> None:
    shell = {"type": "shell", "environment": {"type": "container_auto"}}
    async with door.serving(ScriptedModel("no")) as served:
        answer = await post(served, {"input": "go", "tools": [shell]})

    assert (answer.status, answer.json["error"]["param"]) == (400, "tools[0].type")


def _steps_of_reading(count: int) -> int:
    """How many functions of ours are called to read so many calls, and as many answers to a call that was not made."""
    results = [{"type": "function_call_output", "call_id": f"c{n}", "output": ""} for n in range(count)]
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in range(count)]
    stray = [{"type": "shell_call_output", "call_id": "x", "output": []}] * count
    items = [Raw(json.dumps(item).encode()) for pair in zip(calls, results, strict=True) for item in pair]
    steps = 0

    def watch(frame: FrameType, event: str, about: Any) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(watch)
    try:
        read_items([*items, *[Raw(json.dumps(item).encode()) for item in stray]])
    finally:
        sys.setprofile(None)
    return steps


def test_answers_to_calls_that_nobody_made_cost_no_more_than_others() -> None:
    """To look for the call of each in all turns took a second for a body of 190 kB."""
    assert _steps_of_reading(200) < 2.5 * _steps_of_reading(100)
