"""How an answer of Chat Completions ended, what it used, and errors in it."""

import json
from typing import Any

import pytest
from tests.wire.chat_answers import COUNTED, DONE, END, HI, call, chunk, frame, plain, read

from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import NO_USAGE, AssistantTurn, Text, ToolCall, Usage
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.openai_chat.client_answer import Reader, read_plain
from ronda.wire.upstream.errors import error_of

# ---- how it ended --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "stop"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "stop"),
        ("eos", "stop"),
        (None, "stop"),
    ],
)
def test_a_finish_reason_without_calls(said: str | None, stop: str) -> None:
    assert read_plain(plain({"content": "Hi"}, said)).turn.stop == stop


@pytest.mark.parametrize(
    ("said", "stop"),
    [("tool_calls", "tool_calls"), ("function_call", "tool_calls"), ("stop", "tool_calls"), ("length", "length")],
)
def test_a_finish_reason_with_calls(said: str, stop: str) -> None:
    message = {"tool_calls": [call("c", "look", "{}")]}

    assert read_plain(plain(message, said)).turn.stop == stop
    assert read(chunk(message), chunk({}, said)).turn.stop == stop


def test_a_turn_cut_by_length_keeps_its_half_call_and_says_so() -> None:
    turn = read(chunk({"tool_calls": [call("c", "look", '{"at":"s')]}), chunk({}, "length"), DONE).turn

    assert turn == AssistantTurn((ToolCall("c", "look", '{"at":"s'),), "length")


def test_done_without_a_finish_reason_is_an_end() -> None:
    assert read(chunk({"content": "Hi"}), DONE).turn == AssistantTurn((Text("Hi"),))
    assert read(chunk({"tool_calls": [call("c", "look", "{}")]}), DONE).turn.stop == "tool_calls"


def test_a_finish_reason_without_done_is_an_end() -> None:
    assert read(chunk({"content": "Hi"}), chunk({}, "stop")).turn.text == "Hi"


@pytest.mark.parametrize("pieces", [[], [b""], [chunk({"content": "H"})], [b": hello\n\n"], [b"data: \n\n"]])
def test_a_stream_that_neither_finishes_nor_is_done_is_broken(pieces: list[bytes]) -> None:
    with pytest.raises(UpstreamBroken, match="ended before it was complete") as broken:
        read(*pieces)

    assert (broken.value.retryable, broken.value.connection) == (True, True)


def test_a_blank_finish_reason_is_none() -> None:
    with pytest.raises(UpstreamBroken):
        read(chunk({"content": "H"}, ""))
    assert read(chunk({"content": "H"}, ""), chunk({"content": "i"}, "length"), chunk({}, "")).turn == AssistantTurn(
        (Text("Hi"),), "length"
    )


def test_a_last_frame_without_its_blank_line_counts() -> None:
    assert read(chunk({"content": "Hi"}), chunk({}, "stop").rstrip()).turn.text == "Hi"


def test_a_model_that_stopped_with_an_error_is_broken() -> None:
    with pytest.raises(UpstreamBroken, match="stopped with an error"):
        read(chunk({"content": "H"}), chunk({}, "error"))


def test_a_filtered_answer_may_lack_its_message() -> None:
    body = b'{"choices":[{"finish_reason":"content_filter"}]}'

    assert read_plain(body).turn == AssistantTurn((), "content_filter")


# ---- usage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        [HI, END, frame({"choices": [], "usage": COUNTED}), DONE],
        [HI, frame({"usage": COUNTED}), END, DONE],
        [HI, chunk({}, "stop", usage=COUNTED), DONE],
        [
            chunk({"content": "Hi"}, usage={"prompt_tokens": 7, "completion_tokens": 1}),
            chunk({}, "stop", usage=COUNTED),
        ],
        [HI, chunk({}, "stop", x_groq={"id": "r", "usage": COUNTED}), DONE],
        [chunk({"content": "Hi"}, usage=None), chunk({}, "stop", usage=COUNTED), frame({"choices": [], "usage": None})],
        [HI, END, DONE, frame({"choices": [], "usage": COUNTED})],
    ],
    ids=["own chunk", "before the end", "with the end", "growing", "x_groq", "null elsewhere", "after done"],
)
def test_usage_is_read_on_whichever_chunk_it_comes(pieces: list[bytes]) -> None:
    assert read(*pieces) == ModelFinished(AssistantTurn((Text("Hi"),)), Usage(7, 5, 3, 2))


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        (COUNTED, Usage(7, 5, 3, 2)),
        ({"prompt_tokens": 7, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, Usage(7, 5, 4)),
        ({"prompt_tokens": 7, "completion_tokens": None, "prompt_tokens_details": None}, Usage(7)),
        (None, NO_USAGE),
    ],
)
def test_usage_of_a_plain_answer(said: Any, usage: Usage) -> None:
    assert read_plain(plain({"content": "Hi"}, usage=said)).usage == usage


