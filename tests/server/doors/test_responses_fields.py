"""Every field of a request: what it does to the model's request, what of it comes back, and which are refused by name."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, answers
from tests.server.responses_door import ask, function, post, schemas

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, Usage
from ronda.core.plan import ToolChoice
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.openai_responses import OpenAIResponses
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.wire.openai_responses import compaction, server_request
from ronda.wire.openai_responses import input as items

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
    "a field that is not known": ({"top_k": 5, "grammar": None}, {"extra": {"top_k": 5}}, {}),
    "metadata": ({"metadata": {"a": "b"}}, {}, {"metadata": {"a": "b"}}),
    "max_tool_calls": ({"max_tool_calls": 3}, {}, {"max_tool_calls": 3}),
    "store": ({"store": False}, {}, {"store": False}),
    "session_id": ({"session_id": "s"}, {}, {"session_id": "s"}),
    "session_mode": ({"session_id": "s", "session_mode": "append"}, {}, {"session_id": "s"}),
    "on_busy": ({"session_id": "s", "on_busy": "reject"}, {}, {"session_id": "s"}),
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
    schemas().check(answer.json, "ResponseResource")

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
    read = {name for name, fate in server_request.FIELDS.items() if not fate.startswith("refused")}
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
        "generate",
        "truncate_sequence",
        "web_search_options",
        "agent_permission",
        "code_execution_permission",
        "enable_code_execution",
        "enable_shell",
        "files",
        "disabled_tools",
    }

    assert read <= said | known_otherwise
    assert (
        set(openai.types.responses.response_create_params.ResponseCreateParamsBase.__annotations__)
        <= server_request.FIELDS.keys()
    )
    assert all(fates for fates in (items.FIELDS, compaction.FIELDS))


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


def _text(said: str) -> Json:
    return {"type": "output_text", "text": said}
