"""What a Responses request is refused for, by name; and anything at all as one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interaction.doors import Door, Json
from tests.server.doors.test_responses_fields import FLIGHT, FORMAT, ONLY, WEATHER, _text, refused
from tests.server.responses_door import ask, output

from ronda.core.parts import AssistantTurn, Native, ToolCall
from ronda.errors import BadRequest
from ronda.providers.script import ScriptedModel, says
from ronda.wire.openai_responses import compaction, server_request
from ronda.wire.openai_responses import input as items
from ronda.wire.openai_responses import tools as declared
from ronda.wire.openai_responses.encrypted_content import Sealer

# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, fate in server_request.FIELDS.items() if fate.startswith("refused")])
async def test_what_is_not_supported_is_refused_by_name(door: Door, name: str) -> None:
    error = await refused(door, {"input": "go", name: {"some": "thing"}})

    assert (error["status"], error["param"]) == (400, name)
    assert name in error["message"]


@pytest.mark.parametrize("type", [kind for kind in declared.HOSTED if kind not in (*declared.OFFERED, "shell")])
async def test_a_hosted_tool_that_is_not_here_is_refused_by_name(door: Door, type: str) -> None:
    error = await refused(door, {"input": "go", "tools": [WEATHER, {"type": type, "name": "x", "server_label": "x"}]})

    assert (error["status"], error["param"]) == (400, "tools[1].type")
    assert type in error["message"]
    assert "this server has no" in error["message"]


def say(*said: Any) -> Json:
    return {"input": list(said)}


WRONG: dict[str, tuple[Json, str]] = {
    "no input": ({"model": "default"}, "input"),
    "an empty input": ({"input": []}, "input"),
    "a number": ({"input": 5}, "input"),
    "nothing to do, in the background": ({"input": "go", "generate": False, "background": True}, "generate"),
    "an item of no kind": (say({"type": "nonsense"}), "input[0].type"),
    "an item that is text": (say("hi"), "input[0]"),
    "no role": (say({"type": "message", "content": "x"}), "input[0].role"),
    "another role": (say({"role": "tool", "content": "x"}), "input[0].role"),
    "no content": (say({"role": "user"}), "input[0].content"),
    "no parts": (say({"role": "user", "content": []}), "input[0].content"),
    "an odd part": (say({"role": "user", "content": [{"type": "x"}]}), "input[0].content[0].type"),
    "a part without text": (say({"role": "user", "content": [{"type": "input_text"}]}), "input[0].content[0].text"),
    "no picture": (say({"role": "user", "content": [{"type": "input_image"}]}), "input[0].content[0].image_url"),
    "no file": (say({"role": "user", "content": [{"type": "input_file"}]}), "input[0].content[0]"),
    "a file from anywhere": (
        say({"role": "user", "content": [{"type": "input_file", "file_url": "file:///etc/passwd"}]}),
        "input[0].content[0].file_url",
    ),
    "no sound": (say({"role": "user", "content": [{"type": "input_audio"}]}), "input[0].content[0].input_audio"),
    "a picture of the system's": (
        say({"role": "system", "content": [{"type": "input_image", "image_url": "x"}]}),
        "input[0].content[0]",
    ),
    "a call without an id": (say({"type": "function_call", "name": "a", "arguments": "{}"}), "input[0].call_id"),
    "a call without a name": (say({"type": "function_call", "call_id": "a", "arguments": "{}"}), "input[0].name"),
    "two calls of one id": (
        say(*[{"type": "function_call", "call_id": "a", "name": "b", "arguments": "{}"}] * 2),
        "input[1].call_id",
    ),
    "a result without an id": (say({"type": "function_call_output", "output": "x"}), "input[0].call_id"),
    "a result without anything": (say({"type": "function_call_output", "call_id": "x"}), "input[0].output"),
    "a result of no call": (say({"role": "user", "content": "x"}, output("c", "x")), "input"),
    "a compaction of nothing": (say({"type": "compaction"}), "input[0].encrypted_content"),
    "a reference to nothing": (say({"type": "item_reference"}), "input[0].id"),
    "another service's item of the wrong type": (say({"type": "mcp_call", "call_id": 5}), "input[0].call_id"),
    "a tool without a name": ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
    "a tool of a bad name": ({"input": "x", "tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    "two tools of one name": ({"input": "x", "tools": [WEATHER, WEATHER]}, "tools[1]"),
    "a tool that is no schema": (
        {"input": "x", "tools": [{**WEATHER, "parameters": {"type": "nonsense"}}]},
        "tools[0].parameters",
    ),
    "a hosted tool in a namespace": (
        {"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "shell"}]}]},
        "tools[0].tools[0].type",
    ),
    "an odd include": ({"input": "x", "include": ["everything"]}, "include[0]"),
    "too much metadata": ({"input": "x", "metadata": {str(n): "" for n in range(17)}}, "metadata"),
    "a long value": ({"input": "x", "metadata": {"a": "b" * 513}}, "metadata.a"),
    "metadata that is no text": ({"input": "x", "metadata": {"a": 1}}, "metadata[...]"),
    "no tokens": ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
    "two limits": ({"input": "x", "max_output_tokens": 5, "max_tokens": 6}, "max_tokens"),
    "no calls": ({"input": "x", "max_tool_calls": 0}, "max_tool_calls"),
    "fewer than no rounds": ({"input": "x", "max_tool_rounds": -1}, "max_tool_rounds"),
    "too many probabilities": ({"input": "x", "top_logprobs": 21}, "top_logprobs"),
    "options of no stream": ({"input": "x", "stream_options": {}}, "stream_options"),
    "odd options of a stream": (
        {"input": "x", "stream": True, "stream_options": {"sound": True}},
        "stream_options",
    ),
    "half a truncation": ({"input": "x", "truncation": "half"}, "truncation"),
    "an odd format": ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format.type"),
    "a format that is no schema": (
        {"input": "x", "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": 5}}}},
        "text.format.schema",
    ),
    "a grammar and a format": (
        {"input": "x", "grammar": "a", "text": {"format": {"type": "json_object"}}},
        "grammar",
    ),
    "an odd session": ({"input": "x", "session_id": ""}, "session_id"),
    "detaching": ({"input": "x", "on_disconnect": "stay"}, "on_disconnect"),
    "warm": ({"input": "x", "temperature": "warm"}, "temperature"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_said_with_its_place(door: Door, name: str) -> None:
    body, param = WRONG[name]
    error = await refused(door, body)

    assert (error["status"], error["param"]) == (400, param)
    assert error["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"input": NaN}', 400),
        (b'{"input": "\xff"}', 400),
        (b'{"input": "\\ud800"}', 400),
        (b'{"input": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", 400),
        (b'{"input": "' + b"x" * 100_000 + b'"}', 413),
    ],
    ids=["nothing", "a list", "NaN", "not UTF-8", "half a character", "deep", "large"],
)
@pytest.mark.parametrize("path", ["/responses", "/responses/compact", "/responses/input_tokens"])
async def test_a_body_that_cannot_be_read_is_refused(door: Door, body: bytes, status: int, path: str) -> None:
    assert (await refused(door, body, path))["status"] == status


async def test_another_content_type_is_a_415(door: Door) -> None:
    error = await refused(door, {"input": "x"}, **{"content-type": "text/plain"})

    assert error["status"] == 415


# ---- items of other services -----------------------------------------------------------------------------------------


async def test_items_of_other_services_go_back_to_them_and_are_told_to_others(door: Door) -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "cats"},
    }
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    answer = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [_text("Cats.")],
        "phase": "final_answer",
    }
    model = ScriptedModel(says("More cats."))
    async with door.serving(model) as served:
        await ask(
            served.client(),
            False,
            input=[{"role": "user", "content": "a"}, thought, search, answer, {"role": "user", "content": "b"}],
        )

    turn = model.heard[0][1]
    assert isinstance(turn, AssistantTurn)
    assert turn.text.startswith("[web_search_call: ")
    assert turn.text.endswith("Cats.")
    assert isinstance(turn.native, Native)
    assert turn.native.api == "openai-responses@caller"
    kept = [{key: value for key, value in item.items() if key not in ("id", "status")} for item in (thought, answer)]
    assert json.loads(bytes(turn.native.payload)) == [kept[0], search, kept[1]]


async def test_a_custom_call_and_a_foreign_compaction_are_read(door: Door) -> None:
    model = ScriptedModel(says("Ok."))
    said = [
        {"type": "compaction", "encrypted_content": "gAAAA"},
        {"role": "user", "content": "go"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]
    async with door.serving(model) as served:
        await ask(served.client(), False, input=said)

    first, _, asked, _ = model.heard[0]
    assert isinstance(first, AssistantTurn)
    assert first.text.startswith("[compaction: ")
    assert isinstance(asked, AssistantTurn)
    assert asked.parts == (ToolCall("c1", "patch", '{"input":"*** Begin"}'),)


# ---- anything at all -------------------------------------------------------------------------------------------------

WHOLE: Json = {
    "model": "default",
    "input": [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:x"}],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "x"}],
            "encrypted_content": "ronda.turn.1.AAAA",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "x", "annotations": []}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "get_weather",
            "arguments": "{}",
            "id": "fc_1",
            "status": "completed",
        },
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "compaction", "encrypted_content": "ronda.summary.1.eJw="},
        {"type": "item_reference", "id": "msg_1_0"},
    ],
    "instructions": "x",
    "tools": [WEATHER, {"type": "namespace", "name": "n", "tools": [FLIGHT]}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [ONLY]},
    "text": {"format": FORMAT, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "stream": True,
    "stream_options": {"include_obfuscation": True},
    "max_output_tokens": 16,
    "max_tool_calls": 1,
    "top_logprobs": 1,
    "temperature": 1,
    "service_tier": "flex",
    "truncation": "auto",
}
_odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        ["message", "reasoning", "function_call", "item_reference", "allowed_tools", "user", "assistant", "auto"]
    ),
    st.lists(st.integers() | st.text(max_size=3), max_size=2),
    st.dictionaries(
        st.text(max_size=4) | st.sampled_from(["type", "role", "name", "text"]), st.text(max_size=3), max_size=2
    ),
    st.sampled_from([10**400, -(10**30), 1e308]),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield from _places(inner, (*path, key))


PLACES = list(_places(WHOLE))


@given(st.lists(st.tuples(st.sampled_from(PLACES), _odd, st.booleans()), min_size=1, max_size=3))
@settings(max_examples=400)
def test_whatever_is_sent_is_read_or_refused_with_its_place(changes: list[tuple[tuple[Any, ...], Any, bool]]) -> None:
    body = copy.deepcopy(WHOLE)
    for path, odd, drop in changes:
        inside: Any = body
        try:
            for key in path[:-1]:
                inside = inside[key]
            if drop:
                del inside[path[-1]]
            else:
                inside[path[-1]] = odd
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken this place away
    problem = _problem_with(json.dumps(body).encode())
    assert problem is None or (problem.param and str(problem))


def _problem_with(body: bytes) -> BadRequest | None:
    try:
        request = server_request.read_request(body, Sealer(b"secret", "ada"))
        if request.items:
            named = dict(request.named)
            items.read_items([request.items[0] if at in named else raw for at, raw in enumerate(request.items)])
    except BadRequest as error:
        return error
    return None


@given(st.binary(max_size=60))
def test_no_bytes_are_too_odd(body: bytes) -> None:
    for read in (server_request.read_request, lambda body: compaction.compaction_of(body, Sealer(b"secret", "ada"))):
        with pytest.raises(BadRequest):
            read(body)
