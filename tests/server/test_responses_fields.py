"""Every field of a request: what it does to the model's request, what of it comes back, and which are refused by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interaction.doors import Door, Json, Upstream, answers
from tests.server.responses_door import ask, function, output, post, schemas_or_skip

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Native, Text, ToolCall, Usage
from ronda.core.plan import ToolChoice
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadRequest
from ronda.providers.openai_responses import OpenAIResponses
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.wire.openai_responses import compaction, server
from ronda.wire.openai_responses import input as items
from ronda.wire.openai_responses import tools as declared
from ronda.wire.openai_responses.sealed import Sealer

WEATHER = function("get_weather", city="string")
FLIGHT = function("book_flight", city="string")


class Nodding:
    """A model that says the same to anything, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.asked += 1
        if request.stream:
            show([TextDelta("{}")])
        return ModelFinished(AssistantTurn((Text("{}"),)), Usage(1, 1))


async def refused(door: Door, body: Json | bytes, path: str = "/responses", **headers: str) -> Json:
    """Send what must not reach the model; what is said about it."""
    model = Nodding()
    async with door.serving(model, max_body=100_000) as served:
        answer = await post(served, body, path, **headers)
    assert model.asked == 0
    assert 400 <= answer.status < 500, answer.body
    assert answer.error["type"] == "invalid_request_error"
    return {"status": answer.status, **answer.error}


# ---- fields with an effect -------------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "name": "number", "schema": SCHEMA, "strict": True}
# What is asked → what the model is asked, and what comes back in the response.
EFFECTS: dict[str, tuple[Json, Json, Json]] = {
    "temperature": ({"temperature": 0.5}, {"temperature": 0.5}, {"temperature": 0.5}),
    "top_p": ({"top_p": 0.25}, {"top_p": 0.25}, {"top_p": 0.25}),
    "max_output_tokens": ({"max_output_tokens": 99}, {"max_tokens": 99}, {"max_output_tokens": 99}),
    "max_tokens": ({"max_tokens": 99}, {"max_tokens": 99}, {"max_output_tokens": 99}),
    "max_completion_tokens": ({"max_completion_tokens": 99}, {"max_tokens": 99}, {"max_output_tokens": 99}),
    "stop": ({"stop": "x"}, {"stop": ("x",)}, {}),
    "seed": ({"seed": 7}, {"seed": 7}, {}),
    "parallel": ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    "reasoning": (
        {"reasoning": {"effort": "low", "summary": "concise"}},
        {"reasoning_effort": "low", "native": {"reasoning": {"summary": "concise"}}},
        {"reasoning": {"effort": "low", "summary": "concise"}},
    ),
    "reasoning_effort": ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}, {}),
    "format": (
        {"text": {"format": FORMAT}},
        {"response_format": {"type": "json_schema", "name": "number", "schema": SCHEMA, "strict": True}},
        {
            "text": {
                "format": {"type": "json_schema", "name": "number", "description": None, "schema": None, "strict": True}
            }
        },
    ),
    "json_object": (
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}},
        {"text": {"format": {"type": "json_object"}}},
    ),
    "response_format": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "number", "schema": SCHEMA}}},
        {"response_format": {"type": "json_schema", "name": "number", "schema": SCHEMA}},
        {},
    ),
    "text": ({"text": {"format": {"type": "text"}}}, {}, {"text": {"format": {"type": "text"}}}),
    "verbosity": (
        {"text": {"verbosity": "low"}},
        {"native": {"verbosity": "low"}},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    ),
    "top_logprobs": (
        {"top_logprobs": 3},
        {"extra": {"logprobs": True, "top_logprobs": 3}},
        {"top_logprobs": 3},
    ),
    "include": (
        {"include": ["message.output_text.logprobs"]},
        {"extra": {"logprobs": True, "top_logprobs": 0}},
        {"top_logprobs": 0},
    ),
    "penalties": (
        {"presence_penalty": 0.5, "frequency_penalty": -0.5},
        {"extra": {"presence_penalty": 0.5, "frequency_penalty": -0.5}},
        {"presence_penalty": 0.5, "frequency_penalty": -0.5},
    ),
    "user": ({"user": "ada"}, {"extra": {"user": "ada"}}, {"user": "ada"}),
    "safety_identifier": (
        {"safety_identifier": "ada"},
        {"extra": {"safety_identifier": "ada"}},
        {"safety_identifier": "ada"},
    ),
    "prompt_cache_key": (
        {"prompt_cache_key": "k"},
        {"extra": {"prompt_cache_key": "k"}},
        {"prompt_cache_key": "k"},
    ),
    "service_tier": (
        {"service_tier": "flex"},
        {"extra": {"service_tier": "flex"}},
        {"service_tier": "flex"},
    ),
    "service_tier as usual": ({"service_tier": "auto"}, {}, {"service_tier": "default"}),
    "truncation": ({"truncation": "auto"}, {"native": {"truncation": "auto"}}, {"truncation": "auto"}),
    "prompt_cache_retention": (
        {"prompt_cache_retention": "24h"},
        {"native": {"prompt_cache_retention": "24h"}},
        {},
    ),
    "something nobody knows": ({"top_k": 5, "grammar": None}, {"extra": {"top_k": 5}}, {}),
    "metadata": ({"metadata": {"a": "b"}}, {}, {"metadata": {"a": "b"}}),
    "max_tool_calls": ({"max_tool_calls": 3}, {}, {"max_tool_calls": 3}),
    "store": ({"store": False}, {}, {"store": False}),
    "session_id": ({"session_id": "s"}, {}, {"session_id": "s"}),
    "nulls": (
        dict.fromkeys(["temperature", "tools", "tool_choice", "metadata", "include", "reasoning", "text"]),
        {},
        {},
    ),
    "harmless": ({"background": False, "n": 1, "on_disconnect": "cancel"}, {}, {"background": False}),
}


