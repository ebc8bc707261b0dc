"""Chat Completions as its client: answers, whole or in pieces, come to one turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.wire.chat_answers import COUNTED, DONE, END, call, chunk, frame, plain, read, watch
from tests.wire.exchanges import native_of

from ronda.core.events import CallDelta, LogprobsDelta, ModelFinished, Preview, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.parts import NULL, AssistantTurn, Reasoning, Refusal, Text, ToolCall, Usage
from ronda.errors import UpstreamBroken
from ronda.wire.openai_chat.client_answer import Reader, read_choices, read_plain
from ronda.wire.openai_chat.client_request import write_turn

TEXTS = st.text(max_size=20)


def said_again(finished: ModelFinished) -> Any:
    return json.loads(write_turn(finished.turn) or b"null")


# ---- a turn, whole and in pieces -----------------------------------------------------------------------------------


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
    """The parts as a client knows them that saw only the previews."""
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


# ---- what else a message holds -------------------------------------------------------------------------------------


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
