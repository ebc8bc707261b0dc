"""Text that is none, depth without end, and addresses and names that nothing answers to."""

from __future__ import annotations

import pytest
from tests.interaction.doors import Door, Json
from tests.server.refusals import Nodding, lookup, refused, says

# ---- text and depth --------------------------------------------------------------------------------------------------

LONE = b'"\\ud800"'
SURROGATES: dict[str, bytes] = {
    "content": b'{"messages": [{"role": "user", "content": %b}]}',
    "text part": b'{"messages": [{"role": "user", "content": [{"type": "text", "text": %b}]}]}',
    "messages": b'{"messages": %b}',
    "role": b'{"messages": [{"role": %b, "content": "hi"}]}',
    "model": b'{"messages": "hi", "model": %b}',
    "tool name": b'{"messages": "hi", "tools": [{"type": "function", "function": {"name": %b}}]}',
    "schema": b'{"messages": "hi", "tools": [{"type": "function", "function": {"name": "a", "parameters": {"title": %b}}}]}',
    "response schema": b'{"messages": "hi", "response_format": '
    b'{"type": "json_schema", "json_schema": {"schema": {"title": %b}}}}',
    "session_id": b'{"messages": "hi", "session_id": %b}',
    "stop": b'{"messages": "hi", "stop": %b}',
    "unknown field": b'{"messages": "hi", "user": %b}',
    "unknown field, deep": b'{"messages": "hi", "metadata": {"a": [%b]}}',
    "unknown member of a message": b'{"messages": [{"role": "user", "content": "hi", "mood": %b}]}',
    "arguments": b'{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": '
    b'[{"id": "c", "function": {"name": "a", "arguments": %b}}]}, {"role": "tool", "tool_call_id": "c", "content": ""}]}',
    "key": b'{"messages": "hi", %b: 1}',
}


@pytest.mark.parametrize("body", SURROGATES.values(), ids=SURROGATES.keys())
async def test_a_lone_surrogate_is_refused(door: Door, body: bytes) -> None:
    assert (await refused(door, body % LONE)).status == 400


@pytest.mark.parametrize("body", SURROGATES.values(), ids=SURROGATES.keys())
async def test_bytes_that_are_no_utf8_are_refused(door: Door, body: bytes) -> None:
    assert (await refused(door, body % b'"\xc3("')).status == 400


DEEP: dict[str, bytes] = {
    "body": b"%b",
    "messages": b'{"messages": %b}',
    "content": b'{"messages": [{"role": "user", "content": %b}]}',
    "tools": b'{"messages": "hi", "tools": %b}',
    "schema": b'{"messages": "hi", "tools": [{"type": "function", "function": {"name": "a", "parameters": {"x": %b}}}]}',
    "response schema": b'{"messages": "hi", "response_format": {"type": "json_schema", "json_schema": {"schema": {"x": %b}}}}',
    "tool_choice": b'{"messages": "hi", "tool_choice": %b}',
}
# What we pass on unread. How deep the decoder looks into it depends on the version of Python: 1,000 levels, or 10,000.
DEEP_UNREAD: dict[str, bytes] = {
    "unknown field": b'{"messages": "hi", "metadata": %b}',
    "unknown member of a message": b'{"messages": [{"role": "user", "content": "hi", "mood": %b}]}',
}


def nested(depth: int) -> list[bytes]:
    both = [opening * depth + b"1" + closing * depth for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"))]
    return [one for one in both if len(one) < 100_000]


@pytest.mark.parametrize("depth", [1_000, 20_000])
@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP.keys())
async def test_deep_nesting_is_refused(door: Door, body: bytes, depth: int) -> None:
    for value in nested(depth):
        assert (await refused(door, body % value)).status == 400


@pytest.mark.parametrize("depth", [1_000, 5_000, 20_000])
@pytest.mark.parametrize("body", DEEP_UNREAD.values(), ids=DEEP_UNREAD.keys())
async def test_deep_nesting_of_what_is_only_passed_on_is_no_trouble(door: Door, body: bytes, depth: int) -> None:
    async with door.serving(Nodding()) as served:
        for value in nested(depth):
            assert (await served.post(body % value)).status in (200, 400)


