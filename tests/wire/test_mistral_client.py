"""What Mistral answers, whole and in pieces → a turn."""

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.exchanges import native_of, watched
from tests.wire.mistral_answers import NAMING, call, plain, thinking

from ronda.core.events import CallDelta, ModelFinished, Preview, ReasoningDelta, RunStarted, TextDelta
from ronda.core.parts import (
    AssistantTurn,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run
from ronda.core.transcript import settle
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.mistral.client_answer import Reader, read_plain


def chunk(delta: Any = None, finish: str | None = None, **members: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **members}, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def watch(*pieces: bytes) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(NAMING), *pieces)


def test_a_plain_answer() -> None:
    calls = [call("D681PevKs", "look", '{"at":"sky"}', index=0), call("9tQ8vbbbb", "ring", {"n": 1}, index=1)]
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "num_cached_tokens": 4}
    finished = plain({"role": "assistant", "content": "", "tool_calls": calls}, "tool_calls", usage=usage)

    parts = (ToolCall("D681PevKs", "look", '{"at":"sky"}'), ToolCall("9tQ8vbbbb", "ring", '{"n":1}'))
    assert finished == ModelFinished(AssistantTurn(parts, "tool_calls"), Usage(9, 3, 4))


def test_a_thought_that_is_called_closed_in_every_piece_goes_back_as_one() -> None:
    pieces = [{"content": [thinking(f"{number} ", closed=True)]} for number in range(480)]
    previews, streamed = watch(*[chunk(piece) for piece in pieces], chunk({"content": "Four."}, "stop"), DONE)

    thought = "".join(f"{number} " for number in range(480))
    assert native_of(streamed) == [thinking(thought, closed=True), {"type": "text", "text": "Four."}]
    assert "".join(one.text for one in previews if isinstance(one, ReasoningDelta)) == thought


def test_a_thought_behind_one_that_was_closed_is_another() -> None:
    pieces = [
        thinking("a", closed=False),
        thinking("b", closed=True),
        thinking("c", closed=False),
        thinking(closed=True),
    ]
    _, streamed = watch(*[chunk({"content": [piece]}) for piece in pieces], chunk({"content": "Four."}, "stop"), DONE)
    whole = plain(
        {"content": [thinking("ab", closed=True), thinking("c", closed=True), {"type": "text", "text": "Four."}]}
    )

    assert native_of(streamed) == native_of(whole)


def test_thoughts_are_kept_as_chunks_whole_and_streamed() -> None:
    whole = plain({"content": [thinking("Hm, well.", closed=True), {"type": "text", "text": "Four."}]})
    pieces = [
        {"role": "assistant", "content": ""},
        {"content": [thinking("Hm,")]},
        {"content": [thinking(" well.")]},
        {"content": [thinking(closed=True)]},
        {"content": "Fo"},
        {"content": [{"type": "text", "text": "ur."}]},
    ]
    previews, streamed = watch(*[chunk(piece) for piece in pieces], chunk({"content": ""}, "stop"), DONE)

    assert whole.turn.parts == (Reasoning("Hm, well."), Text("Four."))
    assert native_of(whole) == [thinking("Hm, well.", closed=True), {"type": "text", "text": "Four."}]
    assert streamed == whole
    assert previews == [ReasoningDelta("Hm,"), ReasoningDelta(" well."), TextDelta("Fo"), TextDelta("ur.")]


