"""The Responses API as its client: answers whole or in pieces come to one turn, and requests say what the turns say."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.openai_chat_streams import fold
from tests.wire.exchanges import native_of, watched
from tests.wire.exchanges import request as request_of

from ronda.core.events import (
    CallDelta,
    LogprobsDelta,
    ModelFinished,
    Preview,
    ReasoningDelta,
    TextDelta,
)
from ronda.core.parts import (
    NULL,
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Refusal,
    Stop,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    Video,
    user,
)
from ronda.core.plan import AUTO, NONE, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest, UpstreamBroken, UpstreamError
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client import Body, Items, Reader, error_of, own_names, read_plain, write_request

Json = Any

# ---- helpers ----------------------------------------------------------------------------------------------------------


def reasoning(*summary: str, n: int = 0, **members: Json) -> Json:
    said = [{"type": "summary_text", "text": text} for text in summary]
    return {"id": f"rs_{n}", "type": "reasoning", "summary": said, "encrypted_content": f"gAAA{n}=", **members}


def message(text: str, n: int = 0, **members: Json) -> Json:
    content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
    return {
        "id": f"msg_{n}",
        "type": "message",
        "status": "completed",
        "content": content,
        "role": "assistant",
        **members,
    }


def refusal(text: str, n: int = 0) -> Json:
    return message("", n, content=[{"type": "refusal", "refusal": text}])


def call(arguments: str = "{}", name: str = "search", id: str = "call_1", n: int = 0) -> Json:
    said = {"id": f"fc_{n}", "type": "function_call", "status": "completed", "arguments": arguments}
    return {**said, "call_id": id, "name": name}


USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 12,
}


def response(*output: Json, status: str = "completed", **members: Json) -> Json:
    said = {"id": "resp_1", "object": "response", "status": status, "error": None, "incomplete_details": None}
    return {**said, "output": list(output), "usage": USAGE, **members}


def plain(*output: Json, **members: Json) -> bytes:
    return json.dumps(response(*output, **members)).encode()


def frame(event: Json) -> bytes:
    return f"event: {event.get('type')}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def events(*output: Json, cut: Callable[[str], list[str]] = lambda text: [text]) -> list[Json]:
    """A stream as OpenAI has it, but for the numbers nobody reads."""
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


def said_again(*turns: Turn, names: dict[str, str] | None = None) -> list[Json]:
    items = Items(names or {})
    return json.loads(b"[" + b",".join(filter(None, map(items.write, turns))) + b"]")  # type: ignore[no-any-return]


def told(turn: AssistantTurn) -> tuple[object, ...]:
    calls = [(call.id, call.name, call.arguments) for call in turn.calls]
    return turn.text, turn.reasoning, turn.refusal, calls


# ---- a turn, whole and in pieces --------------------------------------------------------------------------------------

words = st.text(max_size=12)


@st.composite
def outputs(draw: st.DrawFn) -> list[Json]:
    items = []
    for n in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["message", "refusal", "reasoning", "call", "hosted"])):
            case "message":
                items.append(message(draw(words), n))
            case "refusal":
                items.append(refusal(draw(words), n))
            case "reasoning":
                items.append(reasoning(*draw(st.lists(words, max_size=3)), n=n))
            case "call":
                items.append(call(draw(words), draw(st.sampled_from(["f", "größe"])), f"call_{n}", n))
            case "hosted":
                items.append({"type": "web_search_call", "id": f"ws_{n}", "content": draw(words), "status": [1]})
    return items


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
    if at < len(stream) - 1:  # its last line end is not missed
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


# ---- what goes back ---------------------------------------------------------------------------------------------------


@given(outputs())
def test_our_own_items_go_back_byte_for_byte(output: list[Json]) -> None:
    while output and output[-1]["type"] == "reasoning":
        output.pop()
    raw = json.dumps(output, indent=1).encode()
    turn = AssistantTurn((), native=Native(API, Raw(raw)))
    assert Items({}).write(turn) == raw[1:-1].strip()


def test_thoughts_that_came_to_nothing_are_not_sent_back() -> None:
    cut = read_plain(plain(message("a"), reasoning("hm"), status="incomplete")).turn
    assert said_again(cut) == [message("a")]
    assert said_again(read_plain(plain(reasoning("hm"), status="incomplete")).turn) == []
    assert native_of(ModelFinished(cut)) == [message("a"), reasoning("hm")]  # what is stored is whole


def test_a_stranger_is_projected() -> None:
    turn = AssistantTurn(
        (Reasoning("secret"), Text("I "), Text("look"), ToolCall("toolu_1", "f", "{}"), Text("…"), Refusal("no")),
        native=Native("anthropic", Raw(b'[{"signature":"x"}]')),
    )
    assert said_again(turn, ToolTurn((ToolResult("toolu_1", "ok"),))) == [
        {"type": "message", "role": "assistant", "content": "I look"},
        {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": "{}"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "…"}, {"type": "refusal", "refusal": "no"}],
        },
        {"type": "function_call_output", "call_id": "toolu_1", "output": "ok"},
    ]


def test_a_turn_that_says_nothing_is_left_out() -> None:
    assert said_again(AssistantTurn((Reasoning("hm"), Text("")))) == []


@pytest.mark.parametrize("id", ["y" * 65, ""])
def test_an_id_that_does_not_fit_is_replaced_in_the_call_and_in_its_result(id: str) -> None:
    turns = (AssistantTurn((ToolCall(id, "f", "{}"),)), ToolTurn((ToolResult(id, "ok"),)))
    asked, answered = said_again(*turns)
    assert asked["call_id"] == answered["call_id"]
    assert 0 < len(asked["call_id"]) <= 64
    assert said_again(*turns) == [asked, answered]


def test_our_own_call_gets_another_id_if_its_own_would_be_refused() -> None:
    item = call(id="z" * 69)  # seen from Codex, which refuses it itself
    asked, answered = said_again(read_plain(plain(item)).turn, ToolTurn((ToolResult("z" * 69, "ok"),)))
    assert asked == {**item, "call_id": answered["call_id"]}
    assert len(asked["call_id"]) <= 64


def test_an_id_used_again_in_a_later_turn_is_replaced_there() -> None:
    one = (AssistantTurn((ToolCall("call_0", "f", "{}"),)), ToolTurn((ToolResult("call_0", "ok"),)))
    items = said_again(*one, *one, *one)
    ids = [item["call_id"] for item in items]
    assert ids[0::2] == ids[1::2]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 3


def test_what_tools_attach_is_in_their_results() -> None:
    result = ToolResult("c", "see", attachments=(Image("https://x/y.png"), Audio("AA", "wav")))
    assert said_again(ToolTurn((result, ToolResult("d", "", attachments=(Image("data:,"),))))) == [
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
                {"type": "input_text", "text": "[audio was left out: this model cannot be sent it]"},
            ],
        },
        {
            "type": "function_call_output",
            "call_id": "d",
            "output": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}],
        },
    ]


def test_parts_other_than_text_are_written_as_a_list() -> None:
    parts = (
        Text("look"),
        Image("https://x/y.png", "low"),
        Image("https://x/y.png", "enormous"),
        File("data:application/pdf;base64,AA", "a.pdf"),
        File("data:application/pdf;base64,AA"),
        File("https://x/a.pdf"),
        File("data:image/png;base64,AA"),
        File("data:audio/mpeg;base64,AA", "a.mp3"),
        File(id="file-1"),
        Video("https://x/v.mp4"),
    )
    (item,) = said_again(UserTurn(parts))
    assert item["content"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
        {"type": "input_text", "text": "[the audio file a.mp3 was left out: this model cannot be sent it]"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_text", "text": "[a video was left out: this model cannot be sent it]"},
    ]


def test_items_the_core_has_no_words_for_go_out_as_they_are() -> None:
    item = {"type": "mcp_approval_response", "approve": True, "approval_request_id": "mcpr_1"}
    assert said_again(UserTurn((), native=Native(API, Raw(json.dumps([item]).encode())))) == [item]


# ---- requests ---------------------------------------------------------------------------------------------------------


def request(*turns: Turn, **how: Any) -> ModelRequest:
    return request_of(*turns or (user("hi"),), **how)


def written(*turns: Turn, model: str = "gpt-5", **how: Json) -> Json:
    return json.loads(write_request(model, request(*turns, **how)))


def test_a_conversation_is_written_turn_by_turn() -> None:
    turns = (SystemTurn("Be brief."), SystemTurn("Be kind."), SystemTurn("now", "developer"), user("hi"))
    assert written(*turns, SystemTurn("later"), stream=True) == {
        "input": [
            {"type": "message", "role": "developer", "content": "now"},
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "message", "role": "system", "content": "later"},
        ],
        "model": "gpt-5",
        "instructions": "Be brief.\n\nBe kind.",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_instructions_alone_are_the_input() -> None:
    for turns in ((SystemTurn("Go."),), (SystemTurn("Go."), AssistantTurn(()))):
        body = written(*turns)
        assert body["input"] == [{"type": "message", "role": "system", "content": "Go."}]
        assert "instructions" not in body


def test_options_are_written_under_their_names_and_unknown_ones_unchanged() -> None:
    options = Options(
        max_tokens=99,
        temperature=0.5,
        top_p=0.9,
        parallel_tool_calls=False,
        reasoning_effort="low",
        response_format=ResponseFormat("json_object"),
        extra={
            "text": Raw(b'{"verbosity":"low","format":{"type":"text"}}'),
            "reasoning": Raw(b'{"summary":"auto"}'),
            "include": Raw(b'["reasoning.encrypted_content","file_search_call.results"]'),
            "tools": Raw(b'[{"type":"web_search"}]'),
            "strange": Raw(b"[1.10]"),
        },
    )
    raw = write_request("gpt-5", request(options=options, tools=(ToolSpec("f"),)))
    assert b'"strange":[1.10]' in raw
    body = json.loads(raw)
    assert body.pop("tools")[1] == {"type": "web_search"}
    assert body | {"input": [], "strange": []} == {
        "input": [],
        "model": "gpt-5",
        "parallel_tool_calls": False,
        "store": False,
        "include": ["reasoning.encrypted_content", "file_search_call.results"],
        "max_output_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "text": {"verbosity": "low", "format": {"type": "json_object"}},
        "reasoning": {"summary": "auto", "effort": "low"},
        "strange": [],
    }


def test_what_the_chat_door_calls_by_other_names_is_asked_for_in_this_apis_way() -> None:
    extra = {
        "max_completion_tokens": Raw(b"50"),
        "max_tokens": Raw(b"60"),
        "verbosity": Raw(b'"low"'),
        "logprobs": Raw(b"true"),
        "top_logprobs": Raw(b"2"),
    }
    body = written(options=Options(max_tokens=50, extra=extra))
    assert body["max_output_tokens"] == 50
    assert body["text"] == {"verbosity": "low"}
    assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert body["top_logprobs"] == 2
    assert not body.keys() & {"max_tokens", "max_completion_tokens", "verbosity", "logprobs"}


def test_a_form_of_the_answer_is_written_with_its_schema() -> None:
    schema = Raw(
        b'{"type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"],"additionalProperties":false}'
    )
    body = written(options=Options(response_format=ResponseFormat("json_schema", "an answer", schema, True, "why")))
    formed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert body["text"] == {
        "format": {"type": "json_schema", "name": "an_answer", "description": "why", "schema": formed, "strict": True}
    }


@pytest.mark.parametrize("options", [Options(stop=("x",)), Options(seed=1)])
def test_what_this_api_has_no_words_for_is_refused_by_name(options: Options) -> None:
    with pytest.raises(BadRequest, match="Responses API") as caught:
        written(options=options)
    assert caught.value.param in ("stop", "seed")


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("gpt-5.5", True),
        ("o3-mini", True),
        ("my-deployment", True),
        ("gpt-4o", False),
        ("openai/gpt-4.1-mini", False),
        ("gpt-5-chat-latest", False),
        ("ft:gpt-4o-mini:acme::1", False),
        ("chatgpt-4o-latest", False),
    ],
)
def test_only_models_that_think_are_asked_for_encrypted_thoughts(model: str, asked: bool) -> None:
    assert written(model=model).get("include", []) == (["reasoning.encrypted_content"] if asked else [])


def test_a_caller_can_ask_for_nothing_beside_the_answer() -> None:
    assert "include" not in written(options=Options(extra={"include": Raw(b"[]")}))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (AUTO, None),
        (NONE, "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("required", ("a.b",), named=True), {"type": "function", "name": "a_b"}),
        (
            ToolChoice("auto", ("a.b", "g")),
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "a_b"}, {"type": "function", "name": "g"}],
            },
        ),
    ],
)
def test_every_choice_of_a_tool_has_its_form(choice: ToolChoice, said: Json) -> None:
    tools = (ToolSpec("a.b"), ToolSpec("g"))
    body = written(tools=tools, choice=choice)
    assert body.get("tool_choice") == said
    assert [tool["name"] for tool in body["tools"]] == ["a_b", "g"]


OPEN = Raw(b'{"type":"object","properties":{"a":{"type":"string"}}}')
CLOSED = Raw(b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}')
UNION = Raw(b'{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}]}')


@pytest.mark.parametrize(
    ("tool", "parameters", "strict"),
    [
        (ToolSpec("f", parameters=OPEN), OPEN, False),
        (ToolSpec("f", parameters=OPEN, strict=True), OPEN, False),
        (ToolSpec("f", parameters=CLOSED, strict=True), CLOSED, True),
        (ToolSpec("f", parameters=OPEN, strict=True, kind="caller"), OPEN, True),
        (ToolSpec("f", parameters=OPEN, kind="caller"), OPEN, False),
    ],
)
def test_strictness_is_always_said_because_left_out_it_means_yes(tool: ToolSpec, parameters: Raw, strict: bool) -> None:
    (said,) = written(tools=(tool,))["tools"]
    assert said == {"type": "function", "name": "f", "parameters": json.loads(bytes(parameters)), "strict": strict}


def test_a_schema_that_would_be_refused_is_lowered() -> None:
    (said,) = written(tools=(ToolSpec("f", "does", UNION),))["tools"]
    assert said["description"] == "does"
    assert said["parameters"]["type"] == "object"
    assert "anyOf" not in said["parameters"]


def test_a_callers_own_declaration_is_sent_as_it_is_if_it_is_one_of_this_api() -> None:
    flat = {"type": "function", "name": "f", "parameters": {}, "defer_loading": True}
    nested = {"type": "function", "function": {"name": "f", "parameters": {}}, "cache_control": {}}
    declared = [ToolSpec("f", kind="caller", native=Raw(json.dumps(one).encode())) for one in (flat, nested)]
    assert written(tools=(declared[0],))["tools"] == [flat]
    (said,) = written(tools=(declared[1],))["tools"]
    assert said.keys() == {"type", "name", "parameters", "strict"}


# ---- a growing conversation -------------------------------------------------------------------------------------------


def _turns() -> st.SearchStrategy[Turn]:
    call_ids = st.sampled_from(["call_0", "call_1", "x" * 70])
    own = outputs().map(lambda output: read_plain(plain(*output)).turn)
    return st.one_of(
        st.builds(SystemTurn, words, st.sampled_from(["system", "developer"])),
        words.map(user),
        own,
        st.builds(lambda id, text: AssistantTurn((Text(text), ToolCall(id, "a.b", "{}"))), call_ids, words),
        st.builds(lambda id, text: ToolTurn((ToolResult(id, text),)), call_ids, words),
    )


@given(st.lists(_turns(), min_size=1, max_size=8), st.lists(st.integers(1, 8), max_size=5))
def test_writing_a_growing_conversation_equals_writing_it_anew(turns: list[Turn], lengths: list[int]) -> None:
    body = Body()
    for length in [*lengths, len(turns)]:
        some = request(*turns[:length])
        assert body.write("gpt-5", some) == Body().write("gpt-5", some)


@given(st.lists(_turns(), min_size=1, max_size=6), st.data())
def test_a_changed_turn_anywhere_in_the_history_is_written_anew(turns: list[Turn], data: st.DataObject) -> None:
    body = Body()
    body.write("gpt-5", request(*turns))
    changed = list(turns)
    changed[data.draw(st.integers(0, len(turns) - 1))] = data.draw(_turns())
    assert body.write("gpt-5", request(*changed)) == Body().write("gpt-5", request(*changed))


def test_a_new_tool_choice_changes_only_what_stands_behind_the_items() -> None:
    tools = (ToolSpec("f"),)
    body = Body()
    first = body.write("gpt-5", request(user("hi"), tools=tools, choice=ToolChoice("required")))
    second = body.write("gpt-5", request(user("hi"), tools=tools))
    start = b'{"input":[{"type":"message","role":"user","content":"hi"}'
    assert first.startswith(start)
    assert second.startswith(start)
    assert "tool_choice" not in json.loads(second)


def test_other_names_of_tools_are_written_anew() -> None:
    turn = AssistantTurn((ToolCall("c", "a.b", "{}"),))
    body = Body()
    for tools in ((), (ToolSpec("a.b"), ToolSpec("a_b")), (ToolSpec("a.b"),)):
        some = request(user("hi"), turn, tools=tools)
        assert body.write("gpt-5", some) == Body().write("gpt-5", some)


def test_a_body_is_kept_in_the_scratch_of_the_run_and_may_be_dropped() -> None:
    some = request(user("hi"))
    first = write_request("gpt-5", some)
    assert write_request("gpt-5", some) == first
    some.scratch.clear()
    assert write_request("gpt-5", some) == first
    assert "include" not in json.loads(write_request("gpt-5", some, encrypted=False))