@pytest.mark.parametrize("depth", [50, 200, 500])
async def test_a_deep_schema_is_answered_one_way_or_the_other(door: Door, depth: int) -> None:
    nested = b'{"properties":{"a":' * depth + b"{}" + b"}}" * depth
    body = b'{"messages": "hi", "tools": [{"type": "function", "function": {"name": "a", "parameters": %b}}]}'

    async with door.serving(Nodding()) as served:
        assert (await served.post(body % nested)).status in (200, 400)


# ---- places and names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/nothing", "/v1/chat", "/v1/chat/completions/more", "/v1/responses/a/b"]
)
async def test_an_unknown_place_is_a_404_in_openais_shape(door: Door, path: str) -> None:
    async with door.serving(Nodding()) as served, served.http.post(served.url.removesuffix("/v1") + path) as answer:
        body = await answer.json()

    assert answer.status == 404
    assert sorted(body["error"]) == ["code", "message", "param", "type"]
    assert path in body["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("DELETE", "/v1/chat/completions"), ("POST", "/v1/models"), ("POST", "/health")],
)
async def test_another_method_is_a_405_in_openais_shape(door: Door, method: str, path: str) -> None:
    async with (
        door.serving(Nodding()) as served,
        served.http.request(method, served.url.removesuffix("/v1") + path) as answer,
    ):
        body = await answer.json()

    assert answer.status == 405
    assert sorted(body["error"]) == ["code", "message", "param", "type"]
    assert method in body["error"]["message"]
    assert answer.headers["allow"] in body["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("POST", "/chat/completions", "there is nothing at POST /chat/completions; did you mean /v1/chat/completions?"),
        ("POST", "/v1/v1/messages", "there is nothing at POST /v1/v1/messages; did you mean /v1/messages?"),
        ("GET", "/models", "there is nothing at GET /models; did you mean /v1/models?"),
        ("POST", "/v1/mesages", "there is nothing at POST /v1/mesages; did you mean /v1/messages?"),
        ("POST", "/v1/moderations", "there is nothing at POST /v1/moderations"),
        ("POST", "/v1/fine_tuning/jobs", "there is nothing at POST /v1/fine_tuning/jobs"),
        ("GET", "/v1/chat/completions", "/v1/chat/completions does not take GET; it takes POST"),
        ("POST", "/v1/models", "/v1/models does not take POST; it takes GET, HEAD"),
    ],
)
async def test_an_address_that_is_almost_right_is_told_the_right_one(
    door: Door, method: str, path: str, said: str
) -> None:
    async with (
        door.serving(Nodding()) as served,
        served.http.request(method, served.url.removesuffix("/v1") + path) as answer,
    ):
        assert (await answer.json())["error"]["message"] == said


async def test_an_unknown_model_is_a_404_that_names_it(door: Door) -> None:
    answer = await refused(door, says(model="gpt-nothing"))

    assert answer.status == 404
    assert (answer.error["param"], answer.error["code"]) == ("model", "model_not_found")
    assert "gpt-nothing" in answer.error["message"]


@pytest.mark.parametrize("named", [{}, {"model": None}, {"model": "default"}, {"model": "test"}])
async def test_default_or_none_names_the_servers_model(door: Door, named: Json) -> None:
    async with door.serving(Nodding()) as served:
        answer = await served.post(says(**named))

    assert (answer.status, answer.json["model"]) == (200, "test")


@pytest.mark.parametrize("key", [None, "Bearer anything", "Basic xyz", "nonsense"])
async def test_any_authorization_is_accepted_while_no_key_is_configured(door: Door, key: str | None) -> None:
    async with door.serving(Nodding()) as served:
        answer = await served.post(says(), headers=None if key is None else {"authorization": key})

    assert answer.status == 200


async def test_models_are_listed_with_the_default_first(door: Door) -> None:
    async with door.serving(Nodding(), lookup) as served:
        listed = [model.to_dict() async for model in served.client().models.list()]
        one = (await served.client().models.retrieve("default")).to_dict()

    assert [model["id"] for model in listed] == ["default", "test"]
    assert one == listed[0]
    assert (one["object"], one["owned_by"], one["tools_available"]) == ("model", "local", True)


@pytest.mark.parametrize("path", ["/health", "/"])
async def test_health_is_ok(door: Door, path: str) -> None:
    async with (
        door.serving(Nodding()) as served,
        served.http.get(served.url.removesuffix("/v1") + path) as answer,
    ):
        assert (answer.status, await answer.text()) == (200, "OK")
