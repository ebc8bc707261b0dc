"""The Responses API as its client: answers, whole or in pieces, come to one turn."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.cuts import fold
from tests.wire.exchanges import native_of, watched
from tests.wire.responses_items import Json, call, message, outputs, plain, reasoning, response, said_again

from ronda.core.events import CallDelta, LogprobsDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import NULL, AssistantTurn, Native, Reasoning, Stop, Text, ToolCall, ToolResult, ToolTurn, Usage
from ronda.core.plan import ToolSpec
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.openai_chat.names import own_names
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.upstream.errors import error_of


def frame(event: Json) -> bytes:
    return f"event: {event.get('type')}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def events(*output: Json, cut: Callable[[str], list[str]] = lambda text: [text]) -> list[Json]:
    """A stream as OpenAI has it, but for the numbers that are not read."""
    said: list[Json] = [{"type": "response.created", "response": response(status="in_progress")}]
    for at, item in enumerate(output):
        where = {"output_index": at, "item_id": item["id"]}
        begun = {**item, "status": "in_progress", "content": [], "summary": [], "arguments": "", "input": ""}
        if "encrypted_content" in item:
            begun["encrypted_content"] = "not whole yet"
        said.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        match item["type"]:
            case "message":
                for index, part in enumerate(item["content"]):
                    kind = "refusal" if part["type"] == "refusal" else "output_text"
                    event = {"type": f"response.{kind}.delta", "content_index": index, **where}
                    pieces = cut(part.get("text") or part.get("refusal") or "")
                    said += [{**event, "delta": piece} for piece in pieces]
            case "reasoning":
                for index, part in enumerate(item["summary"]):
                    event = {"type": "response.reasoning_summary_text.delta", "summary_index": index, **where}
                    said += [{**event, "delta": piece} for piece in cut(part["text"])]
            case "function_call":
                event = {"type": "response.function_call_arguments.delta", **where}
                said += [{**event, "delta": piece} for piece in cut(item["arguments"])]
                said.append({"type": "response.function_call_arguments.done", "arguments": item["arguments"], **where})
        said.append({"type": "response.output_item.done", "output_index": at, "item": item})
    return said


def completed(*output: Json, **members: Json) -> Json:
    status = members.get("status", "completed")
    return {"type": f"response.{status}", "response": response(*output, **members)}


def watch(*said: Json) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(), *map(frame, said))


def told(turn: AssistantTurn) -> tuple[object, ...]:
    calls = [(call.id, call.name, call.arguments) for call in turn.calls]
    return turn.text, turn.reasoning, turn.refusal, calls


# ---- a turn, whole and in pieces --------------------------------------------------------------------------------------


@given(st.data())
def test_a_stream_cut_anywhere_comes_to_the_turn_of_the_plain_answer(data: st.DataObject) -> None:
    output = data.draw(outputs())
    size = data.draw(st.integers(1, 5))
    said = events(*output, cut=lambda text: [text[at : at + size] for at in range(0, len(text), size)])
    stream = b"".join(map(frame, [*said, completed(*output)]))
    reader = Reader()
    previews: list[Preview] = []
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    for start, end in zip([0, *places], [*places, len(stream)], strict=True):
        previews += reader.feed(stream[start:end])
    finished = reader.finish()

    whole = read_plain(plain(*output))
    assert finished.turn.parts == whole.turn.parts
    assert (finished.turn.stop, finished.usage) == (whole.turn.stop, whole.usage)
    assert native_of(finished) == native_of(whole) == (output or None)
    assert fold(previews) == told(finished.turn)


@given(outputs(), st.integers(0, 3000))
def test_a_stream_cut_short_is_broken_or_complete_and_never_half_a_turn(output: list[Json], at: int) -> None:
    stream = b"".join(map(frame, [*events(*output), completed(*output)]))
    reader = Reader()
    reader.feed(stream[:at])
    reader.close()
    if at < len(stream) - 2:  # the two line ends behind the last event are not missed: its JSON is whole
        with pytest.raises(UpstreamBroken, match=r"ended before it was complete|cannot be read"):
            reader.finish()
    else:
        assert native_of(reader.finish()) == (output or None)


@given(outputs())
def test_what_came_without_deltas_is_shown_all_the_same(output: list[Json]) -> None:
    said = [event for event in events(*output) if not event["type"].endswith(".delta")]
    for some in (said, []):
        previews, finished = watch(*some, completed(*output))
        assert fold(previews) == told(finished.turn)


@given(outputs())
def test_items_that_were_done_are_the_output_where_the_last_event_has_none(output: list[Json]) -> None:
    finished = watch(*events(*output), completed())[1]
    assert finished.turn.parts == watch(*events(*output), completed(*output))[1].turn.parts
    assert native_of(finished) == (output or None)


def test_items_are_told_apart_by_id_where_a_server_gives_no_index() -> None:
    output = [message("hi"), call('{"a":1}', n=1), call("{}", id="call_2", n=2)]
    said = [{name: value for name, value in event.items() if name != "output_index"} for event in events(*output)]
    previews, finished = watch(*said, completed())
    assert native_of(finished) == output
    assert fold(previews) == ("hi", "", "", [("call_1", "search", '{"a":1}'), ("call_2", "search", "{}")])


def test_what_was_only_added_is_never_kept() -> None:
    output = [reasoning("hm"), message("hi")]
    assert "not whole yet" in str(events(*output))
    assert native_of(watch(*events(*output), completed())[1]) == output


def test_parts_of_an_answer() -> None:
    hosted = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    output = [reasoning("**A**", "**B**"), hosted, reasoning("C", n=1), message("Hello"), call('{"q":1}', "f")]
    finished = read_plain(plain(*output))
    assert finished == ModelFinished(
        AssistantTurn(
            (Reasoning("**A**\n\n**B**"), Reasoning("\n\nC"), Text("Hello"), ToolCall("call_1", "f", '{"q":1}')),
            "tool_calls",
            Native(API, Raw(json.dumps(output).encode())),
        ),
        Usage(7, 5, 2, 3),
    )


def test_thoughts_that_are_shown_count_more_than_their_summary() -> None:
    item = reasoning("short", content=[{"type": "reasoning_text", "text": "long"}])
    where = {"output_index": 0, "item_id": "rs_0"}
    previews, finished = watch(
        {"type": "response.output_item.added", "output_index": 0, "item": reasoning()},
        {"type": "response.reasoning_text.delta", "content_index": 0, "delta": "long", **where},
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "short", **where},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        completed(item),
    )
    assert previews == [ReasoningDelta("long")]
    assert finished.turn.parts == (Reasoning("long"),)


def test_a_call_is_shown_while_it_grows_under_the_id_that_its_result_will_name() -> None:
    output = [message("hi"), call('{"a":1}', n=1)]
    previews, _ = watch(*events(*output, cut=list), completed(*output))
    assert [preview for preview in previews if isinstance(preview, CallDelta)] == [
        CallDelta(0, "call_1", "search", more) for more in ["", *'{"a":1}']
    ]


def test_a_custom_tool_is_called_with_its_input_and_answered_in_its_own_way() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "sql", "input": "select 1"}
    turn = read_plain(plain(item)).turn
    assert turn.calls == (ToolCall("call_9", "sql", "select 1"),)
    assert said_again(turn, ToolTurn((ToolResult("call_9", "1"),))) == [
        item,
        {"type": "custom_tool_call_output", "call_id": "call_9", "output": "1"},
    ]


def test_a_tool_goes_by_its_own_name_whatever_it_is_called_there() -> None:
    tools = (ToolSpec("mcp.search"), ToolSpec("mcp_search"))
    names = own_names(tools)
    (wire,) = names
    assert wire not in ("mcp.search", "mcp_search")
    output = [call(name=wire), call(name="mcp_search", id="call_2", n=1)]
    assert [call.name for call in read_plain(plain(*output), names).turn.calls] == ["mcp.search", "mcp_search"]
    reader = Reader(names)
    previews = reader.feed(b"".join(map(frame, [*events(*output), completed(*output)])))
    assert {preview.name for preview in previews if isinstance(preview, CallDelta)} == {"mcp.search", "mcp_search"}
    assert [call.name for call in reader.finish().turn.calls] == ["mcp.search", "mcp_search"]


def test_token_probabilities_are_shown_and_kept() -> None:
    one = {"token": "hi", "logprob": -0.1, "top_logprobs": []}
    item = message("", content=[{"type": "output_text", "text": "hi", "annotations": [], "logprobs": [one]}])
    event = {"type": "response.output_text.delta", "output_index": 0, "delta": "hi", "logprobs": [one]}
    previews, finished = watch(event, completed(item))
    text, shown = previews
    assert text == TextDelta("hi")
    assert isinstance(shown, LogprobsDelta)
    assert json.loads(bytes(shown.logprobs)) == {"content": [one]}
    assert json.loads(bytes(finished.logprobs)) == {"content": [one]}
    assert read_plain(plain(message("hi"))).logprobs == NULL


# ---- how it ended -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("max_tool_calls", "length"),
        (None, "length"),
    ],
)
def test_an_incomplete_answer_says_why(reason: str | None, stop: Stop) -> None:
    output = [message("Hel", status="incomplete"), call('{"a', n=1)]
    members = {"status": "incomplete", "incomplete_details": {"reason": reason} if reason else None}
    assert read_plain(plain(*output, **members)).turn.stop == stop
    assert watch(*events(*output), completed(*output, **members))[1].turn.stop == stop


@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [
        ("rate_limit_exceeded", 429, True),
        ("server_error", 500, True),
        ("vector_store_timeout", 504, True),
        ("insufficient_quota", 429, False),
        ("invalid_prompt", 400, False),
        ("image_too_large", 400, False),
        ("bio_policy", 400, False),
        ("context_length_exceeded", 400, False),
        ("something_new", None, True),
        (503, 503, True),
        (None, None, True),
    ],
)
def test_a_failed_answer_is_raised_with_its_status(code: Json, status: int | None, retryable: bool) -> None:
    error = {"code": code, "message": "it broke"}
    said: list[Callable[[], object]] = [
        lambda: read_plain(plain(status="failed", error=error)),
        lambda: watch(completed(status="failed", error=error)),
        lambda: watch({"type": "error", "sequence_number": 3, "param": None, **error}),
        lambda: watch({"type": "error", "error": error}),
    ]
    for raises in said:
        with pytest.raises(UpstreamError, match="it broke") as caught:
            raises()
        assert (caught.value.status, caught.value.retryable) == (status, retryable)


def test_what_was_said_before_an_error_is_shown_however_the_bytes_were_cut() -> None:
    stream = b"".join(map(frame, [*events(message("Hello"))[:3], {"type": "error", "message": "gone"}]))
    for pieces in ([stream], [stream[at : at + 1] for at in range(len(stream))]):
        reader = Reader()
        assert [preview for piece in pieces for preview in reader.feed(piece)] == [TextDelta("Hello")]
        assert reader.broken
        with pytest.raises(UpstreamError, match="gone"):
            reader.finish()


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_answer_that_is_still_being_made_is_no_answer(status: str) -> None:
    with pytest.raises(UpstreamBroken, match=status) as caught:
        read_plain(plain(status=status))
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"object":"response"}',
        b'{"output":3}',
        b'{"output":[3]}',
        b'{"output":[{"type":"message","content":3}]}',
    ],
)
def test_a_plain_answer_that_is_no_answer_is_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken) as caught:
        read_plain(body)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "data", [b"{", b"\xff", b'{"type":3}', b'{"type":"response.completed"}', b'{"type":"response.output_item.done"}']
)
def test_a_stream_that_cannot_be_read_is_broken(data: bytes) -> None:
    reader = Reader()
    reader.feed(b"data: " + data + b"\n\n")
    with pytest.raises(UpstreamBroken):
        reader.finish()


def test_an_error_envelope_in_place_of_an_answer_is_raised() -> None:
    with pytest.raises(UpstreamError, match="no such model"):
        read_plain(b'{"error":{"message":"no such model","code":404}}')
    error = error_of(b'{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}', 429, 3.0)
    assert (str(error), error.retryable, error.retry_after) == ("the model's server answered 429: slow down", True, 3.0)


def test_comments_marks_and_events_nobody_knows_are_passed_over() -> None:
    reader = Reader()
    reader.feed(
        b": OPENROUTER PROCESSING\n\ndata: [DONE]\n\n" + frame({"type": "response.new.thing", "delta": {"a": 1}})
    )
    reader.feed(frame(completed(message("hi"))) + b"data: [DONE]\n\n" + frame({"type": "error", "message": "late"}))
    assert reader.finish().turn.text == "hi"
