"""Anthropic's Messages as its client: answers, whole or in pieces, come to one turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.anthropic_streams import told
from tests.wire.anthropic_messages import (
    LOOK,
    dumps,
    events,
    message,
    messages,
    plain,
    text,
    thinking,
    use,
    watch,
    written,
)
from tests.wire.exchanges import request

from ronda.core.events import CallDelta, ModelFinished, NativeDelta, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.parts import (
    AssistantTurn,
    Native,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Usage,
    user,
)
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.anthropic import API, VERSION
from ronda.wire.anthropic.client_request import Body, Reader, join_answers, read_answer, read_plain, write_request
from ronda.wire.upstream.errors import error_of


def test_a_plain_answer_is_read() -> None:
    body = plain(thinking("hm"), text("See:"), use(at="x"), stop="tool_use")
    parts = (Reasoning("hm"), Text("See:"), ToolCall("toolu_1", "look", '{"at":"x"}'))
    native = Native(API, Raw(dumps([thinking("hm"), text("See:"), use(at="x")])))

    assert read_plain(body) == ModelFinished(
        AssistantTurn(parts, "tool_calls", native), Usage(130, 5, 100, cache_written=20)
    )


def test_what_our_writer_says_in_the_same_way_is_not_kept_twice() -> None:
    assert read_plain(plain(text("Hello"), use(at="x"))).turn.native is None


@pytest.mark.parametrize(
    ("said", "stop"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "length"),
        ("something_new", "stop"),
    ],
)
def test_every_stop_reason_is_mapped(said: str, stop: str) -> None:
    assert read_plain(plain(text("x"), stop=said)).turn.stop == stop


def test_a_turn_with_calls_runs_them_unless_it_was_cut() -> None:
    assert read_plain(plain(use(), stop="end_turn")).turn.stop == "tool_calls"
    assert read_plain(plain(use(), stop="max_tokens")).turn.stop == "length"
    assert read_plain(plain(text("x"), stop="tool_use")).turn.stop == "stop"


def test_a_refusal_is_explained_plain_and_streamed() -> None:
    body = message(text("I "), stop="refusal", stop_details={"type": "refusal", "explanation": "No."})
    frames = told(body)
    frames[-2]["delta"]["stop_details"] = body["stop_details"]
    previews, finished = watch(events(*frames))

    assert finished == read_plain(dumps(body))
    assert finished.turn.parts == (Text("I "), Refusal("No."))
    assert previews == [TextDelta("I "), RefusalDelta("No.")]


def test_thinking_that_was_never_signed_does_not_go_back() -> None:
    turn = read_plain(plain(thinking("cut", ""), text("x"), stop="max_tokens")).turn

    assert turn.reasoning == "cut"
    assert messages(turn, user("on"))[0]["content"] == [text("x")]


def test_hidden_and_redacted_thinking_goes_back_in_its_place() -> None:
    content = [thinking("", "s1"), {"type": "redacted_thinking", "data": "xyz"}, thinking("b", "s2"), use()]
    turn = read_plain(plain(*content, stop="tool_use")).turn

    assert messages(turn, ToolTurn((ToolResult("toolu_1", "ok"),)))[0]["content"] == content


def test_empty_text_is_left_out_of_what_goes_back() -> None:
    turn = read_plain(plain(text(""), {**use(), "caller": {"type": "direct"}}, stop="tool_use")).turn

    assert turn.native == Native(API, Raw(dumps([{**use(), "caller": {"type": "direct"}}])))


def test_blocks_of_server_tools_are_no_calls_and_go_back() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    turn = read_plain(plain(search, found, text("There."))).turn

    assert turn.parts == (Text("There."),)
    assert messages(turn, user("on"))[0]["content"] == [search, found, text("There.")]


def test_previews_come_as_the_events_do() -> None:
    previews, _ = watch(events(*told(message(thinking("hm"), text("See:"), use(at="x"), stop="tool_use"))))

    assert previews == [
        ReasoningDelta("hm"),
        NativeDelta(API, Raw(b'{"type":"thinking","signature":"sig"}')),
        TextDelta("See:"),
        CallDelta(0, "toolu_1", "look", ""),
        CallDelta(0, "toolu_1", "look", '{"at":"'),
        CallDelta(0, "toolu_1", "look", 'x"}'),
    ]


def test_a_call_without_arguments_is_shown_as_an_empty_object() -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": use()}
    frames = [start, {"type": "content_block_stop", "index": 0}, *told(message(stop="tool_use"))[-2:]]
    previews, finished = watch(events(*frames))

    assert previews[-1] == CallDelta(0, "toolu_1", "look", "{}")
    assert finished.turn.calls == (ToolCall("toolu_1", "look", "{}"),)


def test_arguments_cut_by_length_stay_what_they_were_and_go_back_as_an_object() -> None:
    body = message(use(), stop="max_tokens")
    delta = {"type": "input_json_delta", "partial_json": '{"at": "x'}
    frames = [one for one in told(body) if one.get("delta", {}).get("type") != "input_json_delta"]
    at = next(n for n, one in enumerate(frames) if one["type"] == "content_block_stop")
    frames.insert(at, {"type": "content_block_delta", "index": 0, "delta": delta})
    _, finished = watch(events(*frames))

    assert finished.turn.calls == (ToolCall("toolu_1", "look", '{"at": "x'),)
    assert finished.turn.stop == "length"
    sent = messages(finished.turn, ToolTurn((ToolResult("toolu_1", "cut", failed=True),)))
    assert sent[0]["content"][0]["input"] == {"INVALID_JSON": '{"at": "x'}


def test_a_compaction_goes_back_as_it_came_with_what_is_sealed_in_it() -> None:
    whole = {"type": "compaction", "content": "They met.", "encrypted_content": "c2VhbGVk", "signature": "s"}
    frames = told(message({"type": "compaction", "content": None}, text("On.")))
    grown = {"type": "content_block_delta", "index": 0, "delta": {**whole, "type": "compaction_delta"}}
    at = next(n for n, frame in enumerate(frames) if frame["type"] == "content_block_start")
    frames.insert(at + 1, grown)
    previews, finished = watch(events(*frames))

    assert finished == read_plain(plain(whole, text("On.")))
    assert messages(finished.turn, user("on"))[0]["content"] == [whole, text("On.")]
    assert previews[0] == NativeDelta(API, Raw(dumps(whole)))


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_the_start_of_a_message_may_come_twice(at: int) -> None:
    frames = told(message(text("x")))
    frames[0]["message"]["id"] = "msg_1"

    assert watch(events(*frames[:at], frames[0], *frames[at:])) == watch(events(*frames))


def test_the_start_of_another_message_breaks_the_stream() -> None:
    frames = told(message(text("x")))
    frames[0]["message"]["id"] = "msg_1"
    other = {"type": "message_start", "message": {**frames[0]["message"], "id": "msg_2"}}

    with pytest.raises(UpstreamBroken, match="second message"):
        watch(events(frames[0], other, *frames[1:]))


def test_a_second_message_inside_an_open_one_breaks_the_stream() -> None:
    frames = told(message(text("x")))

    with pytest.raises(UpstreamBroken, match="second message"):
        watch(events(*frames[:3], *frames))


def test_usage_of_a_stream_is_what_was_said_last() -> None:
    frames = told(message(text("x")))
    frames[0]["message"]["usage"] = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}
    frames[-2]["usage"] = {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 30}}

    assert watch(events(*frames))[1].usage == Usage(10, 40, 3, 30)


def test_an_error_in_a_stream_keeps_what_was_shown_and_may_be_tried_again() -> None:
    reader = Reader()
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    assert reader.feed(events(*told(message(text("x")))[:4], error)) == [TextDelta("x")]
    assert reader.broken
    with pytest.raises(UpstreamError, match="529: Overloaded") as raised:
        reader.finish()
    assert (raised.value.status, raised.value.retryable) == (529, True)


@pytest.mark.parametrize("stream", [b"", b"data: nonsense\n\n", b'data: {"type":"message_start"}\n\n'])
def test_a_stream_that_does_not_end_is_broken(stream: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        watch(stream)


def test_a_block_without_a_type_is_shown_to_nobody() -> None:
    begun, *rest = told(message(text("x")))
    for event in rest:
        event.get("content_block", {}).pop("type", None)
    reader = Reader()

    assert reader.feed(events(begun, *rest)) == []
    with pytest.raises(UpstreamBroken, match="has no type"):
        reader.finish()
    with pytest.raises(UpstreamBroken, match="has no type"):
        read_plain(json.dumps({"content": [{"text": "x"}], "stop_reason": "end_turn"}).encode())


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"content":"x"}', b'{"content":[{"type":1}]}'])
def test_an_answer_that_is_no_message_is_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        read_plain(body)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (404, False), (408, True), (429, True), (500, True), (529, True)],
)
def test_errors_say_if_trying_again_may_help(status: int, retryable: bool) -> None:
    error = error_of(b'{"type":"error","error":{"type":"x","message":"why"}}', status, 3.0)

    assert str(error) == f"the model's server answered {status}: why"
    assert (error.status, error.retryable, error.retry_after) == (status, retryable, 3.0)


def test_an_error_of_a_gateway_is_said_too() -> None:
    assert "a page without text" in str(error_of(b"<html>", 502))
    assert str(error_of(b'{"message":"no"}', 403)).endswith("no")
    assert str(error_of(b'{"error":"no"}', 403)).endswith("no")


def test_members_of_an_error_that_nobody_knows_hide_nothing_of_it() -> None:
    said = {"type": "not_found_error", "message": "no such model", "code": {"upstream": 7.5}, "status": [404]}
    reader = Reader()
    reader.feed(events({"type": "error", "error": said}))

    with pytest.raises(UpstreamError) as found:
        reader.finish()
    assert (str(found.value), found.value.retryable) == ("the model's server answered 404: no such model", False)


def test_pieces_of_a_paused_turn_are_one_turn() -> None:
    first = read_answer(plain(thinking("a"), text("One."), stop="pause_turn"))
    second = read_answer(plain(text("Two."), use(), stop="tool_use", container={"id": "box"}))
    both = join_answers([first, second])

    assert first.paused
    assert not second.paused
    assert both.turn.parts == (Reasoning("a"), Text("One."), Text("Two."), ToolCall("toolu_1", "look", "{}"))
    assert both.usage == Usage(260, 10, 200, cache_written=40)
    again = written(both.turn, ToolTurn((ToolResult("toolu_1", "ok"),)))
    assert again["messages"][0]["content"] == [thinking("a"), text("One."), text("Two."), use()]
    assert again["container"] == "box"


def test_a_paused_turn_goes_back_unchanged_behind_the_conversation() -> None:
    paused = read_answer(plain(thinking("a"), stop="pause_turn", container={"id": "box"}))
    said = json.loads(Body().write("claude-opus-4-8", request(user("go")), VERSION, [paused]))

    assert said["messages"] == [
        {"role": "user", "content": [text("go")]},
        {"role": "assistant", "content": [thinking("a")]},
    ]
    assert said["container"] == "box"


# ---- properties -------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)
INPUTS = st.dictionaries(WORDS, JSON_VALUES, max_size=3)


@st.composite
def contents(draw: st.DrawFn) -> list[Any]:
    """What the API may answer with."""
    blocks: list[Any] = []
    for at in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "cited", "thinking", "redacted", "tool_use", "caller", "server"]))
        match kind:
            case "text":
                blocks.append(text(draw(WORDS)))
            case "cited":
                blocks.append({"type": "text", "text": draw(WORDS), "citations": [{"url": draw(WORDS)}]})
            case "thinking":
                blocks.append(thinking(draw(WORDS), draw(WORDS.filter(bool))))
            case "redacted":
                blocks.append({"type": "redacted_thinking", "data": draw(WORDS)})
            case "tool_use":
                blocks.append(
                    use(f"toolu_{at}", draw(st.sampled_from(["look", "files_read"]))) | {"input": draw(INPUTS)}
                )
            case "caller":
                blocks.append(use(f"toolu_{at}") | {"input": draw(INPUTS), "caller": {"type": "direct"}})
            case "server":
                call_id = f"srvtoolu_{at}"
                blocks.append({"type": "server_tool_use", "id": call_id, "name": "web_search", "input": draw(INPUTS)})
                blocks.append({"type": "web_search_tool_result", "tool_use_id": call_id, "content": []})
    return blocks


STOPS = st.sampled_from(["end_turn", "tool_use", "max_tokens", "pause_turn", "refusal"])


@given(contents(), STOPS, st.lists(st.integers(1, 60), max_size=30))
def test_a_stream_however_it_is_cut_is_the_plain_answer(content: list[Any], stop: str, sizes: list[int]) -> None:
    body = message(*content, stop=stop)
    stream = events(*told(body))
    pieces, at = [], 0
    for size in sizes:
        pieces.append(stream[at : at + size])
        at += size
    pieces.append(stream[at:])

    assert watch(*pieces) == watch(stream)
    assert watch(stream)[1] == read_plain(dumps(body))


@given(contents(), STOPS)
def test_what_the_api_said_goes_back_byte_for_byte(content: list[Any], stop: str) -> None:
    finished = read_plain(plain(*content, stop=stop))
    kept = [block for block in content if block["type"] != "text" or block["text"]]
    results = ToolTurn(tuple(ToolResult(call.id, "ok") for call in finished.turn.calls))
    body = write_request("claude-sonnet-4-5", request(finished.turn, results, user("on"), tools=(LOOK,)))

    assert (dumps(kept)[1:-1] in body) or finished.turn.native is None
    if kept:
        assert json.loads(body)["messages"][0]["content"] == kept
