"""A stream that goes wrong, in any dialect: what came before is shown, nothing after it counts, and `finish` says what it was."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.wire.exchanges import Reader

from ronda.core.events import TextDelta
from ronda.errors import UpstreamBroken
from ronda.wire.anthropic.client_stream import Reader as Anthropic
from ronda.wire.gemini.client_answer import Reader as Gemini
from ronda.wire.mistral.client_answer import Reader as Mistral
from ronda.wire.openai_chat.client_answer import Reader as Chat
from ronda.wire.openai_responses.client_stream import Reader as Responses


def frame(said: Any) -> bytes:
    return b"data: " + msgspec.json.encode(said) + b"\n\n"


HELLO: dict[Callable[[], Reader], bytes] = {
    Chat: frame({"choices": [{"index": 0, "delta": {"content": "Hello"}}]}),
    Mistral: frame({"choices": [{"index": 0, "delta": {"content": "Hello"}}]}),
    Gemini: frame({"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]}),
    Anthropic: frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}),
    Responses: frame({"type": "response.output_text.delta", "output_index": 0, "delta": "Hello"}),
}
EVERY = pytest.mark.parametrize(("read", "hello"), HELLO.items(), ids=[reader.__module__ for reader in HELLO])

UNREADABLE = {
    "no JSON": b"data: {\n\n",
    "no object": b"data: 7\n\n",
    "too deep": b'data: {"x": ' + b"[" * 100_000 + b"\n\n",
}


@EVERY
@pytest.mark.parametrize("wrong", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_came_before_a_frame_that_cannot_be_read_is_shown_and_nothing_after_it(
    read: Callable[[], Reader], hello: bytes, wrong: bytes
) -> None:
    reader = read()

    assert (reader.feed(hello + wrong + hello), reader.feed(hello), reader.close()) == ([TextDelta("Hello")], [], [])

    assert reader.broken
    with pytest.raises(UpstreamBroken, match="the model's stream cannot be read: ") as raised:
        reader.finish()
    assert raised.value.retryable


@EVERY
def test_a_frame_without_end_is_a_broken_stream(read: Callable[[], Reader], hello: bytes) -> None:
    reader = read()
    much = b"data: " + b"x" * (1 << 26)

    assert (reader.feed(hello), reader.feed(much), reader.feed(hello)) == ([TextDelta("Hello")], [], [])

    with pytest.raises(UpstreamBroken, match="the limit is 67108864"):
        reader.finish()


@EVERY
def test_a_stream_that_just_ends_is_a_lost_connection(read: Callable[[], Reader], hello: bytes) -> None:
    reader = read()

    assert (reader.feed(hello), reader.close(), reader.broken) == ([TextDelta("Hello")], [], False)

    with pytest.raises(UpstreamBroken, match="the model's stream ended before it was complete") as raised:
        reader.finish()
    assert raised.value.connection
