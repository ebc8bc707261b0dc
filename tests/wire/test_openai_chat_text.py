"""A chunk that is nothing but text is read a shorter way: what comes out is the same, whatever else a chunk says."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.events import ModelFinished, Preview
from ronda.errors import UpstreamError
from ronda.wire.openai_chat import client_answer
from ronda.wire.openai_chat.client_answer import Reader

HALVES = ["\ud83d", "\ude00", "a\ud83d", "\ude00b", "\ud83d\ude00", "\ude00\ud83d"]
TEXTS = st.sampled_from(["", "a", "some words", "é", "\\", '"', *HALVES])
CALL = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["assistant", None]),
        "content": st.one_of(TEXTS, st.none(), st.just([{"type": "text", "text": "part"}])),
        "reasoning_content": st.sampled_from([None, "", "thought"]),
        "reasoning": st.sampled_from([None, "", "thought"]),
        "refusal": st.sampled_from([None, "", "no"]),
        "tool_calls": st.sampled_from([None, [], [CALL]]),
        "function_call": st.sampled_from([None, {"name": "look", "arguments": ""}]),
        "reasoning_details": st.sampled_from([None, [], [{"type": "x"}]]),
        "extra_content": st.sampled_from([None, {"google": 1}]),
        "thought_signature": st.sampled_from([None, "abc"]),
        "annotations": st.just([]),
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 0, None, 1, 2, -1]),
        "delta": st.one_of(DELTAS, DELTAS, DELTAS, st.none()),
        "message": st.sampled_from([None, {"role": "assistant", "content": "whole"}]),
        "finish_reason": st.sampled_from([None, None, "", "stop", "length"]),
        "logprobs": st.sampled_from([None, {"content": [{"token": "\ud83d", "logprob": -1.0}]}]),
        "content_filter_results": st.just({}),
    },
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.one_of(st.lists(CHOICES, min_size=1, max_size=1), st.lists(CHOICES, max_size=3), st.none())},
    optional={
        "usage": st.sampled_from([None, {"prompt_tokens": 1, "completion_tokens": 2}]),
        "x_groq": st.sampled_from([None, {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}]),
        "error": st.sampled_from([None, {"message": "broken", "code": 500}]),
        "obfuscation": st.just("xyz"),
    },
)
FRAMES = st.lists(
    st.one_of(CHUNKS.map(json.dumps), st.sampled_from(["[DONE]", " [DONE]", "{", "null", "{}"])), max_size=24
)


def _read(frames: list[str]) -> tuple[list[list[Preview]], list[list[list[Preview]]], list[ModelFinished] | str]:
    reader = Reader(2)
    shown, aside = [], []
    for frame in frames:
        shown.append(reader.feed(f"data: {frame}\n\n".encode()))
        aside.append(reader.take_aside())
    shown.append(reader.close())
    try:
        return shown, aside, reader.finish_all()
    except UpstreamError as error:
        return shown, aside, f"{type(error).__name__}: {error}"


def _refuse(frame: bytes) -> Any:
    raise msgspec.ValidationError("read it the long way")


@given(frames=FRAMES)
def test_the_short_way_reads_what_the_long_one_reads(frames: list[str]) -> None:
    short = _read(frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_answer, "decode_text", _refuse)
        assert _read(frames) == short


def test_most_chunks_go_the_short_way_also_behind_thoughts(monkeypatch: pytest.MonkeyPatch) -> None:
    long = 0
    read = Reader._read_chunk

    def count(self: Reader, frame: bytes, out: list[Preview]) -> None:
        nonlocal long
        long += 1
        read(self, frame, out)

    monkeypatch.setattr(Reader, "_read_chunk", count)
    thought = '{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}'
    text = '{"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null,"logprobs":null}],"usage":null}'
    _read([*[thought] * 10, *[text] * 50])
    assert long == 11  # every thought, and the first text behind them
