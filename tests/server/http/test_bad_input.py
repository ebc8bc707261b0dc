"""Bad input is a 4xx in OpenAI's error shape that names field and reason, before any model is called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, declared, result, user
from tests.interaction.upstreams import call
from tests.server.refusals import Nodding, refused, says

# ---- what is not JSON ----------------------------------------------------------------------------------------------


NOT_A_REQUEST: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"messages": [',
    "a comma too many": b'{"messages": [],}',
    "text": b"hello",
    "a list": b"[]",
    "null": b"null",
    "a string": b'"messages"',
    "NaN": b'{"messages": NaN}',
    "two objects": b"{}{}",
    "not UTF-8": b'{"messages": [{"role": "user", "content": "\xff"}]}',
    "a control character": b'{"messages": [{"role": "user", "content": "\x01"}]}',
    "UTF-16": '{"messages": "hi"}'.encode("utf-16"),
}


@pytest.mark.parametrize("body", NOT_A_REQUEST.values(), ids=NOT_A_REQUEST.keys())
async def test_a_body_that_is_no_json_object_is_refused(door: Door, body: bytes) -> None:
    answer = await refused(door, body)

    assert answer.status == 400
    assert answer.error["message"]


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain; charset=json",  # which a page of another origin may send as freely as without the parameter
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=json",
        "application/jsonl",
    ],
)
async def test_another_content_type_is_a_415(door: Door, kind: str) -> None:
    answer = await refused(door, says(), {"content-type": kind})

    assert answer.status == 415
    assert kind in answer.error["message"]


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/vnd.api+json",
    ],
)
async def test_json_by_any_name_is_read(door: Door, kind: str) -> None:
    async with door.serving(Nodding()) as served:
        assert (await served.post(says(), headers={"content-type": kind})).status == 200


@pytest.mark.parametrize(("origin", "status"), [(None, 200), ("https://elsewhere.example", 403), ("null", 403)])
async def test_a_body_that_does_not_say_what_it_is_is_read_but_not_from_a_page(
    door: Door, origin: str | None, status: int
) -> None:
    """A page can post such a body anywhere without being asked for permission, but not without saying where it is from."""
    model = Nodding()
    async with door.serving(model) as served:
        headers = {} if origin is None else {"origin": origin}
        async with served.http.post(
            f"{served.url}/chat/completions",
            data=json.dumps(says()).encode(),
            headers=headers,
            skip_auto_headers=["content-type"],
        ) as answer:
            assert answer.status == status
    assert model.asked == (status == 200)


async def test_a_body_over_the_limit_is_a_413(door: Door) -> None:
    answer = await refused(door, says(user("x" * 100_000)))

    assert answer.status == 413
    assert "100000" in answer.error["message"]


async def test_a_body_over_the_limit_that_does_not_say_its_length_is_a_413(door: Door) -> None:
    async def pieces() -> Any:
        for _ in range(20):
            yield b" " * 10_000

    model = Nodding()
    async with door.serving(model, max_body=100_000) as served:
        headers = {"content-type": "application/json"}
        async with served.http.post(f"{served.url}/chat/completions", data=pieces(), headers=headers) as answer:
            status, body = answer.status, await answer.json()

    assert (status, model.asked) == (413, 0)
    assert "100000" in body["error"]["message"]


async def test_the_limit_is_50_mib_unless_set(door: Door) -> None:
    model = Nodding()
    async with door.serving(model) as served:
        headers = {"content-type": "application/json", "content-length": str(50 * 1024 * 1024 + 1)}
        async with served.http.post(f"{served.url}/chat/completions", data=b"{}", headers=headers) as answer:
            assert answer.status == 413
    assert model.asked == 0


# ---- fields --------------------------------------------------------------------------------------------------------


FIELDS: dict[str, tuple[Json, str]] = {
    "messages missing": ({}, "messages"),
    "messages null": ({"messages": None}, "messages"),
    "messages empty": ({"messages": []}, "messages"),
    "messages a number": ({"messages": 5}, "messages"),
    "messages an object": ({"messages": user("hi")}, "messages"),
    "message a string": (says("hi"), "messages[0]"),
    "message null": (says(None), "messages[0]"),
    "role missing": (says({"content": "hi"}), "messages[0]"),
    "role a number": (says({"role": 1, "content": "hi"}), "messages[0].role"),
    "role unknown": (says(user("hi"), {"role": "wizard", "content": "hi"}), "messages[1].role"),
    "role function": (says({"role": "function", "content": "hi"}), "messages[0].name"),
    "content missing": (says({"role": "user"}), "messages[0].content"),
    "content null": (says({"role": "user", "content": None}), "messages[0].content"),
    "content a number": (says({"role": "user", "content": 5}), "messages[0].content"),
    "content no parts": (says({"role": "user", "content": []}), "messages[0].content"),
    "system without content": (says({"role": "system"}, user("hi")), "messages[0].content"),
    "assistant without content": (says(user("hi"), {"role": "assistant"}), "messages[1].content"),
    "system with a picture": (
        says({"role": "system", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}),
        "messages[0].content[0]",
    ),
    "part unknown": (
        says({"role": "user", "content": [{"type": "smell", "smell": "rose"}]}),
        "messages[0].content[0].type",
    ),
    "part without its content": (
        says({"role": "user", "content": [{"type": "image_url"}]}),
        "messages[0].content[0].image_url",
    ),
    "part a string": (says({"role": "user", "content": ["hi"]}), "messages[0].content[0]"),
    "file_url": (
        says({"role": "user", "content": [{"type": "file", "file": {"file_url": "http://x/"}}]}),
        "messages[0].content[0].file.file_url",
    ),
    "tool without an id": (says(user("hi"), {"role": "tool", "content": "x"}), "messages[1].tool_call_id"),
    "tool without content": (says(user("hi"), {"role": "tool", "tool_call_id": "c"}), "messages[1].content"),
    "calls a string": (says(user("hi"), {"role": "assistant", "tool_calls": "x"}), "messages[1].tool_calls"),
    "call without a function": (
        says(user("hi"), {"role": "assistant", "tool_calls": [{"id": "c"}]}),
        "messages[1].tool_calls[0].function",
    ),
    "call without a name": (
        says(user("hi"), {"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}),
        "messages[1].tool_calls[0].function",
    ),
    "two calls with one id": (
        says(user("hi"), {"role": "assistant", "tool_calls": [call("a", "c"), call("b", "c")]}, result("c", "x")),
        "messages[1].tool_calls[1].id",
    ),
    "model a number": (says(model=5), "model"),
    "stream a string": (says(stream="yes"), "stream"),
    "stream_options without stream": (says(stream_options={"include_usage": True}), "stream_options"),
    "stream_options a list": (says(stream=True, stream_options=[]), "stream_options"),
    "include_usage a string": (
        says(stream=True, stream_options={"include_usage": "y"}),
        "stream_options.include_usage",
    ),
    "n zero": (says(n=0), "n"),
    "n nine": (says(n=9), "n"),
    "n a string": (says(n="2"), "n"),
    "n huge": (says(n=10**30), "n"),
    "max_tokens negative": (says(max_tokens=-5), "max_tokens"),
    "max_tokens a string": (says(max_tokens="5"), "max_tokens"),
    "max_completion_tokens negative": (says(max_completion_tokens=-1), "max_completion_tokens"),
    "temperature a string": (says(temperature="hot"), "temperature"),
    "top_p a list": (says(top_p=[1]), "top_p"),
    "stop a number": (says(stop=5), "stop"),
    "stop numbers": (says(stop=[5]), "stop[0]"),
    "seed a string": (says(seed="5"), "seed"),
    "seed a fraction": (says(seed=1.5), "seed"),
    "parallel_tool_calls a string": (says(parallel_tool_calls="no"), "parallel_tool_calls"),
    "reasoning_effort a number": (says(reasoning_effort=5), "reasoning_effort"),
    "response_format a string": (says(response_format="json"), "response_format"),
    "response_format unknown": (says(response_format={"type": "xml"}), "response_format.type"),
    "response_format without a schema": (
        says(response_format={"type": "json_schema"}),
        "response_format.json_schema",
    ),
    "response_format no schema": (
        says(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "thing"}}}),
        "response_format.json_schema.schema",
    ),
    "tools an object": (says(tools={}), "tools"),
    "tool a string": (says(tools=["lookup"]), "tools[0]"),
    "tool without a name": (says(tools=[{"type": "function", "function": {}}]), "tools[0].function.name"),
    "tool without a name, flat": (says(tools=[{"type": "function"}]), "tools[0].name"),
    "tool with an empty name": (says(tools=[declared("")]), "tools[0].function.name"),
    "tool with a long name": (says(tools=[declared("x" * 65)]), "tools[0].function.name"),
    "tool with a name of words": (says(tools=[declared("look up")]), "tools[0].function.name"),
    "tool named twice": (says(tools=[declared("a"), declared("b"), declared("a")]), "tools[2]"),
    "tool of another type": (says(tools=[{"type": "telepathy"}]), "tools[0].type"),
    "tool hosted": (says(tools=[{"type": "web_search"}]), "tools[0].type"),
    "schema a string": (
        says(tools=[{"type": "function", "function": {"name": "a", "parameters": "object"}}]),
        "tools[0].function.parameters",
    ),
    "schema a list": (
        says(tools=[{"type": "function", "function": {"name": "a", "parameters": []}}]),
        "tools[0].function.parameters",
    ),
    "schema of no type": (
        says(tools=[{"type": "function", "function": {"name": "a", "parameters": {"type": "thing"}}}]),
        "tools[0].function.parameters",
    ),
    "schema with wrong properties": (
        says(tools=[{"type": "function", "function": {"name": "a", "parameters": {"properties": 5}}}]),
        "tools[0].function.parameters",
    ),
    "schema with wrong required": (
        says(tools=[{"type": "function", "function": {"name": "a", "parameters": {"required": "q"}}}]),
        "tools[0].function.parameters",
    ),
    "schema with a broken reference": (
        says(tools=[{"type": "function", "function": {"name": "a", "parameters": {"$ref": "#/nowhere"}}}]),
        "tools[0].function.parameters",
    ),
    "schema with a broken pattern": (
        says(
            tools=[
                {
                    "type": "function",
                    "function": {"name": "a", "parameters": {"properties": {"q": {"pattern": "("}}}},
                }
            ]
        ),
        "tools[0].function.parameters",
    ),
    "choice unknown": (says(tools=[declared("a")], tool_choice={"type": "function", "name": "x"}), "tool_choice"),
    "choice without tools": (says(tool_choice="required"), "tool_choice"),
    "max_tool_rounds negative": (says(max_tool_rounds=-1), "max_tool_rounds"),
    "session_id empty": (says(session_id=""), "session_id"),
    "session_id a number": (says(session_id=5), "session_id"),
    "session_id long": (says(session_id="x" * 257), "session_id"),
    "session_id with a newline": (says(session_id="a\nb"), "session_id"),
    "on_disconnect": (says(on_disconnect="stay"), "on_disconnect"),
    "tool_dispatch_url": (says(tool_dispatch_url="http://x/"), "tool_dispatch_url"),
    "functions": (says(functions=[{"name": "a b"}]), "functions[0].name"),
    "function_call": (says(function_call="auto"), "function_call"),
    "web_search_options": (says(web_search_options={}), "web_search_options"),
    "audio": (says(modalities=["text", "audio"]), "modalities"),
}


@pytest.mark.parametrize(("body", "field"), FIELDS.values(), ids=FIELDS.keys())
async def test_the_field_is_named(door: Door, body: Json, field: str) -> None:
    answer = await refused(door, body)

    assert answer.status == 400
    assert answer.error["param"] == field
    assert field.split(".")[-1].split("[")[0] in answer.error["message"]


@pytest.mark.parametrize(("body", "field"), FIELDS.values(), ids=FIELDS.keys())
async def test_a_stream_is_refused_the_same_way(door: Door, body: Json, field: str) -> None:
    if "stream" in body or field == "stream_options":
        return
    plain = await refused(door, body)
    stream = await refused(door, {**body, "stream": True})

    assert (stream.status, stream.json) == (plain.status, plain.json)


HOSTED = {
    "web_search": 'tools[].type="web_search" is only supported by the Responses API; '
    "use web_search_options with Chat Completions",
    "shell": 'tools[].type="shell" is only supported by the Responses API.',
    "namespace": 'tools[].type="namespace" is only supported by the Responses API.',
}


@pytest.mark.parametrize(("kind", "text"), HOSTED.items(), ids=HOSTED.keys())
async def test_hosted_tools_have_the_references_texts(door: Door, kind: str, text: str) -> None:
    assert (await refused(door, says(tools=[{"type": kind}]))).error["message"] == text


# ---- results not asked for --------------------------------------------------------------------------------------


ASKED = {"role": "assistant", "content": None, "tool_calls": [call("a", "c1")]}


ORPHANS: dict[str, list[Json]] = {
    "alone": [result("c1", "x")],
    "after a user": [user("hi"), result("c1", "x")],
    "after another call": [user("hi"), ASKED, result("c2", "x")],
    "beside the right one": [user("hi"), ASKED, result("c1", "x"), result("c2", "y")],
    "too late": [user("hi"), ASKED, result("c1", "x"), user("and"), result("c1", "x")],
    "too early": [user("hi"), result("c1", "x"), ASKED],
}


@pytest.mark.parametrize("messages", ORPHANS.values(), ids=ORPHANS.keys())
async def test_a_result_nobody_asked_for_is_refused(door: Door, messages: list[Json]) -> None:
    answer = await refused(door, {"messages": messages})

    assert answer.status == 400
    assert answer.error["param"].startswith("messages")
    assert "c1" in answer.error["message"] or "c2" in answer.error["message"]


async def test_a_call_without_a_result_is_repaired(door: Door) -> None:
    async with door.serving(Nodding()) as served:
        assert (await served.post(says(user("hi"), ASKED, user("never mind")))).status == 200