@pytest.mark.parametrize("name", EFFECTS)
async def test_a_field_reaches_the_model_and_comes_back(door: Door, name: str) -> None:
    asked, options, echoed = EFFECTS[name]
    model = ScriptedModel(says('{"n": 1}'))
    async with door.serving(model) as served:
        answer = await post(served, {"input": "go", **asked})
    assert answer.status == 200, answer.body
    schemas_or_skip().check(answer.json, "ResponseResource")

    assert {key: answer.json[key] for key in echoed} == echoed
    assert _said(model.requests[0]) == options


def _said(request: ModelRequest) -> Json:
    """What of a request's options is not as usual, as plain JSON."""
    said: Json = {}
    for name in request.options.__struct_fields__:
        value = getattr(request.options, name)
        if name in ("extra", "native"):
            value = {key: json.loads(bytes(raw)) for key, raw in value.items()}
        elif name == "response_format" and value is not None:
            fields = {key: getattr(value, key) for key in ("type", "name", "schema", "strict")}
            fields["schema"] = json.loads(bytes(fields["schema"]))
            value = {key: one for key, one in fields.items() if one is not None and (key, one) != ("name", "answer")}
        if value not in (None, {}, (), "") and name != "native_api":
            said[name] = value
    return said


def test_every_field_of_the_api_has_a_fate() -> None:
    said = {*EFFECTS, *[name for asked, _, _ in EFFECTS.values() for name in asked]}
    read = {name for name, fate in server.FIELDS.items() if not fate.startswith("refused")}
    known_otherwise = {
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "max_tool_rounds",
        "inputs",
        "prompt_cache_options",
        "image",
        "personality",
        "client_metadata",
        "truncate_sequence",
    }

    assert read <= said | known_otherwise
    assert (
        set(openai.types.responses.response_create_params.ResponseCreateParamsBase.__annotations__)
        <= server.FIELDS.keys()
    )
    assert all(fates for fates in (items.FIELDS, declared.FIELDS, compaction.FIELDS))


