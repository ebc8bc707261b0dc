"""generateContent as its client: answers, whole or in pieces, come to one turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.exchanges import native_of, watched
from tests.wire.gemini_chunks import MODEL, call, chunk, contents, plain, signed

from ronda.core.events import CallDelta, ModelFinished, Preview, ReasoningDelta, RunStarted, TextDelta
from ronda.core.parts import AssistantTurn, Reasoning, Text, ToolCall, Usage, user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run
from ronda.core.transcript import settle
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.gemini.client_answer import Naming, Reader, read_plain
from ronda.wire.gemini.errors import error_of


def events(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\r\n\r\n" for one in chunks)


def array(*chunks: Any) -> bytes:
    return ("[" + "\n,\r\n".join(json.dumps(one, indent=2, ensure_ascii=False) for one in chunks) + "\n]").encode()


def watch(*pieces: bytes) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(Naming(MODEL, run="run", round=2)), *pieces)


def test_an_answer_has_text_thoughts_and_calls_in_the_order_they_came() -> None:
    finished = plain(
        {"text": "Hm. ", "thought": True},
        {"text": "Let me look."},
        signed(call("look", {"at": "sky"})),
        call("ring", id="r1"),
        usageMetadata={
            "promptTokenCount": 10,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 7,
            "cachedContentTokenCount": 4,
            "toolUsePromptTokenCount": 2,
        },
    )

    assert finished.turn.parts == (
        Reasoning("Hm. "),
        Text("Let me look."),
        ToolCall("gemini_run_2_0", "look", '{"at":"sky"}'),
        ToolCall("r1", "ring", "{}"),
    )
    assert finished.turn.stop == "tool_calls"
    assert finished.usage == Usage(12, 12, 4, 7)


PARTS = st.one_of(
    st.text(max_size=12).map(lambda text: {"text": text}),
    st.text(max_size=12).map(lambda text: signed({"text": text})),
    st.text(max_size=12).map(lambda text: {"text": text, "thought": True}),
    st.sampled_from([call("look", {"a": '"}{\\'}), signed(call("ring")), call("look", id="x1")]),
    st.just({"executableCode": {"language": "PYTHON", "code": 'print("}")'}}),
)


@given(st.lists(PARTS, max_size=6), st.booleans(), st.data())
def test_a_stream_cut_anywhere_comes_to_the_turn_of_the_plain_answer(parts: list[Any], sse: bool, data: Any) -> None:
    chunks = [chunk(part) for part in parts] + [chunk(finish="STOP", usageMetadata={"promptTokenCount": 3})]
    stream = (events if sse else array)(*chunks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    previews, finished = watch(*pieces)

    assert finished == plain(*parts, usageMetadata={"promptTokenCount": 3})
    assert finished == read_plain(array(*chunks), Naming(MODEL, run="run", round=2))
    assert "".join(p.text for p in previews if type(p) is TextDelta) == finished.turn.text
    assert "".join(p.text for p in previews if type(p) is ReasoningDelta) == finished.turn.reasoning
    shown = [(p.id, p.name, p.arguments) for p in previews if type(p) is CallDelta]
    assert shown == [(c.id, c.name, c.arguments) for c in finished.turn.calls]


@given(st.lists(PARTS, max_size=4), st.booleans(), st.data())
def test_a_stream_cut_short_is_broken_or_complete(parts: list[Any], sse: bool, data: Any) -> None:
    chunks = [chunk(part) for part in parts] + [chunk({"text": "end"}, finish="STOP")]
    stream = (events if sse else array)(*chunks)
    whole = watch(stream)[1]

    try:
        finished = watch(stream[: data.draw(st.integers(0, len(stream)))])[1]
    except UpstreamBroken:
        return
    assert finished == whole


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "stop"),
        (1, "stop"),
        ("MAX_TOKENS", "length"),
        (2, "length"),
        *[(name, "content_filter") for name in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")],
        ("MODEL_ARMOR", "content_filter"),
        ("OTHER", "stop"),
        ("SOMETHING_NEW", "stop"),
        (None, "stop"),
    ],
)
def test_a_finish_reason_with_text(finish: str | int | None, stop: str) -> None:
    assert plain({"text": "Well"}, finish=finish).turn.stop == stop


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("UNEXPECTED_TOOL_CALL", "tool_calls"),
        ("SAFETY", "content_filter"),
    ],
)
def test_a_finish_reason_with_a_call(finish: str, stop: str) -> None:
    assert plain(call("look"), finish=finish).turn.stop == stop


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "OTHER", "UNEXPECTED_TOOL_CALL"])
def test_a_model_that_went_wrong_and_said_nothing_may_be_asked_again(finish: str) -> None:
    answer = {"candidates": [{"finishReason": finish, "finishMessage": "Malformed function call: print(x)"}]}

    with pytest.raises(UpstreamBroken, match="Malformed function call") as caught:
        read_plain(json.dumps(answer).encode())
    assert caught.value.retryable


def test_a_malformed_call_is_not_an_answer_whatever_was_said_before_it() -> None:
    with pytest.raises(UpstreamBroken):
        plain({"text": "Let me look."}, finish="MALFORMED_FUNCTION_CALL")


def test_a_missing_signature_is_our_fault_and_trying_again_does_not_help() -> None:
    with pytest.raises(UpstreamError) as caught:
        plain(finish="MISSING_THOUGHT_SIGNATURE")
    assert (caught.value.status, caught.value.retryable) == (400, False)


@pytest.mark.parametrize("sse", [False, True])
def test_a_blocked_prompt_is_a_filtered_answer(sse: bool) -> None:
    answer = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 8}}
    finished = watch(events(answer))[1] if sse else read_plain(json.dumps(answer).encode())

    assert finished == ModelFinished(AssistantTurn((), "content_filter"), Usage(8))


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'"no"', b'{"candidates":[]}', b"[]", b"\xff", b'{"candidates":3}'])
def test_an_answer_that_is_no_answer_is_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        read_plain(body)
    with pytest.raises(UpstreamBroken):
        watch(body)
    with pytest.raises(UpstreamBroken):
        watch(b"data: " + body + b"\r\n\r\n")


def test_an_error_in_a_stream_is_raised_with_its_status_after_what_came_before_it() -> None:
    reader = Reader()
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}

    assert reader.feed(events(chunk({"text": "We"}), error)) == [TextDelta("We")]
    assert reader.broken
    with pytest.raises(UpstreamError, match="overloaded") as caught:
        reader.finish()
    assert (caught.value.status, caught.value.retryable) == (503, True)


@pytest.mark.parametrize("in_a_list", [False, True])
def test_an_error_says_how_long_to_wait(in_a_list: bool) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.Help"}, {"retryDelay": "34.5s"}]
    said = {"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    error = error_of(json.dumps([said] if in_a_list else said).encode(), 429)

    assert (str(error), error.status, error.retryable, error.retry_after) == (
        "the model's server answered 429: Quota",
        429,
        True,
        34.5,
    )
    assert error_of(b"<html>Bad gateway", 502).retryable


def test_token_probabilities_are_read_in_the_form_of_chat_completions() -> None:
    answer = chunk({"text": "Hi"}, finish="STOP")
    answer["candidates"][0]["logprobsResult"] = {
        "chosenCandidates": [{"token": "Hi", "tokenId": 3, "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": "Ho", "logProbability": -1.5}]}],
    }

    top = {"token": "Ho", "logprob": -1.5, "bytes": [72, 111]}
    assert json.loads(bytes(read_plain(json.dumps(answer).encode()).logprobs)) == {
        "content": [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": [top]}]
    }


# ---- what is kept ---------------------------------------------------------------------------------------------------------


def test_one_text_is_not_kept_twice() -> None:
    assert plain({"text": "Hi"}).turn.native is None
    assert watch(events(chunk({"text": "H"}), chunk({"text": "i"}), chunk({"text": ""}, finish="STOP")))[1].turn == (
        AssistantTurn((Text("Hi"),))
    )


def test_texts_are_joined_only_where_no_signature_would_move() -> None:
    last = signed({"text": ""})
    parts = (
        {"text": "a"},
        {"text": "b"},
        {"text": "t", "thought": True},
        {"text": "c"},
        {"text": ""},
        {"text": "d"},
        last,
    )
    finished = watch(events(*[chunk(part) for part in parts], chunk(finish="STOP")))[1]

    assert native_of(finished) == [{"text": "ab"}, {"text": "t", "thought": True}, {"text": "cd"}, last]
    assert finished.turn.text == "abcd"


def test_calls_without_ids_keep_the_upstreams_own_json_through_the_loop() -> None:
    finished = plain(signed(call("look", {"at": "sky"})), call("look", {"at": "sea"}))
    run = Run(RunStarted("run", Plan("m", (ToolSpec("look"),)), ()))
    run.round = 3

    assert settle(finished, run) == (finished, [])
    assert [call.id for call in finished.turn.calls] == ["gemini_run_2_0", "gemini_run_2_1"]


def test_what_we_have_no_word_for_goes_back_all_the_same() -> None:
    code = signed({"executableCode": {"language": "PYTHON", "code": "1"}})
    outcome = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    turn = plain(code, outcome, {"text": "One."}).turn

    assert turn.parts == (Text("One."),)
    assert contents(user("?"), turn)[1]["parts"] == [code, outcome, {"text": "One."}]
