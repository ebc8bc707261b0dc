"""Messages → the body of a request: what Prompty says beside text, media and calls, and requests that are no conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.prompty_requests import write_request
from tests.pipeline.files import text_of

from ronda.prompty import loads
from ronda.prompty.message_parts import read_message


def body(messages: list[Any], api: str = "chat", provider: str = "openai", **options: Any) -> Any:
    model = {"id": "m", "provider": provider, "apiType": api, "options": options}
    return json.loads(write_request(loads(text_of({"model": model})), [read_message(one) for one in messages]))


def test_a_name_goes_out_with_any_role() -> None:
    messages = [
        {"role": "system", "content": "Be nice.", "metadata": {"name": "boss"}},
        {"role": "user", "content": "hi", "name": "Ann"},
        {"role": "assistant", "content": "yes", "name": "Bob"},
    ]
    assert body(messages)["messages"] == [
        {"role": "system", "content": "Be nice.", "name": "boss"},
        {"role": "user", "content": "hi", "name": "Ann"},
        {"role": "assistant", "content": "yes", "name": "Bob"},
    ]


def test_what_a_message_says_beside_its_content_goes_out_with_it() -> None:
    messages = [
        {"role": "user", "content": "hi", "metadata": {"name": "Ann", "id": 7, "seen": object()}},
        {"role": "assistant", "content": "{", "prefix": True},
    ]
    assert body(messages)["messages"] == [
        {"role": "user", "content": "hi", "name": "Ann", "id": 7},
        {"role": "assistant", "content": "{", "prefix": True},
    ]
    assert body(messages, provider="anthropic")["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "{"}]},
    ]


def test_a_file_is_an_address_or_its_content() -> None:
    parts = [
        {"kind": "file", "value": "https://example.com/a.pdf"},
        {"kind": "file", "value": "JVBERi0x", "name": "b.pdf"},
    ]
    assert body([{"role": "user", "content": parts}])["messages"][0]["content"] == [
        {"type": "file", "file": {"url": "https://example.com/a.pdf"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "b.pdf"}},
    ]


@pytest.mark.parametrize(
    ("media_type", "format"),
    [("audio/x-wav", "wav"), ("audio/mpeg", "mp3"), ("audio/flac", "flac"), ("audio/ogg", "ogg"), ("audio/aac", "aac")],
)
def test_the_format_of_a_sound_follows_its_media_type(media_type: str, format: str) -> None:
    parts = [{"kind": "audio", "value": "AAAA", "mediaType": media_type}]
    assert body([{"role": "user", "content": parts}])["messages"][0]["content"] == [
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": format}}
    ]


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
THREAD = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "done", "tool_call_id": "c1"},
]


def test_calls_and_their_results_go_back_in_each_dialect() -> None:
    assert body(THREAD)["messages"] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    assert body(THREAD, provider="anthropic")["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]},
    ]
    assert body(THREAD, "responses")["input"][1:] == [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
    ]


def test_a_function_call_item_of_the_responses_api_goes_back_as_it_came() -> None:
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    }
    message = {"role": "tool", "content": "done", "metadata": {"responses_function_call": item, "tool_call_id": "c1"}}

    assert body([THREAD[0], message], "responses")["input"][1:] == [
        item,
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
    ]
    assert body([THREAD[0], message])["messages"][1]["tool_calls"] == [CALL]


def test_an_embedding_asks_for_all_texts_and_an_image_for_what_the_user_said_last() -> None:
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": [{"kind": "image", "value": "https://x/y.png"}, "c", "d"]},
    ]
    assert body(messages, "embedding") == {"model": "m", "input": ["a", "b", "c", "d"]}
    assert body(messages[:1], "embedding", additionalProperties={"dimensions": 8, "model": "x"}) == {
        "model": "m",
        "input": "a",
        "dimensions": 8,
    }
    assert body(messages, "image", additionalProperties={"size": "1x1"}) == {"model": "m", "prompt": "c", "size": "1x1"}
    assert body(messages[:1], "image") == {"model": "m", "prompt": ""}


def test_a_request_that_depends_on_the_run_is_not_written_beforehand() -> None:
    with pytest.raises(ValueError, match="requests to 'local' are not written beforehand"):
        body(THREAD, provider="local")