async def test_what_only_this_api_has_goes_to_an_upstream_of_this_api_alone(door: Door) -> None:
    body = {"status": "completed", "output": [{"type": "message", "role": "assistant", "content": [_text("Hi.")]}]}
    asked = {
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "truncation": "auto",
        "prompt_cache_key": "k",
        "metadata": {"a": "b"},
        "include": ["reasoning.encrypted_content"],
    }
    async with Upstream(answers(json.dumps(body).encode())) as upstream:
        async with door.serving(OpenAIResponses("gpt-x", upstream.url)) as served:
            await ask(served.client(), False, **asked)
        (sent,) = upstream.requests
    chat = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
    async with Upstream(answers(json.dumps(chat).encode())) as upstream:
        async with door.serving(upstream.url) as served:
            await ask(served.client(), False, **asked)
        (elsewhere,) = upstream.requests

    kept = ("input", "model", "store")
    assert {name: value for name, value in sent.items() if name not in kept} == {
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "truncation": "auto",
        "prompt_cache_key": "k",
        "include": ["reasoning.encrypted_content"],
    }
    assert sorted(elsewhere) == ["messages", "model", "prompt_cache_key", "reasoning_effort"]


# ---- tool_choice -----------------------------------------------------------------------------------------------------

ONLY = {"type": "function", "name": "get_weather"}
NESTED = {"type": "function", "function": {"name": "get_weather"}}
FORMS: dict[str, tuple[Any, ToolChoice, Any]] = {
    "none": ("none", ToolChoice("none"), "none"),
    "auto": ("auto", ToolChoice("auto"), "auto"),
    "required": ("required", ToolChoice("required"), "required"),
    "named": (ONLY, ToolChoice("required", ("get_weather",), named=True), ONLY),
    "named, nested": (NESTED, ToolChoice("required", ("get_weather",), named=True), ONLY),
    "allowed": (
        {"type": "allowed_tools", "mode": "auto", "tools": [ONLY]},
        ToolChoice("auto", ("get_weather",)),
        {"type": "allowed_tools", "mode": "auto", "tools": [ONLY]},
    ),
    "allowed and required": (
        {"type": "allowed_tools", "mode": "required", "tools": [ONLY, ONLY]},
        ToolChoice("required", ("get_weather",)),
        {"type": "allowed_tools", "mode": "required", "tools": [ONLY]},
    ),
    "allowed, nested": (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NESTED]}},
        ToolChoice("required", ("get_weather",)),
        {"type": "allowed_tools", "mode": "required", "tools": [ONLY]},
    ),
}


@pytest.mark.parametrize("name", FORMS)
async def test_each_form_of_tool_choice_works(door: Door, stream: bool, name: str) -> None:
    said, meant, echoed = FORMS[name]
    model = ScriptedModel(says("Hi.") if meant.mode == "none" else calls(Call("get_weather", {"city": "Tokyo"}, "c1")))
    async with door.serving(model) as served:
        response = await ask(served.client(), stream, tools=[WEATHER, FLIGHT], tool_choice=said)

    assert model.requests[0].choice == meant
    assert [tool.name for tool in model.requests[0].tools] == ["get_weather", "book_flight"]
    assert response.to_dict()["tool_choice"] == echoed
    assert [item.type for item in response.output] == ["message" if meant.mode == "none" else "function_call"]