def test_chunks_of_one_message_are_not_joined_and_unknown_ones_are_kept() -> None:
    content = [
        thinking("One.", "Two."),
        thinking("Three."),
        {"type": "text", "text": "See"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": " there."},
    ]

    finished = plain({"content": content})

    assert native_of(finished) == content
    assert finished.turn.parts == (Reasoning("One.Two.Three."), Text("See there."))


def test_a_list_of_texts_needs_no_keeping() -> None:
    assert plain({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}).turn == AssistantTurn(
        (Text("ab"),)
    )


def test_streamed_calls_may_come_whole_or_in_pieces_with_or_without_an_index() -> None:
    whole = [call("D681PevKs", "look", "{}"), call("9tQ8vbbbb", "look", '{"a":1}')]
    pieces = [
        call("D681PevKs", "look", "{}", index=0),
        call("9tQ8vbbbb", "look", '{"a"', index=1),
        call(None, "", ":1}", index=1),
    ]
    expected = (ToolCall("D681PevKs", "look", "{}"), ToolCall("9tQ8vbbbb", "look", '{"a":1}'))

    for deltas in ([{"tool_calls": whole}], [{"tool_calls": [piece]} for piece in pieces]):
        turn = watch(*[chunk(delta) for delta in deltas], chunk(finish="tool_calls"), DONE)[1].turn
        assert turn == AssistantTurn(expected, "tool_calls")


def test_calls_without_ids_get_nine_characters_of_their_own_and_keep_what_is_kept() -> None:
    content = [thinking("Hm.")]
    calls = [call("null", "look", "{}", index=0), call("null", "look", '{"a":1}', index=1)]
    whole = plain({"content": content, "tool_calls": calls}, "tool_calls")
    previews, streamed = watch(chunk({"content": content, "tool_calls": calls}), chunk(finish="tool_calls"))
    run = Run(RunStarted("run", Plan("m", (ToolSpec("look"),)), ()))
    run.round = 3

    assert streamed == whole
    assert [p.id for p in previews if type(p) is CallDelta] == [call.id for call in whole.turn.calls]
    assert len({call.id for call in whole.turn.calls}) == 2
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call.id) for call in whole.turn.calls)
    assert settle(whole, run) == (whole, [])


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "stop"), ("length", "length"), ("model_length", "length"), ("tool_calls", "stop"), ("x", "stop")],
)
def test_finish_reasons(finish: str, stop: str) -> None:
    assert plain({"content": "Hi"}, finish).turn.stop == stop
    cut = plain({"content": "", "tool_calls": [call("D681PevKs", "look", '{"a')]}, finish).turn
    assert cut.stop == ("length" if stop == "length" else "tool_calls")


def test_an_error_for_a_finish_may_be_tried_again() -> None:
    with pytest.raises(UpstreamBroken):
        plain({"content": "Hi"}, "error")
    with pytest.raises(UpstreamBroken):
        watch(chunk({"content": "Hi"}), chunk(finish="error"), DONE)


MANY = [
    {"role": "assistant", "content": "I search.", "tool_calls": [call("srv000001", "web_search", "{}")]},
    {"role": "tool", "tool_call_id": "srv000001", "content": "found it"},
    {"role": "assistant", "content": " Here.", "tool_calls": [call("mine00001", "look", "{}")]},
]


def test_what_mistrals_own_tools_did_is_nobodys_to_run() -> None:
    whole = {"choices": [{"index": 0, "messages": MANY, "finish_reason": "tool_calls"}]}
    finished = read_plain(json.dumps(whole).encode(), NAMING)
    streamed = watch(*[chunk(delta) for delta in MANY], chunk(finish="tool_calls"), DONE)[1]

    assert finished.turn == AssistantTurn((Text("I search. Here."), ToolCall("mine00001", "look", "{}")), "tool_calls")
    assert streamed == finished


@given(st.data())
def test_a_stream_cut_anywhere_is_the_same_and_cut_short_never_half(data: st.DataObject) -> None:
    stream = b"".join(
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": [thinking("Höm")]}),
            chunk({"content": "Well"}),
            chunk({"tool_calls": [call("D681PevKs", "look", '{"a":')]}),
            chunk({"tool_calls": [call("D681PevKs", "", '"é"}')]}, "tool_calls", usage={"prompt_tokens": 3}),
            DONE,
        ]
    )
    whole = watch(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert watch(*pieces) == whole
    with contextlib.suppress(UpstreamBroken):
        assert watch(stream[: data.draw(st.integers(0, len(stream)))])[1].turn == whole[1].turn


@pytest.mark.parametrize("body", [b"", b"{}", b'{"choices":[]}', b"[]", b"\xff", b'{"choices":[{"message":3}]}'])
def test_an_answer_that_is_no_answer_is_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        read_plain(body)
    with pytest.raises(UpstreamBroken):
        watch(b"data: " + body + b"\n\n")


def test_a_chunk_of_text_without_text_says_nothing() -> None:
    content = [{"type": "text"}, {"type": "text", "text": None}, {"type": "text", "text": "Hi"}]
    body = {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}

    assert read_plain(json.dumps(body).encode()).turn.text == "Hi"
    streamed = b"".join([chunk({"role": "assistant", "content": content}), chunk({}, "stop"), DONE])
    assert watch(streamed)[1].turn.text == "Hi"


def test_an_error_inside_an_answer_is_raised() -> None:
    error = {"object": "error", "message": "Service unavailable", "type": "x", "code": 3505}

    with pytest.raises(UpstreamError, match="Service unavailable"):
        read_plain(json.dumps(error).encode())
    with pytest.raises(UpstreamError, match="Service unavailable"):
        watch(b"data: " + json.dumps(error).encode() + b"\n\n")
