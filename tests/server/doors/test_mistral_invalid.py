"""What does not fit is a 422 with a list of places, before any model is called; never a 500."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistralai.client import errors
from tests.interaction.doors import Door, Json
from tests.server.mistral_doors import function, serving

from ronda.testing import ScriptedModel
from ronda.wire.codec.json import encode
from ronda.wire.mistral.agents import read_create
from ronda.wire.mistral.conversations import (
    read_append,
    read_restart,
    read_start,
)
from ronda.wire.mistral.server_request import (
    REFUSED,
    read_completion,
)
from ronda.wire.mistral.validation_errors import Invalid

HI: list[Any] = [{"role": "user", "content": "hi"}]
GOOD: Json = {"agent_id": "default", "messages": HI}


def problems(body: Json | bytes, read: Callable[[bytes], object] = read_completion) -> list[tuple[str, list[Any], str]]:
    with pytest.raises(Invalid) as refused:
        read(body if isinstance(body, bytes) else json.dumps(body).encode())
    detail = json.loads(encode(refused.value.details))
    return [(one["type"], one["loc"], one["msg"]) for one in detail]


async def test_a_422_is_what_the_sdk_calls_a_validation_error(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        with pytest.raises(errors.HTTPValidationError) as refused:
            await client.agents.complete_async(agent_id="default", messages=HI, tools=[{"type": "image_generation"}])
        status, body = await behind.ask("POST", "/v1/agents/completions", {"agent_id": 5})

    assert refused.value.data.detail is not None
    [problem] = refused.value.data.detail
    assert (problem.type, problem.loc) == ("unavailable", ["body", "tools", 0, "type"])
    assert problem.msg == "'image_generation' cannot be used here: this server has no image generation"
    assert status == 422
    assert body == {
        "detail": [
            {"type": "missing", "loc": ["body", "messages"], "msg": "Field required", "input": {"agent_id": 5}},
            {"type": "string_type", "loc": ["body", "agent_id"], "msg": "Input should be a valid string", "input": 5},
        ]
    }


WRONG: dict[str, tuple[Json, str, list[Any]]] = {
    "no messages": ({"agent_id": "x"}, "missing", ["body", "messages"]),
    "no agent": ({"messages": HI}, "missing", ["body", "agent_id"]),
    "messages that are none": ({**GOOD, "messages": []}, "too_short", ["body", "messages"]),
    "messages of another type": ({**GOOD, "messages": "hi"}, "list_type", ["body", "messages"]),
    "a message of another type": ({**GOOD, "messages": [*HI, 5]}, "dict_type", ["body", "messages", 1]),
    "a role": (
        {**GOOD, "messages": [{"role": "king", "content": ""}]},
        "literal_error",
        ["body", "messages", 0, "role"],
    ),
    "no content": ({**GOOD, "messages": [{"role": "user"}]}, "missing", ["body", "messages", 0, "content"]),
    "no content of a result": (
        {**GOOD, "messages": [*HI, {"role": "tool", "tool_call_id": "x"}]},
        "missing",
        ["body", "messages", 1, "content"],
    ),
    "an assistant that says nothing": (
        {**GOOD, "messages": [{"role": "assistant"}]},
        "missing",
        ["body", "messages", 0, "content"],
    ),
    "a member of a message": (
        {**GOOD, "messages": [{**HI[0], "reasoning_content": "hm"}]},
        "extra_forbidden",
        ["body", "messages", 0, "reasoning_content"],
    ),
    "a chunk": (
        {**GOOD, "messages": [{"role": "user", "content": [{"type": "smell"}]}]},
        "union_tag_invalid",
        ["body", "messages", 0, "content", 0, "type"],
    ),
    "a chunk without a type": (
        {**GOOD, "messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        "missing",
        ["body", "messages", 0, "content", 0, "type"],
    ),
    "a picture in a system message": (
        {**GOOD, "messages": [{"role": "system", "content": [{"type": "image_url", "image_url": "x"}]}]},
        "union_tag_invalid",
        ["body", "messages", 0, "content", 0, "type"],
    ),
    "a picture's detail": (
        {
            **GOOD,
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "?"}}]}
            ],
        },
        "literal_error",
        ["body", "messages", 0, "content", 0, "image_url", "detail"],
    ),
    "a prefix that is not the last": (
        {**GOOD, "messages": [{"role": "assistant", "content": "x", "prefix": True}, *HI]},
        "value_error",
        ["body", "messages", 0, "prefix"],
    ),
    "a call without a function": (
        {**GOOD, "messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]},
        "missing",
        ["body", "messages", 0, "tool_calls", 0, "function"],
    ),
    "two calls with one id": (
        {
            **GOOD,
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}] * 2}
            ],
        },
        "value_error",
        ["body", "messages", 0, "tool_calls", 1, "id"],
    ),
    "a result not asked for and without an id": (
        {**GOOD, "messages": [*HI, {"role": "tool", "content": "x"}]},
        "missing",
        ["body", "messages", 1, "tool_call_id"],
    ),
    "max_tokens": ({**GOOD, "max_tokens": "many"}, "int_type", ["body", "max_tokens"]),
    "max_tokens 0": ({**GOOD, "max_tokens": 0}, "greater_than_equal", ["body", "max_tokens"]),
    "stop": ({**GOOD, "stop": [1]}, "string_type", ["body", "stop", 0]),
    "random_seed": ({**GOOD, "random_seed": 1.5}, "int_type", ["body", "random_seed"]),
    "a seed beyond all numbers": ({**GOOD, "random_seed": 10**30}, "less_than_equal", ["body", "random_seed"]),
    "metadata": ({**GOOD, "metadata": []}, "dict_type", ["body", "metadata"]),
    "response_format": (
        {**GOOD, "response_format": {"type": "xml"}},
        "literal_error",
        ["body", "response_format", "type"],
    ),
    "a format without its schema": (
        {**GOOD, "response_format": {"type": "json_schema"}},
        "missing",
        ["body", "response_format", "json_schema"],
    ),
    "a schema that is none": (
        {**GOOD, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "?"}}}},
        "value_error",
        ["body", "response_format", "json_schema", "schema"],
    ),
    "a tool": ({**GOOD, "tools": [{"type": "hammer"}]}, "union_tag_invalid", ["body", "tools", 0, "type"]),
    "a tool without a name": (
        {**GOOD, "tools": [{"type": "function", "function": {"parameters": {}}}]},
        "missing",
        ["body", "tools", 0, "function", "name"],
    ),
    "a tool without parameters": (
        {**GOOD, "tools": [{"type": "function", "function": {"name": "f"}}]},
        "missing",
        ["body", "tools", 0, "function", "parameters"],
    ),
    "a tool's name": (
        {**GOOD, "tools": [function("no good")]},
        "string_pattern_mismatch",
        ["body", "tools", 0, "function", "name"],
    ),
    "a tool's parameters": (
        {**GOOD, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 5}}}]},
        "value_error",
        ["body", "tools", 0, "function", "parameters"],
    ),
    "two tools of one name": (
        {**GOOD, "tools": [function("f"), function("f")]},
        "value_error",
        ["body", "tools", 1, "function", "name"],
    ),
    "tool_choice": ({**GOOD, "tool_choice": "maybe"}, "literal_error", ["body", "tool_choice"]),
    "a choice without a name": (
        {**GOOD, "tool_choice": {"type": "function", "function": {}}},
        "missing",
        ["body", "tool_choice", "function", "name"],
    ),
    "presence_penalty": ({**GOOD, "presence_penalty": 3}, "less_than_equal", ["body", "presence_penalty"]),
    "frequency_penalty": ({**GOOD, "frequency_penalty": "x"}, "float_type", ["body", "frequency_penalty"]),
    "n": ({**GOOD, "n": 0}, "greater_than_equal", ["body", "n"]),
    "a long session": ({**GOOD, "session_id": "x" * 257}, "string_too_long", ["body", "session_id"]),
    "prediction": ({**GOOD, "prediction": {"type": "?"}}, "literal_error", ["body", "prediction", "type"]),
    "parallel_tool_calls": ({**GOOD, "parallel_tool_calls": 1}, "bool_type", ["body", "parallel_tool_calls"]),
    "reasoning_effort": ({**GOOD, "reasoning_effort": "max"}, "literal_error", ["body", "reasoning_effort"]),
    "prompt_mode": ({**GOOD, "prompt_mode": "poem"}, "literal_error", ["body", "prompt_mode"]),
    "guardrails": ({**GOOD, "guardrails": [{"block": 1}]}, "extra_forbidden", ["body", "guardrails", 0, "block"]),
    "prompt_logprobs": ({**GOOD, "prompt_logprobs": True}, "literal_error", ["body", "prompt_logprobs"]),
    "a field": ({**GOOD, "colour": "red"}, "extra_forbidden", ["body", "colour"]),
    "a grammar beside a format": (
        {**GOOD, "grammar": {"type": "regex", "value": "a"}, "response_format": {"type": "json_object"}},
        "value_error",
        ["body", "grammar"],
    ),
    **{name: ({**GOOD, name: 1}, "extra_forbidden", ["body", name]) for name in REFUSED},
}


@pytest.mark.parametrize(("body", "type", "loc"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_with_its_place(body: Json, type: str, loc: list[Any]) -> None:
    assert (type, loc) in [(kind, where) for kind, where, _ in problems(body)]


@pytest.mark.parametrize(
    "kind",
    ["web_search", "web_search_premium", "code_interpreter", "image_generation", "document_library", "connector"],
)
async def test_tools_that_this_server_has_not_are_refused_by_name(door: Door, kind: str) -> None:
    tool = {"type": kind, **({"connector_id": "gmail"} if kind == "connector" else {})}
    async with serving(door, ScriptedModel()) as behind:
        status, body = await behind.ask("POST", "/v1/agents/completions", {**GOOD, "tools": [tool]})

    [problem] = body["detail"]
    assert (status, problem["type"], problem["loc"]) == (422, "unavailable", ["body", "tools", 0, "type"])
    assert kind in problem["msg"]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    body = {"messages": [{"role": "king"}, {"content": 5}], "n": "x", "model": "m"}

    assert [loc for _, loc, _ in problems(body)] == [
        ["body", "messages", 0, "role"],
        ["body", "messages", 1, "content"],
        ["body", "agent_id"],
        ["body", "n"],
        ["body", "model"],
    ]


NO_JSON: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"messages": [',
    "a list": b"[]",
    "a text": b'"hi"',
    "NaN": b'{"n": NaN}',
    "not UTF-8": b'{"agent_id": "\xff"}',
    "half a character": b'{"agent_id": "\\ud800"}',
    "half a character where nobody looks": b'{"agent_id": "x", "messages": [], "metadata": {"a": "\\udc00"}}',
    "nested without end": b"[" * 100_000,
    "nested in a field": b'{"agent_id": "x", "metadata": {"a": ' + b"[" * 100_000,
    "a number beyond all": b'{"agent_id": "x", "messages": [], "presence_penalty": 1e999}',
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON.keys())
@pytest.mark.parametrize("read", [read_completion, read_create, read_start, read_append, read_restart])
def test_what_cannot_be_read_is_a_422_too(read: Callable[[bytes], object], body: bytes) -> None:
    assert problems(body, read)


def test_a_conversation_needs_a_model_with_a_name() -> None:
    said = {"inputs": "hi", "model": ""}
    refused = ("string_too_short", ["body", "model"], "String should have at least 1 character")

    assert problems(said, read_start) == [refused]


def test_what_was_sent_is_not_said_again_where_it_is_large() -> None:
    with pytest.raises(Invalid) as refused:
        read_completion(json.dumps({"agent_id": "x" * 20_000}).encode())

    assert len(encode(refused.value.details)) < 1000


# ---- anything at all ---------------------------------------------------------------------------------------------------


RICH: Json = {
    **GOOD,
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": "x", "detail": "low"}},
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "input_audio", "input_audio": "AAAA"},
            ],
        },
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x", "name": "f"},
    ],
    "tools": [function("f", a="string")],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    "stop": ["a"],
    "metadata": {"a": {"b": 1}},
    "guardrails": [{"moderation_llm_v1": {"action": "none"}}],
    "prediction": {"type": "content", "content": "x"},
    "logit_bias": {"1": 2.0},
}
AGENT: Json = {
    "model": "default",
    "name": "A",
    "tools": [function("f", a="string")],
    "completion_args": {"stop": ["a"], "temperature": 0.1, "response_format": {"type": "text"}},
    "handoffs": [],
    "metadata": {"a": 1},
}
INPUTS: Json = {
    "inputs": [
        {"type": "message.input", "role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"type": "message.output", "content": "x"},
        {"type": "function.call", "tool_call_id": "a", "name": "f", "arguments": {"a": 1}},
        {"type": "function.result", "tool_call_id": "a", "result": "x"},
        {"type": "tool.execution", "name": "t", "arguments": "{}", "info": {"result": "x"}},
        {
            "type": "agent.handoff",
            "previous_agent_id": "a",
            "previous_agent_name": "A",
            "next_agent_id": "b",
            "next_agent_name": "B",
        },
        {"role": "user", "content": "and?"},
    ],
    "completion_args": {"max_tokens": 5},
    "store": True,
}
READERS: list[tuple[Callable[[bytes], object], Json]] = [
    (read_completion, RICH),
    (read_create, AGENT),
    (read_start, {**INPUTS, "model": "default", "tools": [function("f")]}),
    (read_append, INPUTS),
    (read_restart, {**INPUTS, "from_entry_id": "x"}),
]


@pytest.mark.parametrize(("read", "body"), READERS)
def test_the_bodies_that_are_mutated_below_are_good(read: Callable[[bytes], object], body: Json) -> None:
    assert read(json.dumps(body).encode()) is not None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield from places(value[at], (*path, at))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_nothing_but_a_422_comes_of_a_body_that_was_changed_anywhere(data: st.DataObject) -> None:
    read, good = data.draw(st.sampled_from(READERS))
    body = copy.deepcopy(good)
    path = data.draw(st.sampled_from(sorted(places(body), key=str)))
    inside = body
    for step in path[:-1]:
        inside = inside[step]
    if isinstance(path[-1], str) and data.draw(st.booleans()):
        del inside[path[-1]]
        inside[data.draw(st.text(max_size=5))] = data.draw(ANYTHING)
    else:
        inside[path[-1]] = data.draw(ANYTHING)
    try:
        read(json.dumps(body).encode("utf-8", "surrogatepass"))
    except Invalid as error:
        for one in json.loads(encode(error.details)):
            assert one["loc"][0] == "body"
            assert one["msg"]
            assert one["type"]