@pytest.mark.parametrize("name", FORMS)
async def test_each_form_of_tool_choice_works_on_chat(door: Door, stream: bool, name: str) -> None:
    said, meant, _ = FORMS[name]
    nested = [
        {"type": "function", "function": {key: tool[key] for key in ("name", "parameters")}}
        for tool in (WEATHER, FLIGHT)
    ]
    model = ScriptedModel(says("Hi.") if meant.mode == "none" else calls(Call("get_weather", {"city": "Tokyo"}, "c1")))
    async with door.serving(model) as served:
        answer = await served.ask(stream=stream, tools=nested, tool_choice=said)

    assert model.requests[0].choice == meant
    assert [call[1] for call in answer.calls] == ([] if meant.mode == "none" else ["get_weather"])


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ("sometimes", "sometimes"),
        ({"type": "function"}, "names no function"),
        ({"type": "function", "name": "nobody"}, "nobody"),
        ({"type": "allowed_tools", "tools": []}, "at least one tool"),
        ({"type": "allowed_tools", "mode": "never", "tools": [ONLY]}, "mode"),
        ({"type": "allowed_tools", "tools": [{"type": "web_search"}]}, "web_search"),
        ({"type": "web_search_preview"}, "web search"),
        ({"type": "code_interpreter"}, "code execution"),
        ({"type": "mcp", "server_label": "x"}, "MCP"),
        ({"type": "something"}, "something"),
        (5, "tool_choice"),
    ],
)
async def test_a_choice_that_cannot_be_is_refused_by_name(door: Door, choice: Any, named: str) -> None:
    error = await refused(door, {"input": "go", "tools": [WEATHER], "tool_choice": choice})

    assert named in error["message"]
    assert error["param"].startswith("tool_choice")


async def test_required_without_tools_is_refused(door: Door) -> None:
    assert (await refused(door, {"input": "go", "tool_choice": "required"}))["param"] == "tool_choice"


async def test_a_tool_of_the_servers_can_be_named(door: Door, stream: bool) -> None:
    @tool
    async def lookup(q: str) -> str:
        """Look something up."""
        return q

    model = ScriptedModel(calls("lookup", q="a"), says("Done."))
    async with door.serving(model, lookup) as served:
        response = await ask(served.client(), stream, tool_choice={"type": "function", "name": "lookup"})

    assert (model.requests[0].choice.names, response.output_text) == (("lookup",), "Done.")


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, fate in server.FIELDS.items() if fate.startswith("refused")])
async def test_what_is_not_supported_is_refused_by_name(door: Door, name: str) -> None:
    error = await refused(door, {"input": "go", name: {"some": "thing"}})

    assert (error["status"], error["param"]) == (400, name)
    assert name in error["message"]


@pytest.mark.parametrize("type", [type for type in declared.HOSTED if type not in (*declared.OFFERED, "shell")])
async def test_a_hosted_tool_that_is_not_here_is_refused_by_name(door: Door, type: str) -> None:
    error = await refused(door, {"input": "go", "tools": [WEATHER, {"type": type, "name": "x"}]})

    assert (error["status"], error["param"]) == (400, "tools[1].type")
    assert type in error["message"]
    assert "this server has no" in error["message"]


def say(*said: Any) -> Json:
    return {"input": list(said)}


WRONG: dict[str, tuple[Json, str]] = {
    "no input": ({"model": "default"}, "input"),
    "an empty input": ({"input": []}, "input"),
    "a number": ({"input": 5}, "input"),
    "an item of no kind": (say({"type": "nonsense"}), "input[0].type"),
    "an item that is text": (say("hi"), "input[0]"),
    "no role": (say({"type": "message", "content": "x"}), "input[0].role"),
    "another role": (say({"role": "tool", "content": "x"}), "input[0].role"),
    "no content": (say({"role": "user"}), "input[0].content"),
    "no parts": (say({"role": "user", "content": []}), "input[0].content"),
    "an odd part": (say({"role": "user", "content": [{"type": "x"}]}), "input[0].content[0].type"),
    "a part without text": (say({"role": "user", "content": [{"type": "input_text"}]}), "input[0].content[0].text"),
    "a picture by id": (
        say({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
        "input[0].content[0].file_id",
    ),
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
    assert turn.native.api == "openai-responses"
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
        request = server.read_request(body, Sealer(b"secret", "ada"))
        if request.named:
            items.read_items(request.items, None, {at: request.items[0] for at, _ in request.named})
    except BadRequest as error:
        return error
    return None


@given(st.binary(max_size=60))
def test_no_bytes_are_too_odd(body: bytes) -> None:
    for read in (server.read_request, lambda body: compaction.compaction_of(body, Sealer(b"secret", "ada"))):
        with pytest.raises(BadRequest):
            read(body)


def _text(said: str) -> Json:
    return {"type": "output_text", "text": said}
