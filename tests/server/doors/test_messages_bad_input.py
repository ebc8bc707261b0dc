"""Bad input is a 4xx in Anthropic's error shape that names the field, before any model is called."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interaction.doors import Door, Json, Raw
from tests.server.messages_door import HI, PICK, answer, asking, heard, post, result, said, text, thinking, use

from ronda.errors import BadRequest
from ronda.providers.script import ScriptedModel
from ronda.server.services.toolbox import Toolbox
from ronda.wire.anthropic.server_request import for_anthropic, for_others, read_request

DEEP = 100_000


async def refused(
    door: Door, body: Json | bytes, headers: dict[str, str] | None = None, path: str = "/messages"
) -> Raw:
    """Send what must not reach the model."""
    model = ScriptedModel()
    async with door.serving(model, max_body=500_000) as served:
        raw = await post(served, body, headers, path)
    assert model.heard == []
    assert 400 <= raw.status < 500, raw.body
    assert list(raw.json) == ["type", "error", "request_id"]
    assert raw.json["type"] == "error"
    assert raw.json["request_id"] == raw.headers["request-id"]
    return raw


# ---- not a request at all --------------------------------------------------------------------------------------------

NOT_A_REQUEST: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"messages": [',
    "text": b"hello",
    "a list": b"[]",
    "null": b"null",
    "NaN": b'{"messages": NaN}',
    "not UTF-8": b'{"messages": [{"role": "user", "content": "\xff"}]}',
    "not UTF-8 where nobody reads": b'{"messages": "hi", "metadata": {"x": "\xff"}}',
    "half a pair": b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    "too deep": b'{"messages": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "too deep in a block": b'{"messages":[{"role":"user","content":['
    + b'{"type":' * DEEP
    + b"1"
    + b"}" * DEEP
    + b"]}]}",
}


@pytest.mark.parametrize("content", ["", []], ids=["no words", "no blocks"])
async def test_messages_in_which_nothing_is_said_are_refused(door: Door, content: Any) -> None:
    raw = await refused(door, {"messages": [{"role": "assistant", "content": content}]})

    assert raw.json["error"]["message"] == "'messages' says nothing"


@pytest.mark.parametrize("path", ["/messages", "/messages/count_tokens"])
@pytest.mark.parametrize("body", NOT_A_REQUEST.values(), ids=NOT_A_REQUEST.keys())
async def test_a_body_that_makes_no_sense_is_refused(door: Door, body: bytes, path: str) -> None:
    raw = await refused(door, body, path=path)

    assert (raw.status, raw.json["error"]["type"]) in ((400, "invalid_request_error"), (413, "request_too_large"))


async def test_another_content_type_is_a_415(door: Door) -> None:
    raw = await refused(door, {"messages": [HI]}, {"content-type": "text/plain"})

    assert (raw.status, raw.json["error"]["type"]) == (415, "invalid_request_error")


async def test_a_body_over_the_limit_is_too_large(door: Door) -> None:
    raw = await refused(door, {"messages": [{"role": "user", "content": "x" * 600_000}]})

    assert (raw.status, raw.json["error"]["type"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/messages", 405, "invalid_request_error"),
        ("DELETE", "/messages/count_tokens", 405, "invalid_request_error"),
        ("POST", "/messages/batches", 404, "not_found_error"),
    ],
)
async def test_addresses_of_the_dialect_answer_in_it(
    door: Door, method: str, path: str, status: int, kind: str
) -> None:
    async with door.serving(ScriptedModel()) as served, served.http.request(method, served.url + path) as raw:
        said_there = await raw.json()

    assert raw.status == status
    assert said_there["type"] == "error"
    assert said_there["error"]["type"] == kind


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_have_the_class_the_sdk_has_for_them(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(), max_body=1000), asking(door) as claude:
        with pytest.raises(anthropic.NotFoundError, match="gpt-9") as missing:
            await answer(claude, stream=stream, model="gpt-9")
        with pytest.raises(anthropic.BadRequestError, match="tool_choice"):
            await answer(claude, stream=stream, tool_choice={"type": "tool", "name": "nope"})
        with pytest.raises(anthropic.ContentTooLargeError):
            await answer(claude, {"role": "user", "content": "x" * 2000}, stream=stream)

    assert (missing.value.type, missing.value.error_code) == ("not_found_error", "model_not_found")
    body: Any = missing.value.body
    assert missing.value.request_id == body["request_id"]


# ---- fields ----------------------------------------------------------------------------------------------------------

IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def ask(**fields: Any) -> Json:
    return {"messages": [HI], **fields}


def hear(*blocks: Any) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def reply(*blocks: Any) -> Json:
    return {"messages": [HI, {"role": "assistant", "content": list(blocks)}, HI]}


WRONG: dict[str, tuple[Json, str]] = {
    "no messages": ({}, "messages"),
    "empty messages": ({"messages": []}, "messages"),
    "messages of a wrong type": ({"messages": 5}, "messages"),
    "a message of a wrong type": ({"messages": ["hi"]}, "messages[0]"),
    "no role": ({"messages": [{"content": "x"}]}, "messages[0]"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0]"),
    "an unknown role": ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    "empty content": (hear(), "messages[0].content"),
    "a block without a type": (hear({"text": "x"}), "messages[0].content[0]"),
    "text without text": (hear({"type": "text"}), "messages[0].content[0].text"),
    "text of a wrong type": (hear({"type": "text", "text": 5}), "messages[0].content[0].text"),
    "an image without a source": (hear({"type": "image"}), "messages[0].content[0].source"),
    "an image from nowhere": (
        hear({"type": "image", "source": {"type": "moon"}}),
        "messages[0].content[0].source.type",
    ),
    "an image without data": (
        hear({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
        "messages[0].content[0].source.data",
    ),
    "a document without a source": (hear({"type": "document"}), "messages[0].content[0].source"),
    "a search result without a title": (
        hear({"type": "search_result", "source": "x", "content": []}),
        "messages[0].content[0].title",
    ),
    "a result without an id": (hear({"type": "tool_result", "content": "x"}), "messages[0].content[0].tool_use_id"),
    "a result with a wrong block": (hear(result("a", [{"type": "text"}])), "messages[0].content[0].content[0].text"),
    "a result of a wrong type": (hear(result("a", 5)), "messages[0].content[0].content"),
    "a call of the user's": (hear(use("a", "b")), "messages[0].content[0].type"),
    "a thought of the user's": (hear(thinking("x")), "messages[0].content[0].type"),
    "an image of the assistant's": (reply(IMAGE), "messages[1].content[0].type"),
    "a call without an id": (reply({"type": "tool_use", "name": "x", "input": {}}), "messages[1].content[0].id"),
    "a call without input": (reply({"type": "tool_use", "id": "a", "name": "x"}), "messages[1].content[0].input"),
    "input of a wrong type": (reply({**use("a", "b"), "input": "x"}), "messages[1].content[0].input"),
    "two calls with one id": (reply(use("a", "b"), use("a", "b")), "messages[1].content[1].id"),
    "thinking without a thought": (reply({"type": "thinking"}), "messages[1].content[0].thinking"),
    "a signature of a wrong type": (
        reply({**thinking("x"), "signature": 5}),
        "messages[1].content[0].signature",
    ),
    "system of a wrong type": (ask(system=5), "system"),
    "an image for a system": (ask(system=[IMAGE]), "system[0].type"),
    "tools of a wrong type": (ask(tools={}), "tools"),
    "a tool without a name": (ask(tools=[{"input_schema": {}}]), "tools[0].name"),
    "a tool with a strange name": (ask(tools=[{**PICK, "name": "a b"}]), "tools[0].name"),
    "a tool without a schema": (ask(tools=[{"name": "x"}]), "tools[0].input_schema"),
    "a schema of a wrong type": (ask(tools=[{"name": "x", "input_schema": []}]), "tools[0].input_schema"),
    "a schema that is none": (ask(tools=[{"name": "x", "input_schema": {"type": 5}}]), "tools[0].input_schema"),
    "a schema of a string": (
        ask(tools=[{"name": "x", "input_schema": {"type": "string"}}]),
        "tools[0].input_schema.type",
    ),
    "a tool twice": (ask(tools=[PICK, PICK]), "tools[1]"),
    "an unknown kind of tool": (ask(tools=[{"type": "teleport_20250101", "name": "x"}]), "tools[0].type"),
    "a choice of a wrong type": (ask(tool_choice="auto"), "tool_choice"),
    "an unknown choice": (ask(tool_choice={"type": "maybe"}), "tool_choice.type"),
    "a choice of nothing": (ask(tool_choice={"type": "tool"}), "tool_choice.name"),
    "a choice with a name too many": (ask(tool_choice={"type": "any", "name": "x"}), "tool_choice.name"),
    "a choice with more": (ask(tool_choice={"type": "auto", "allow": 1}), "tool_choice"),
    "any of no tools": (ask(tool_choice={"type": "any"}), "tool_choice"),
    "a choice of a tool that is not there": (ask(tool_choice={"type": "tool", "name": "x"}), "tool_choice"),
    "no tokens": (ask(max_tokens=0), "max_tokens"),
    "tokens of a wrong type": (ask(max_tokens="many"), "max_tokens"),
    "a huge number": (ask(max_tokens=10**400), "max_tokens"),
    "a huge seed": (ask(seed=-(10**30)), "seed"),
    "a huge budget": (ask(thinking={"type": "enabled", "budget_tokens": 10**30}), "thinking.budget_tokens"),
    "a temperature below zero": (ask(temperature=-1), "temperature"),
    "a share above one": (ask(top_p=2), "top_p"),
    "a stop that is no text": (ask(stop_sequences=[5]), "stop_sequences[0]"),
    "an empty stop": (ask(stop_sequences=[""]), "stop_sequences"),
    "a stream of a wrong type": (ask(stream="yes"), "stream"),
    "thinking of an unknown type": (ask(thinking={"type": "hard"}), "thinking.type"),
    "thinking without a budget": (ask(thinking={"type": "enabled"}), "thinking.budget_tokens"),
    "a budget of nothing": (ask(thinking={"type": "enabled", "budget_tokens": 0}), "thinking.budget_tokens"),
    "an unknown effort": (ask(output_config={"effort": "heroic"}), "output_config.effort"),
    "a format of a wrong type": (ask(output_config={"format": {"type": "xml"}}), "output_config.format"),
    "a format without a schema": (ask(output_format={"type": "json_schema"}), "output_format"),
    "a format that is no schema": (
        ask(output_config={"format": {"type": "json_schema", "schema": {"type": 5}}}),
        "output_config.format.schema",
    ),
    "metadata of a wrong type": (ask(metadata=5), "metadata"),
    "an id of a wrong type": (ask(metadata={"user_id": 5}), "metadata.user_id"),
    "an unknown tier": (ask(service_tier="gold"), "service_tier"),
    "a cache mark of a wrong type": (ask(cache_control=5), "cache_control"),
    "betas of a wrong type": (ask(betas="a"), "betas"),
    "a model of a wrong type": (ask(model=5), "model"),
    "an empty session": (ask(session_id=""), "session_id"),
    "rounds below zero": (ask(max_tool_rounds=-1), "max_tool_rounds"),
    "a client that stays": (ask(on_disconnect="stay"), "on_disconnect"),
    "something unknown": (ask(colour="red"), "colour"),
}


@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG.keys())
async def test_a_mistake_is_named_by_its_field(door: Door, body: Json, field: str) -> None:
    data = json.dumps(body).encode()
    raw = await refused(door, data)

    assert (raw.status, raw.json["error"]["type"]) == (400, "invalid_request_error")
    assert field in raw.json["error"]["message"]


async def test_a_result_nobody_waits_for_is_refused_by_its_id(door: Door) -> None:
    raw = await refused(door, {"messages": [HI, heard(result("toolu_9", "x"))]})

    assert "'toolu_9'" in raw.json["error"]["message"]


# ---- whatever comes --------------------------------------------------------------------------------------------------

WHOLE: Json = {
    "model": "default",
    "max_tokens": 10,
    "system": [{**text("x"), "cache_control": {"type": "ephemeral"}}],
    "messages": [
        heard(
            text("a"), IMAGE, {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
        ),
        said(
            thinking("hm", "s"), {"type": "redacted_thinking", "data": "x"}, text("b"), use("t1", "pick", color="red")
        ),
        heard(result("t1", [text("ok"), IMAGE], is_error=True), {"type": "container_upload", "file_id": "f"}),
        said({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, text("c")),
        heard({"type": "search_result", "source": "s", "title": "t", "content": [text("d")]}),
        {"role": "system", "content": "e"},
        {"role": "user", "content": "f"},
    ],
    "tools": [PICK, {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}],
    "tool_choice": {"type": "tool", "name": "pick", "disable_parallel_tool_use": True},
    "stop_sequences": ["x"],
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "metadata": {"user_id": "u"},
    "service_tier": "auto",
    "container": {"id": "x", "skills": []},
    "context_management": {"edits": []},
    "mcp_servers": [],
    "betas": ["a"],
    "stream": False,
    "session_id": "s",
    "max_tool_rounds": 2,
}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(["text", "tool_use"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from _places(value[name], (*path, name))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield from _places(value[at], (*path, at))


PLACES = [*_places(WHOLE)]


@st.composite
def mutations(draw: st.DrawFn) -> Json:
    body = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 3))):
        places = draw(st.sampled_from(PLACES))
        holder: Any = body
        try:
            for step in places[:-1]:
                holder = holder[step]
            match draw(st.sampled_from(["replace", "delete", "add"])):
                case "replace":
                    holder[places[-1]] = draw(JSON)
                case "delete":
                    del holder[places[-1]]
                case _ if isinstance(holder, dict):
                    holder[draw(st.text(max_size=5))] = draw(JSON)
                case _:
                    holder.append(draw(JSON))
        except (KeyError, IndexError, TypeError, AttributeError):  # an earlier change took it away
            continue
    return body


@given(mutations(), st.sampled_from([None, "2023-06-01", "2026-10-21"]))
@settings(max_examples=400)
def test_nothing_that_is_json_is_more_than_a_bad_request(body: Json, version: str | None) -> None:
    refusal: BadRequest | None = None
    try:
        request = read_request(json.dumps(body).encode("utf-8", "surrogatepass"), version, "a,b")
        own = for_anthropic(request)
        Toolbox().offer((), 1, needs=for_others(request).needs)
    except BadRequest as error:
        refusal = error
    if refusal is not None:
        assert 400 <= refusal.status_hint < 500
        assert str(refusal)
    else:
        assert request.turns
        assert own.turns == request.turns


@given(st.binary(max_size=200))
def test_nothing_that_is_bytes_is_more_than_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_request(body)
