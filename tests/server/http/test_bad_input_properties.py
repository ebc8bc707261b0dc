"""Whatever is sent to Chat Completions is answered, or refused with a 4xx that names the field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.interaction.doors import Door, Json, Raw, declared
from tests.interaction.upstreams import call
from tests.server.refusals import Nodding, lookup

VALID: Json = {
    "model": "default",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Really."}]},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:,x", "filename": "x.txt"}},
            ],
        },
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call("a", "c1", q=1)]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "found"}]},
        {"role": "assistant", "content": "there", "refusal": None},
        {"role": "user", "content": "and now?"},
    ],
    "tools": [declared("a", q="integer"), {"type": "function", "name": "b", "parameters": {"type": "object"}}],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"name": "a"}]}},
    "stream": False,
    "n": 2,
    "max_tokens": 100,
    "max_completion_tokens": 100,
    "temperature": 0.5,
    "top_p": 1,
    "stop": ["x"],
    "seed": 7,
    "parallel_tool_calls": True,
    "reasoning_effort": "low",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
    },
    "max_tool_rounds": 3,
    "session_id": "s1",
    "on_disconnect": "cancel",
    "metadata": {"any": ["thing"]},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from places(inner, (*path, at))


def changed(value: Any, path: tuple[Any, ...], change: Any) -> Any:
    """A copy with one place replaced, or taken out when there is nothing to put there."""
    if not path:
        return None if change is REMOVE else change
    made = copy.copy(value)
    if change is REMOVE and len(path) == 1:
        del made[path[0]]
    else:
        made[path[0]] = changed(value[path[0]], path[1:], change)
    return made


REMOVE = object()


_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)


_leaf = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([10**400, -(2**63), 2**64, 0, -1]), st.floats(), _text,
    st.sampled_from(["user", "tool", "assistant", "function", "auto", "required", "a", "c1", "text", "object"]),
)  # fmt: skip


_json = st.recursive(
    _leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3), max_leaves=6
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    body: Any = VALID
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(body))))
        body = changed(body, path, draw(st.just(REMOVE) | _json))
    if isinstance(body, dict) and draw(st.booleans()):
        body = {**body, draw(_text): draw(_json)}
    return json.dumps(body).encode()


def check(answer: Raw, asked: int) -> None:
    """An answer, or a 4xx in OpenAI's shape before the model was asked."""
    if answer.status == 200:
        assert answer.said.finish_reason == "stop"
        return
    if asked and "response_format" in answer.error["message"]:
        return  # the model's mistake: what it says does not fit a schema that has become another one
    assert 400 <= answer.status < 500, answer.body
    assert answer.error["message"]
    assert asked == 0


async def test_the_valid_request_is_answered(door: Door, stream: bool) -> None:
    model = Nodding()
    async with door.serving(model) as served:
        answer = await served.post({**VALID, "stream": stream})

    assert (answer.status, answer.said.content, model.asked) == (200, "{}", 2)


@given(body=requests())
async def test_no_change_of_a_good_request_breaks_the_server(door: Door, body: bytes) -> None:
    model = Nodding()
    async with door.serving(model) as served:
        answer = await served.post(body)

    check(answer, model.asked)


@given(body=requests())
async def test_no_change_of_a_good_request_breaks_a_server_with_tools(door: Door, body: bytes) -> None:
    model = Nodding()
    async with door.serving(model, lookup) as served:
        answer = await served.post(body)

    check(answer, model.asked)


@given(at=st.integers(0, len(json.dumps(VALID))), put=st.binary(max_size=4), cut=st.integers(0, 4))
async def test_no_change_of_a_byte_breaks_the_server(door: Door, at: int, put: bytes, cut: int) -> None:
    body = json.dumps(VALID).encode()
    model = Nodding()
    async with door.serving(model) as served:
        answer = await served.post(body[:at] + put + body[at + cut :])

    check(answer, model.asked)
