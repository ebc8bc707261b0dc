"""Custom tools on Chat Completions: the model is offered a function of one text, and the client gets the text."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door, Json, result, user
from tests.interaction.upstreams import Upstream, completes

from ronda.providers.script import Call, ScriptedModel, calls, says

GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}
PATCH: Json = {"type": "custom", "custom": {"name": "patch", "description": "Patch a file.", "format": GRAMMAR}}
LOOK: Json = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALLED = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": '- "a"\n'}}


def calls_in(answer: Any, stream: bool) -> list[Json]:
    if not stream:
        return list(answer.json["choices"][0]["message"]["tool_calls"])
    deltas = [chunk["choices"][0]["delta"] for chunk in answer.chunks if chunk["choices"]]
    return [call for delta in deltas for call in delta.get("tool_calls") or ()]


@pytest.mark.parametrize("arguments", ['{"input": "- \\"a\\"\\n"}', '- "a"\n'], ids=["as declared", "as it is"])
async def test_a_call_of_a_custom_tool_has_the_text_that_the_model_wrote(
    door: Door, stream: bool, arguments: str
) -> None:
    model = ScriptedModel(calls(Call("patch", arguments), Call("look", "{}")))

    async with door.serving(model) as served:
        answer = await served.post({"messages": "go", "tools": [PATCH, LOOK], "stream": stream})

    assert answer.status == 200, answer.body
    patch, look = calls_in(answer, stream)
    assert (patch["type"], patch["custom"]) == ("custom", {"name": "patch", "input": '- "a"\n'})
    assert (look["type"], look["function"]["name"]) == ("function", "look")
    [spec, _] = model.requests[0].tools
    assert "It must follow this grammar (lark)" in bytes(spec.parameters).decode()


async def test_what_was_called_and_its_result_go_to_the_model_as_a_function_s(door: Door, stream: bool) -> None:
    said = [user("go"), {"role": "assistant", "content": None, "tool_calls": [CALLED]}, result("call_1", "done")]

    async with Upstream(completes("Patched.")) as upstream, door.serving(upstream.url) as served:
        await served.post({"messages": said, "tools": [PATCH], "stream": stream})

    [request] = upstream.requests
    arguments = '{"input":"- \\"a\\"\\n"}'
    function = {"name": "patch", "arguments": arguments}
    assert request["messages"][1]["tool_calls"] == [{"id": "call_1", "type": "function", "function": function}]
    assert request["messages"][2] == result("call_1", "done")
    assert request["tools"][0]["function"]["name"] == "patch"


CHOICE: Json = {"type": "custom", "custom": {"name": "patch"}}
CHOICES: list[Json] = [
    CHOICE,
    {"type": "custom", "name": "patch"},
    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [CHOICE]}},
]


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_custom_tool_can_be_chosen(door: Door, choice: Json) -> None:
    model = ScriptedModel(calls("patch", input="x"))

    async with door.serving(model) as served:
        answer = await served.post({"messages": "go", "tools": [LOOK, PATCH], "tool_choice": choice})

    assert [one["custom"]["input"] for one in calls_in(answer, False)] == ["x"]
    assert model.requests[0].choice.names == ("patch",)


async def test_a_flat_declaration_is_taken_too(door: Door) -> None:
    async with door.serving(ScriptedModel(calls("patch", input="x"))) as served:
        answer = await served.post({"messages": "go", "tools": [{"type": "custom", "name": "patch"}]})

    assert [one["custom"]["input"] for one in calls_in(answer, False)] == ["x"]


async def test_a_call_that_is_neither_is_refused_by_its_place(door: Door) -> None:
    said = [user("go"), {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, result("c", "x")]

    async with door.serving(ScriptedModel(says("no"))) as served:
        answer = await served.post({"messages": said})

    assert (answer.status, answer.error["param"]) == (400, "messages[1].tool_calls[0].function")