def test_usage_of_a_plain_answer_may_be_in_x_groq() -> None:
    assert read_plain(plain({"content": "Hi"}, x_groq={"usage": COUNTED})).usage == Usage(7, 5, 3, 2)


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"no such model","type":"x","param":null,"code":"model_not_found"}}', "no such model"),
        (b'{"error":{"message":"quota","code":429,"status":"RESOURCE_EXHAUSTED"}}', "quota"),
        (b'{"error":"out of memory"}', "out of memory"),
        (b'{"object":"error","message":"too long","code":40303}', "too long"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"loc":["body"],"msg":"field required"}]}', "field required"),
        (b'[{"error":{"message":"bad key"}}]', "bad key"),
        (b'{"error":{"message":{"en":"odd"}}}', "odd"),
        (b"<html>Bad Gateway</html>", "Bad Gateway"),
        (b'{"error":{"message":"\xff caf\xc3\xa9"}}', "café"),
        (b"\xff\xfe", "answered 502"),
        (b"", "no reason given"),
        (b"[" * 100_000, "answered 502"),
    ],
)
def test_an_error_carries_the_words_of_the_upstream(body: bytes, words: str) -> None:
    error = error_of(body, 502, 3.0)

    assert words in str(error)
    assert (error.status, error.retryable, error.retry_after) == (502, True, 3.0)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *[(status, False) for status in (400, 401, 403, 404, 422)],
        *[(status, True) for status in (408, 409, 429, 500, 503, 522, 529)],
    ],
)
def test_trying_again_helps_with_a_busy_or_broken_server_alone(status: int, retryable: bool) -> None:
    assert error_of(b'{"error":{"message":"no"}}', status).retryable is retryable


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        ({"message": "overloaded", "type": "server_error"}, None, True),
        ({"message": "overloaded", "code": 503}, 503, True),
        ({"message": "overloaded", "code": "tool_use_failed", "status_code": 400}, 400, False),
        ({"message": "overloaded", "code": "content_filter", "status": 400}, 400, False),
        ({"message": "overloaded", "code": 429, "status": "RESOURCE_EXHAUSTED"}, 429, True),
        ("overloaded", None, True),
    ],
)
def test_an_error_inside_an_answer_is_raised_with_its_true_status(
    error: Any, status: int | None, retryable: bool
) -> None:
    for raised in (_error_in_plain(error), _error_in_stream(error)):
        assert "overloaded" in str(raised)
        assert (raised.status, raised.retryable) == (status, retryable)


def _error_in_plain(error: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as raised:
        read_plain(json.dumps({"error": error}).encode())
    return raised.value


def _error_in_stream(error: Any) -> UpstreamError:
    reader = Reader()
    # What was said before the error was said, whether or not it came in the same read; what follows it was not.
    assert reader.feed(chunk({"content": "H"}) + b"event: error\n" + frame({"error": error})) == [TextDelta("H")]
    assert reader.broken
    assert reader.feed(chunk({"content": "i"}, "stop") + DONE) == []
    with pytest.raises(UpstreamError) as raised:
        reader.finish()
    return raised.value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices":[]}',
        b'{"choices":[{"finish_reason":"stop"}]}',
        b'{"choices":[{"message":{"content":{}}}]}',
        b'{"choices":[{"message":{"content":"\xff"}}]}',
        b'{"choices":[{"message":{"content":"x","y":' + b"[" * 100_000,
    ],
)
def test_a_plain_answer_that_is_no_answer_is_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken) as broken:
        read_plain(body)

    assert broken.value.retryable


@pytest.mark.parametrize(
    "frame", [b"data: {\n\n", b"data: []\n\n", b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n']
)
def test_a_stream_that_cannot_be_read_is_broken(frame: bytes) -> None:
    with pytest.raises(UpstreamBroken, match="cannot be read") as broken:
        read(chunk({"content": "H"}), frame)

    assert broken.value.retryable
