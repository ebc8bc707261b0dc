"""Chat Completions as its client: answers, whole or in pieces, come to one turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.wire.exchanges import native_of, watched

from ronda.core.events import CallDelta, LogprobsDelta, ModelFinished, Preview, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.parts import NO_USAGE, NULL, AssistantTurn, Reasoning, Refusal, Text, ToolCall, Usage
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.errors import error_of
from ronda.wire.openai_chat.client_answer import Reader, read_choices, read_plain
from ronda.wire.openai_chat.client_request import write_turn


def plain(message: Any, finish: str | None = "stop", **members: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **members}).encode()


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunk(delta: Any = None, finish: str | None = None, **members: Any) -> bytes:
    return frame({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **members})


def frame(data: Any) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
TEXTS = st.text(max_size=20)


def read(*pieces: bytes) -> ModelFinished:
    return watch(*pieces)[1]


def watch(*pieces: bytes) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(), *pieces)


def said_again(finished: ModelFinished) -> Any:
    return json.loads(write_turn(finished.turn) or b"null")


# ---- a turn, whole and in pieces --------------------------------------------------------------------------------------


class Said(Struct):
    """What a model has to say, however a server may put it."""

    text: str
    reasoning: str
    reasoning_key: str
    refusal: str
    calls: list[tuple[str, str]]
    finish: str
    usage: Usage

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message[self.reasoning_key] = self.reasoning
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [call(f"c{n}", *one) for n, one in enumerate(self.calls)]
        return message

    def usage_json(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.usage.input,
            "completion_tokens": self.usage.output,
            "prompt_tokens_details": {"cached_tokens": self.usage.cached},
            "completion_tokens_details": {"reasoning_tokens": self.usage.reasoning},
        }


COUNTS = st.integers(0, 10_000)
OBJECTS = st.dictionaries(st.text(max_size=5), st.integers() | TEXTS | st.lists(st.none(), max_size=2), max_size=3)
SAID = st.builds(
    Said,
    text=TEXTS,
    reasoning=TEXTS,
    reasoning_key=st.sampled_from(["reasoning", "reasoning_content"]),
    refusal=st.just("") | TEXTS,
    calls=st.lists(st.tuples(st.sampled_from(["look", "ring"]), OBJECTS.map(json.dumps)), max_size=3),
    finish=st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS),
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[Said, bytes]:
    said = draw(SAID)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{said.reasoning_key: piece} for piece in cut(draw, said.reasoning)]
    deltas += [{"content": piece} for piece in cut(draw, said.text)]
    deltas += [{"refusal": piece} for piece in cut(draw, said.refusal)]
    for n, (name, arguments) in enumerate(said.calls):
        deltas.append({"tool_calls": [{"index": n, **call(f"c{n}", name, "")}]})
        for piece in cut(draw, arguments):
            deltas.append({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
    written = b"".join(chunk(delta) for delta in deltas)
    usage = {"usage": said.usage_json()}
    match draw(st.sampled_from(["with the finish", "alone", "alone, before the finish"])):
        case "with the finish":
            written += chunk({}, said.finish, **usage)
        case "alone":
            written += chunk({}, said.finish) + frame({"choices": [], **usage})
        case "alone, before the finish":
            written += frame({"choices": [], **usage}) + chunk({}, said.finish)
    written += draw(st.sampled_from([DONE, b"", b": bye\n\n", b"data: [DONE]"]))
    return said, draw(st.sampled_from([written, written.replace(b"\n", b"\r\n")]))


@given(streams(), st.data())
def test_a_stream_cut_anywhere_comes_to_the_turn_of_the_plain_answer(
    stream: tuple[Said, bytes], data: st.DataObject
) -> None:
    said, written = stream
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=8)))
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]

    whole = read_plain(plain(said.message(), said.finish, usage=said.usage_json()))
    previews, streamed = watch(*pieces)

    assert (streamed.turn.parts, streamed.turn.stop, streamed.usage) == (whole.turn.parts, whole.turn.stop, whole.usage)
    assert native_of(streamed) == native_of(whole)
    assert said_again(streamed) == said_again(whole)
    assert fold(previews) == whole.turn.parts


def fold(previews: list[Preview]) -> tuple[object, ...]:
    """The parts as somebody knows them who saw the previews alone."""
    words = {ReasoningDelta: "", TextDelta: "", RefusalDelta: ""}
    calls: dict[int, ToolCall] = {}
    for preview in previews:
        if isinstance(preview, CallDelta):
            before = calls[preview.index].arguments if preview.index in calls else ""
            calls[preview.index] = ToolCall(preview.id, preview.name, before + preview.arguments)
        elif isinstance(preview, ReasoningDelta | TextDelta | RefusalDelta):
            words[type(preview)] += preview.text
    made: list[Reasoning | Text | Refusal] = [
        Reasoning(words[ReasoningDelta]),
        Text(words[TextDelta]),
        Refusal(words[RefusalDelta]),
    ]
    return (*[part for part in made if part.text], *[calls[index] for index in sorted(calls)])


@given(streams(), st.data())
def test_a_stream_cut_short_is_broken_or_complete_and_never_half_a_turn(
    stream: tuple[Said, bytes], data: st.DataObject
) -> None:
    written = stream[1]
    complete = read(written).turn
    at = data.draw(st.integers(0, len(written)))

    try:
        turn = read(written[:at]).turn
    except UpstreamBroken:
        return
    assert turn == complete


# ---- how it ended -----------------------------------------------------------------------------------------------------


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


# ---- usage ------------------------------------------------------------------------------------------------------------

COUNTED = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
HI, END = chunk({"content": "Hi"}), chunk({}, "stop")


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


# ---- what else a message holds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_goes_back_under_the_name_it_came_with(key: str) -> None:
    message = {"role": "assistant", "content": "4", key: "2 and 2"}

    whole = read_plain(plain(message))
    streamed = read(chunk({key: "2 "}), chunk({key: "and 2"}), chunk({"content": "4"}), END)

    assert whole.turn.parts == streamed.turn.parts == (Reasoning("2 and 2"), Text("4"))
    assert json.loads(write_turn(whole.turn)) == json.loads(write_turn(streamed.turn)) == message


def test_reasoning_under_both_names_is_thought_once() -> None:
    both = {"reasoning": "Hm", "reasoning_content": "Hm"}

    assert read_plain(plain({"content": "4", **both})).turn.reasoning == "Hm"
    assert watch(chunk(both), chunk({"content": "4"}), END)[0] == [ReasoningDelta("Hm"), TextDelta("4")]


def test_reasoning_details_go_back_as_they_came() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x1", "index": 0}, {"type": "reasoning.text", "text": "Hm"}]

    streamed = read(
        chunk({"reasoning_details": details[:1]}), chunk({"content": "4", "reasoning_details": details[1:]}), END
    )

    assert json.loads(write_turn(streamed.turn)) == {"role": "assistant", "content": "4", "reasoning_details": details}


def test_a_content_list_holds_thinking_and_text() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "2 and 2"}]}
    message = {"role": "assistant", "content": [thinking, {"type": "text", "text": "4"}]}

    whole = read_plain(plain(message))
    streamed = read(chunk({"content": [thinking]}), chunk({"content": [{"type": "text", "text": "4"}]}), END)

    assert whole.turn.parts == streamed.turn.parts == (Reasoning("2 and 2"), Text("4"))
    # In the list it came in: the server that does this refuses a message with "reasoning_content".
    assert json.loads(write_turn(whole.turn)) == json.loads(write_turn(streamed.turn)) == message


def test_a_content_list_may_hold_what_we_do_not_know() -> None:
    content = [{"type": "text", "text": "see "}, {"type": "reference", "reference_ids": [1]}, {"text": "this"}]

    assert read_plain(plain({"content": content})).turn.text == "see this"
    assert read(chunk({"content": content}), END).turn.text == "see this"


def test_a_signature_on_a_call_goes_back_with_the_call() -> None:
    signed = {**call("c", "look", "{}"), "extra_content": {"google": {"thought_signature": "x1"}}}

    whole = read_plain(plain({"role": "assistant", "content": None, "tool_calls": [signed]}, "tool_calls"))
    streamed = read(chunk({"tool_calls": [{"index": 0, **signed}]}), chunk({}, "tool_calls"))

    assert json.loads(write_turn(whole.turn))["tool_calls"] == [signed]
    assert json.loads(write_turn(streamed.turn))["tool_calls"] == [signed]


def test_what_our_own_writer_says_the_same_way_is_not_kept_twice() -> None:
    message: Any = {"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "tool_calls": []}

    assert read_plain(plain(message)).turn == AssistantTurn((Text("Hi"),))


def test_token_probabilities_are_shown_and_joined() -> None:
    first, second = {"content": [{"token": "H"}], "refusal": None}, {"content": [{"token": "i"}], "refusal": None}
    pieces = [
        frame({"choices": [{"delta": {"content": text}, "logprobs": logprobs}]})
        for text, logprobs in [("H", first), ("i", second)]
    ]

    previews, finished = watch(*pieces, END)

    assert [json.loads(bytes(shown.logprobs)) for shown in previews if isinstance(shown, LogprobsDelta)] == [
        first,
        second,
    ]
    assert json.loads(bytes(finished.logprobs)) == {"content": [{"token": "H"}, {"token": "i"}], "refusal": None}


@pytest.mark.parametrize("odd", [{"top": 1}, [1], "x"])
def test_token_probabilities_of_no_known_shape_cost_no_answer(odd: Any) -> None:
    piece = frame({"choices": [{"delta": {"content": "Hi"}, "logprobs": odd, "finish_reason": "stop"}]})

    assert read(piece) == ModelFinished(AssistantTurn((Text("Hi"),)), logprobs=NULL)


def test_choices_are_read_by_their_index_and_the_usage_is_on_the_first() -> None:
    body = json.dumps(
        {
            "choices": [
                {"index": 1, "message": {"content": "two"}, "finish_reason": "length"},
                {"index": 0, "message": {"content": "one"}, "finish_reason": "stop"},
            ],
            "usage": COUNTED,
        }
    ).encode()
    one = ModelFinished(AssistantTurn((Text("one"),)), Usage(7, 5, 3, 2))
    two = ModelFinished(AssistantTurn((Text("two"),), "length"))
    reader = Reader(choices=2)

    shown = reader.feed(frame({"choices": [{"index": 1, "delta": {"content": "two"}, "finish_reason": "length"}]}))
    aside = reader.take_aside()
    shown += reader.feed(frame({"choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": "stop"}]}))
    reader.feed(frame({"choices": [], "usage": COUNTED}))

    assert read_choices(body) == [one, two]
    assert reader.finish_all() == [one, two]
    assert (shown, aside, reader.take_aside()) == ([TextDelta("one")], [[TextDelta("two")]], [[]])


def test_a_choice_the_upstream_never_sent_is_not_made_up() -> None:
    reader = Reader(choices=2)
    reader.feed(chunk({"content": "one"}, "stop") + DONE)

    assert reader.finish_all() == [ModelFinished(AssistantTurn((Text("one"),)))]


# ---- errors -----------------------------------------------------------------------------------------------------------


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
