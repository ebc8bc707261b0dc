"""Emoji cut in two by a server, each half an escape of its own: whole again in every wire's stream."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.events import Preview, TextDelta
from ronda.wire.anthropic.client_stream import Reader as AnthropicReader
from ronda.wire.codec.surrogates import SurrogateMender
from ronda.wire.gemini.client_answer import Reader as GeminiReader
from ronda.wire.mistral.client_answer import Reader as MistralReader
from ronda.wire.openai_chat.client_answer import Reader as ChatReader
from ronda.wire.openai_chat.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader as ResponsesReader

PIECES = ("Hi \ud83d", "\ude00 there")


def frame(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chat(text: str) -> bytes:
    return frame({"choices": [{"index": 0, "delta": {"content": text}}]})


def gemini(text: str) -> bytes:
    return frame({"candidates": [{"content": {"parts": [{"text": text}]}}]})


def anthropic(text: str) -> bytes:
    return frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


def responses(text: str) -> bytes:
    return frame({"type": "response.output_text.delta", "output_index": 0, "delta": text})


CHAT_END = frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi \U0001f600 there"}]}
WIRES: list[tuple[Callable[[], Any], Callable[[str], bytes], bytes]] = [
    (ChatReader, chat, CHAT_END),
    (MistralReader, chat, CHAT_END),
    (GeminiReader, gemini, frame({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})),
    (AnthropicReader, anthropic, frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
    (ResponsesReader, responses, frame({"type": "response.completed", "response": {"output": [ITEM]}})),
]


@pytest.mark.parametrize(("make", "write", "end"), WIRES, ids=["chat", "mistral", "gemini", "anthropic", "responses"])
def test_two_halves_of_an_emoji_in_two_chunks_are_one_emoji(
    make: Callable[[], Any], write: Callable[[str], bytes], end: bytes
) -> None:
    reader = make()
    shown: list[Preview] = []
    for data in (*[write(text) for text in PIECES], end):
        shown += reader.feed(data)

    assert reader.finish().turn.text == "Hi \U0001f600 there"
    assert "".join([one.text for one in shown if type(one) is TextDelta]) == "Hi \U0001f600 there"


def test_a_half_that_stays_alone_does_not_break_an_answer() -> None:
    body = (
        rb'{"choices":[{"message":{"role":"assistant","content":"a\ud83db \\ud83d c\ude00"},"finish_reason":"stop"}]}'
    )

    assert read_plain(body).turn.text == "a\ufffdb \\ud83d c\ufffd"


@given(st.lists(st.text(st.sampled_from('a"\\\U0001f600\U0001f64fé'), max_size=6), min_size=1), st.data())
def test_whatever_is_cut_wherever_it_is_cut_comes_back_whole(texts: list[str], data: st.DataObject) -> None:
    whole = "".join(texts)
    units = whole.encode("utf-16-le", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units) // 2), max_size=5)))
    pieces: list[str] = []
    at = 0
    for cut in [*cuts, len(units) // 2]:
        pieces.append(units[2 * at : 2 * cut].decode("utf-16-le", "surrogatepass"))
        at = cut
    halves = SurrogateMender()

    read = [json.loads(halves.mend(json.dumps({"text": piece}).encode()))["text"] for piece in pieces]

    assert "".join(read) == whole
    assert all(text.encode() or not text for text in read)  # no half is left in any of them
