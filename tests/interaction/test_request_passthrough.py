"""Fields we do not know reach an upstream of the same dialect unchanged, or are refused by name; none is dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, declared, result, user
from tests.interaction.upstreams import Upstream, answers, call, completes

from ronda import tool
from ronda.testing import ScriptedModel, says


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def sent(door: Door, stream: bool, *tools: Any, **request: Any) -> Json:
    """What an upstream reads of a request."""
    async with Upstream(completes('{"a": 1}')) as upstream, door.serving(upstream.url, *tools) as served:
        answer = await served.post({"messages": "hi", "stream": stream, **request})
    assert answer.status == 200, answer.body
    [request] = upstream.requests
    return request


UNKNOWN: Json = {
    "user": "ann",
    "metadata": {"a": [1, 2.5, None, {"b": "é"}]},
    "logit_bias": {"50256": -100},
    "service_tier": "flex",
    "top_k": 40,
    "min_p": 0.05,
    "presence_penalty": 0.1,
    "frequency_penalty": -0.1,
    "logprobs": True,
    "top_logprobs": 3,
    "store": False,
    "chat_template_kwargs": {"enable_thinking": False},
    "enable_thinking": True,
    "prediction": {"type": "content", "content": "x"},
    "provider": {"order": ["a", "b"]},
    "verbosity": "low",
    "something_new": [[[]]],
}


@pytest.mark.parametrize(("name", "value"), UNKNOWN.items(), ids=UNKNOWN.keys())
async def test_a_field_we_do_not_know_reaches_the_upstream(door: Door, stream: bool, name: str, value: Any) -> None:
    assert (await sent(door, stream, **{name: value}))[name] == value


async def test_all_of_them_at_once_and_in_every_round(door: Door, stream: bool) -> None:
    acts = [completes(None, call("lookup", q="a")), completes("done")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url, lookup) as served:
        await served.post({"messages": "hi", "stream": stream, **UNKNOWN})

    for request in upstream.requests:
        assert {name: request.get(name) for name in UNKNOWN} == UNKNOWN


async def test_numbers_are_passed_on_as_they_were_written(door: Door) -> None:
    body = b'{"messages": "hi", "big": 123456789012345678901234567890, "exact": 0.10000000000000000555, "e": 1E5}'

    async with Upstream(completes("ok")) as upstream, door.serving(upstream.url) as served:
        await served.post(body)

    for text in (b"123456789012345678901234567890", b"0.10000000000000000555", b"1E5"):
        assert text in upstream.bodies[0]


KNOWN: dict[str, tuple[Json, Json]] = {
    "max_tokens": ({"max_tokens": 9}, {"max_tokens": 9}),
    "max_completion_tokens": ({"max_completion_tokens": 9}, {"max_completion_tokens": 9}),
    "max_tokens zero": ({"max_tokens": 0}, {"max_tokens": 0}),
    "max_completion_tokens zero": ({"max_completion_tokens": 0}, {"max_completion_tokens": 0}),
    "seed": ({"seed": 7}, {"seed": 7}),
    "stop": ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
    "temperature": ({"temperature": 0.5}, {"temperature": 0.5}),
    "temperature zero": ({"temperature": 0}, {"temperature": 0}),
    "top_p": ({"top_p": 0.9}, {"top_p": 0.9}),
    "reasoning_effort": ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
    "json_object": ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
    "json_schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}},
    ),
    "nothing": ({}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("said", "written"), KNOWN.values(), ids=KNOWN.keys())
async def test_a_field_we_know_reaches_the_upstream(door: Door, stream: bool, said: Json, written: Json) -> None:
    request = await sent(door, stream, **said)
    for always in ("messages", "model", "stream", "stream_options"):
        request.pop(always, None)

    assert request == written


async def test_a_single_stop_is_the_same_as_a_list_of_one(door: Door, stream: bool) -> None:
    assert (await sent(door, stream, stop="END"))["stop"] in ("END", ["END"])


async def test_only_the_name_for_the_most_tokens_that_the_caller_used_is_sent(door: Door, stream: bool) -> None:
    assert "max_tokens" not in await sent(door, stream, max_completion_tokens=9)
    assert "max_completion_tokens" not in await sent(door, stream, max_tokens=9)


async def test_parallel_tool_calls_reaches_the_upstream_with_tools(door: Door, stream: bool) -> None:
    request = await sent(door, stream, tools=[declared("a")], parallel_tool_calls=False)

    assert request["parallel_tool_calls"] is False


async def test_the_model_is_named_as_the_upstream_knows_it(door: Door, stream: bool) -> None:
    assert (await sent(door, stream, model="default"))["model"] == "gpt-test"


async def test_our_own_fields_stay_with_us(door: Door, stream: bool) -> None:
    request = await sent(door, stream, max_tool_rounds=3, session_id="s1", on_disconnect="cancel", n=1)

    assert {"max_tool_rounds", "session_id", "on_disconnect"} & request.keys() == set()


async def test_null_is_the_same_as_nothing(door: Door, stream: bool) -> None:
    request = await sent(door, stream, max_tokens=None, tools=None, tool_choice=None, stop=None, user=None, n=None)

    assert {"max_tokens", "tools", "tool_choice", "stop"} & request.keys() == set()


async def test_a_stream_asks_for_usage(door: Door) -> None:
    assert (await sent(door, True))["stream_options"]["include_usage"] is True


async def test_an_unknown_stream_option_is_passed_on_or_refused(door: Door) -> None:
    options = {"include_usage": True, "include_obfuscation": False}

    async with Upstream(completes("ok")) as upstream, door.serving(upstream.url) as served:
        answer = await served.post({"messages": "hi", "stream": True, "stream_options": options})

    if answer.status == 400:
        assert "include_obfuscation" in answer.error["message"]
    else:
        assert upstream.requests[0]["stream_options"]["include_usage"]


# ---- messages and tools ----------------------------------------------------------------------------------------------

MESSAGES: dict[str, list[Json]] = {
    "system": [{"role": "system", "content": "Be brief."}, user("hi")],
    "developer": [{"role": "developer", "content": "Be brief."}, user("hi")],
    "name": [{"role": "user", "name": "ann", "content": "hi"}],
    "unknown member": [{"role": "user", "content": "hi", "mood": {"good": True}}],
    "picture": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
            ],
        }
    ],
    "audio": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]}],
    "file": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf,", "filename": "x"}}]}],
    "unknown member of a part": [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}
    ],
    "unknown member of a picture": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,", "fps": 2}}]}
    ],
    "unknown member of a call": [
        user("hi"),
        {"role": "assistant", "content": None, "tool_calls": [{**call("a", "c1"), "mood": {"sig": "x"}}]},
        result("c1", "x"),
    ],
    "unknown member of an assistant": [
        user("hi"),
        {"role": "assistant", "content": "ho", "mood": [{"type": "text", "text": "hm"}]},
        user("hi"),
    ],
    "unknown member of a result": [
        user("hi"),
        {"role": "assistant", "content": None, "tool_calls": [call("a", "c1")]},
        {**result("c1", "x"), "name": "a", "is_error": True},
    ],
    "tools": [
        user("hi"),
        {"role": "assistant", "content": "Wait.", "tool_calls": [call("a", "c1", q="é"), call("b", "c2")]},
        result("c1", "one"),
        result("c2", "two"),
        {"role": "assistant", "content": "Done."},
        user("thanks"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES.keys())
async def test_messages_reach_the_upstream_unchanged(door: Door, stream: bool, messages: list[Json]) -> None:
    assert (await sent(door, stream, messages=messages))["messages"] == messages


LONG = "call_1__thought__" + "s" * 100
ADDED: dict[str, tuple[Json, Json]] = {
    "thoughts": ({"reasoning_content": "hm"}, {}),
    "signed thoughts": ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}], "mood": 1}, {"mood": 1}),
    "a signature": ({"extra_content": {"google": {"thought_signature": "x"}}}, {}),
}


@pytest.mark.parametrize(("added", "taken"), ADDED.values(), ids=ADDED.keys())
async def test_what_one_server_adds_to_a_message_goes_to_another_once_that_one_says_the_same(
    door: Door, stream: bool, added: Json, taken: Json
) -> None:
    plain = {"role": "assistant", "content": "ho"}
    asked = {"messages": [user("hi"), {**plain, **added}, user("hi")], "stream": stream}

    async with Upstream(completes("ho", **added), completes("ok")) as upstream, door.serving(upstream.url) as served:
        for _ in range(2):
            await served.post(asked)

    assert [request["messages"][1] for request in upstream.requests] == [{**plain, **taken}, {**plain, **added}]


async def test_a_long_id_is_made_short_until_the_server_gives_such_ids_itself(door: Door, stream: bool) -> None:
    asked = [user("hi"), {"role": "assistant", "content": None, "tool_calls": [call("a", LONG)]}, result(LONG, "x")]
    acts = [completes(None, call("a", LONG)), completes("ok")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url) as served:
        for _ in range(2):
            await served.post({"messages": asked, "tools": [declared("a")], "stream": stream})

    first, second = [request["messages"] for request in upstream.requests]
    made = first[1]["tool_calls"][0]["id"]
    assert len(made) <= 40
    assert first[2]["tool_call_id"] == made
    assert second == asked


# Strictness is asked of the upstream where the schema qualifies for its own strict mode; the loop checks it anyway.
STRICT = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": False}

TOOLS: dict[str, Json] = {
    "plain": declared("a", q="string"),
    "strict": {"type": "function", "function": {"name": "a", "strict": True, "parameters": STRICT}},
    "unknown member": {**declared("a"), "cache_control": {"type": "ephemeral"}},
    "unknown member of the function": {
        "type": "function",
        "function": {"name": "a", "parameters": {"type": "object"}, "examples": [1]},
    },
}


@pytest.mark.parametrize("declaration", TOOLS.values(), ids=TOOLS.keys())
async def test_declarations_reach_the_upstream_unchanged(door: Door, stream: bool, declaration: Json) -> None:
    assert (await sent(door, stream, tools=[declaration]))["tools"] == [declaration]


async def test_a_schema_reaches_the_upstream_as_it_was_written(door: Door) -> None:
    schema = b'{"type": "object", "properties": {"z": {"type": "number", "maximum": 1e3}, "a": {"const": 1.0}}}'
    body = b'{"messages": "hi", "tools": [{"type": "function", "function": {"name": "a", "parameters": %b}}]}' % schema

    async with Upstream(completes("ok")) as upstream, door.serving(upstream.url) as served:
        await served.post(body)

    assert schema in upstream.bodies[0]


async def test_a_flat_declaration_is_sent_nested(door: Door, stream: bool) -> None:
    flat = {"type": "function", "name": "a", "description": "d", "parameters": {"type": "object"}}
    request = await sent(door, stream, tools=[flat])

    assert request["tools"] == [
        {"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object"}}}
    ]


async def test_the_servers_tools_come_first_in_the_same_order(door: Door, stream: bool) -> None:
    request = await sent(door, stream, lookup, tools=[declared("z"), declared("a")])

    assert [entry["function"]["name"] for entry in request["tools"]] == ["lookup", "z", "a"]


MISSPELT = {"max_tool_round": 3, "temperatur": 0.5, "sesion_id": "a", "enable_shel": True, "max_token": 9}
MEANT = {"max_tool_round": "max_tool_rounds", "temperatur": "temperature", "sesion_id": "session_id",
         "enable_shel": "enable_shell", "max_token": "max_tokens"}  # fmt: skip


@pytest.mark.parametrize("name", MISSPELT)
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_a_misspelt_field_of_ours_is_warned_of(door: Door, path: str, name: str) -> None:
    body: Json = {"messages": [user("hi")]} if path == "chat/completions" else {"input": "hi"}
    async with (
        door.serving(ScriptedModel(says("hello"))),
        door.http.post(f"{door.url}/{path}", json={**body, name: MISSPELT[name]}) as answer,
    ):
        said = f"'{name}' means nothing to this server; did you mean '{MEANT[name]}'?"
        assert (await answer.json())["warnings"] == [said]


async def test_what_only_upstreams_know_is_not_warned_of(door: Door) -> None:
    async with Upstream(completes("hello")) as upstream, door.serving(upstream.url) as served:
        answer = await served.post({"messages": "hi", **UNKNOWN, "min_tokens": 1, "top_a": 1, "repetition_penalty": 1})
    assert "warnings" not in json.loads(answer.body)


# ---- in front of another API -------------------------------------------------------------------------------------------

ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
RESPONSE = {"status": "completed", "output": [ITEM]}
MESSAGE = {"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
STRANGE: Json = {
    "chat_template_kwargs": {"enable_thinking": False},
    "enable_thinking": True,
    "provider": {"order": ["a"]},
    "min_p": 0.05,
    "something_new": [[[]]],
    "frequency_penalty": 0.5,
}
HARMLESS: Json = {"presence_penalty": 0, "logit_bias": {}, "extra_thing": None}


@pytest.mark.parametrize(
    ("model", "said"),
    [("openai:gpt-5", RESPONSE), ("anthropic:claude-sonnet-4-5", MESSAGE)],
    ids=["openai", "anthropic"],
)
async def test_fields_that_an_api_does_not_have_stay_here_with_a_warning(door: Door, model: str, said: Json) -> None:
    async with (
        Upstream(answers(json.dumps(said).encode())) as upstream,
        door.serving(upstream.url, model=model) as served,
    ):
        answer = await served.post({"messages": "hi", "user": "ann", **STRANGE, **HARMLESS})

    assert answer.status == 200, answer.body
    [request] = upstream.requests
    assert request.keys() & (STRANGE.keys() | HARMLESS.keys()) == set()
    assert "ann" in json.dumps(request)
    warnings = answer.json["warnings"]
    assert [name for name in STRANGE if not any(f"'{name}' is not sent" in one for one in warnings)] == []
    assert [name for name in HARMLESS if any(name in one for one in warnings)] == []
