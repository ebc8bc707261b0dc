"""What our Messages server writes, our Messages client reads: streamed and plain, whole and in pieces, and both ways round."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ronda.core.events import (
    CallDelta,
    Event,
    ModelFinished,
    ModelInterrupted,
    ModelStarted,
    NativeDelta,
    Preview,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
)
from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Image,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    user,
)
from ronda.core.plan import AUTO, NO_OPTIONS, Plan, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.wire.anthropic.client_request import Reader, read_plain, write_request
from ronda.wire.anthropic.server_answer import MessageAnswer
from ronda.wire.anthropic.server_request import read_request
from ronda.wire.codec.sse import SseReader

WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
SAID = WORDS.filter(lambda text: bool(text.strip()))
COUNTS = st.integers(0, 10**6)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    new, cached, written, output = draw(COUNTS), draw(COUNTS), draw(COUNTS), draw(COUNTS)
    thought = draw(st.integers(0, output))
    return Usage(new + cached + written, output, cached, thought, cache_written=written)


@st.composite
def turns(draw: st.DrawFn) -> AssistantTurn:
    parts: list[AssistantPart] = []
    if thought := draw(st.none() | WORDS):
        parts.append(Reasoning(thought))
    if said := draw(st.none() | SAID):
        parts.append(Text(said))
    arguments = st.dictionaries(WORDS, WORDS | st.integers() | st.none(), max_size=3)
    names = draw(st.lists(st.sampled_from(["a", "b"]), max_size=3))
    parts += [ToolCall(f"c{n}", name, json.dumps(draw(arguments))) for n, name in enumerate(names)]
    return AssistantTurn(tuple(parts), "tool_calls" if any(type(part) is ToolCall for part in parts) else "stop")


def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    return [piece for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if (piece := text[a:b])]


@st.composite
def shown(draw: st.DrawFn, turn: AssistantTurn) -> list[Preview]:
    """How an upstream may show a turn: in pieces, the calls one after the other or all at once, and not always to the end."""
    previews: list[Preview] = []
    calls: list[list[Preview]] = []
    for part in turn.parts:
        if type(part) is Reasoning:
            previews += [ReasoningDelta(piece) for piece in _pieces(draw, part.text)]
        elif type(part) is Text:
            previews += [TextDelta(piece) for piece in _pieces(draw, part.text)]
        elif type(part) is ToolCall:
            at = len(calls)
            grown = [CallDelta(at, part.id, part.name, piece) for piece in ("", *_pieces(draw, part.arguments))]
            calls.append([*grown])
    while calls:
        at = draw(st.integers(0, len(calls) - 1)) if draw(st.booleans()) else 0
        previews.append(calls[at].pop(0))
        calls = [call for call in calls if call]
    return previews[: draw(st.integers(0, len(previews)))] if draw(st.booleans()) else previews


def log_of(turn: AssistantTurn, usage: Usage, previews: Sequence[Preview] = ()) -> list[Event]:
    reason: Any = turn.stop if turn.stop in ("length", "content_filter", "tool_calls") else "stop"
    return [ModelStarted(0), *previews, ModelFinished(turn, usage), RunFinished(reason)]


def written(log: Sequence[Event], *, size: int = 1) -> tuple[bytes, bytes]:
    """The stream, a batch at a time, and the plain answer to the same events."""
    both: list[MessageAnswer] = []
    stream = b""
    for plain in (False, True):
        run = Run(RunStarted("run_x", Plan("m", stream=not plain), (user("hi"),), 1.0))
        answer = MessageAnswer([run])
        both.append(answer)
        for at in range(0, len(log), size):
            batch = log[at : at + size]
            for event in batch:
                run.apply(event)
            if plain:
                answer.fold(0, batch)
            else:
                stream += answer.feed(0, batch)
    return stream, both[1].body()


def read(stream: bytes) -> ModelFinished:
    reader = Reader()
    reader.feed(stream)
    reader.close()
    return reader.finish()


def data_of(stream: bytes) -> list[Any]:
    return [json.loads(data) for data in SseReader().feed_data(stream)]


def folded(stream: bytes) -> list[Any]:
    """The content that a client of the dialect comes to."""
    blocks: list[Any] = []
    inputs: dict[int, str] = {}
    for event in data_of(stream):
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            match delta["type"]:
                case "text_delta":
                    block["text"] += delta["text"]
                case "thinking_delta":
                    block["thinking"] += delta["thinking"]
                case "signature_delta":
                    block["signature"] = delta["signature"]
                case "citations_delta":
                    block.setdefault("citations", []).append(delta["citation"])
                case "input_json_delta":
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
    for index, arguments in inputs.items():
        blocks[index]["input"] = json.loads(arguments)
    return blocks


# ---- answers ---------------------------------------------------------------------------------------------------------


@given(st.data(), turns(), usages(), st.integers(1, 5))
def test_our_client_reads_what_our_server_writes(
    data: st.DataObject, turn: AssistantTurn, usage: Usage, size: int
) -> None:
    log = log_of(turn, usage, data.draw(shown(turn)))
    stream, body = written(log, size=size)

    for finished in (read(stream), read_plain(body)):
        assert (finished.turn.parts, finished.turn.stop, finished.usage) == (turn.parts, turn.stop, usage)


@given(st.data(), turns(), usages())
def test_a_stream_comes_to_the_plain_answer_of_the_same_events(
    data: st.DataObject, turn: AssistantTurn, usage: Usage
) -> None:
    stream, body = written(log_of(turn, usage, data.draw(shown(turn))))

    plain = json.loads(body)
    end = next(event for event in data_of(stream) if event["type"] == "message_delta")
    assert folded(stream) == plain["content"]
    assert (end["delta"]["stop_reason"], end["usage"]) == (plain["stop_reason"], plain["usage"])


@given(st.data(), turns(), usages())
def test_previews_change_nothing_of_the_plain_answer(data: st.DataObject, turn: AssistantTurn, usage: Usage) -> None:
    assert written(log_of(turn, usage, data.draw(shown(turn))))[1] == written(log_of(turn, usage))[1]


@given(st.data(), turns(), usages())
def test_every_block_is_begun_once_and_ended_once_and_grows_in_between(
    data: st.DataObject, turn: AssistantTurn, usage: Usage
) -> None:
    stream, _ = written(log_of(turn, usage, data.draw(shown(turn))))

    still_open: set[int] = set()
    begun = 0
    for event in data_of(stream):
        if event["type"] == "content_block_start":
            assert event["index"] == begun
            begun += 1
            still_open.add(event["index"])
        elif event["type"] == "content_block_delta":
            assert event["index"] in still_open
        elif event["type"] == "content_block_stop":
            still_open.remove(event["index"])
    assert still_open == set()


@given(st.data(), turns(), usages())
def test_a_stream_written_again_is_the_same_bytes(data: st.DataObject, turn: AssistantTurn, usage: Usage) -> None:
    log = log_of(turn, usage, data.draw(shown(turn)))

    assert written(log)[0] == written(log, size=3)[0]


def test_an_answer_that_broke_off_is_closed_and_the_next_is_another_block() -> None:
    partial = AssistantTurn((Text("Hel"),), "interrupted")
    log: list[Event] = [
        ModelStarted(0),
        TextDelta("Hel"),
        ModelInterrupted(partial, "it broke off"),
        ModelStarted(1),
        TextDelta("Hello."),
        ModelFinished(AssistantTurn((Text("Hello."),)), Usage(1, 1)),
        RunFinished("stop"),
    ]
    lookup = ToolSpec("lookup")  # of ours: the caller does not run the loop
    run = Run(RunStarted("run_x", Plan("m", (lookup,)), (user("hi"),)))
    answer = MessageAnswer([run])
    stream = b""
    for event in log:
        run.apply(event)
        stream += answer.feed(0, [event])

    assert folded(stream) == [{"type": "text", "text": "Hel"}, {"type": "text", "text": "Hello."}]


def test_the_loop_s_own_words_are_a_block() -> None:
    log: list[Event] = [
        ModelStarted(0, last=True),
        ModelFinished(AssistantTurn(()), Usage(1, 1)),
        RunFinished("limit", "max_tool_rounds", "too many", "I stopped."),
    ]
    stream, body = written(log)

    assert folded(stream) == json.loads(body)["content"] == [{"type": "text", "text": "I stopped."}]
    assert json.loads(body)["limit"] == "max_tool_rounds"


# ---- what the API said itself ----------------------------------------------------------------------------------------

CITATION = {"type": "char_location", "cited_text": "x", "document_index": 0}
THOUGHTS = st.builds(
    lambda said, signature: {"type": "thinking", "thinking": said, "signature": signature}, st.just("") | WORDS, WORDS
)
TEXTS = st.builds(
    lambda said, cited: {"type": "text", "text": said, **({"citations": [CITATION] * cited} if cited else {})},
    SAID,
    st.integers(0, 2),
)
OTHERS = st.sampled_from(
    [
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
)


def _calls(n: int, called: bool) -> list[Any]:
    more = {"caller": {"type": "direct"}} if called else {}
    return [{"type": "tool_use", "id": f"toolu_{at}", "name": "a", "input": {"at": at}, **more} for at in range(n)]


CONTENTS = st.builds(
    lambda blocks, n, called: [*blocks, *_calls(n, called)],
    st.lists(THOUGHTS | TEXTS | OTHERS, min_size=1, max_size=5),
    st.integers(0, 2),
    st.booleans(),
)


def _upstream(content: list[Any]) -> tuple[bytes, bytes]:
    """An answer of the API's, streamed and plain."""
    stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 3, "output_tokens": 4}
    frames: list[Any] = [{"type": "message_start", "message": {"usage": usage}}]
    for index, block in enumerate(content):
        empty, deltas = {**block}, list[Any]()
        match block["type"]:
            case "text":
                empty = {"type": "text", "text": ""}
                half = len(block["text"]) // 2
                deltas = [
                    {"type": "text_delta", "text": piece} for piece in (block["text"][:half], block["text"][half:])
                ]
                deltas += [{"type": "citations_delta", "citation": one} for one in block.get("citations", [])]
            case "thinking":
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "tool_use":
                empty = {**block, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        frames.append({"type": "content_block_start", "index": index, "content_block": empty})
        frames += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        frames.append({"type": "content_block_stop", "index": index})
    frames += [{"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}, {"type": "message_stop"}]
    stream = "".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n" for frame in frames)
    body = {"type": "message", "content": content, "stop_reason": stop, "usage": usage}
    return stream.encode(), json.dumps(body).encode()


@given(CONTENTS)
def test_what_the_api_said_is_said_again_block_by_block(content: list[Any]) -> None:
    stream, body = _upstream(content)
    reader = Reader()
    previews = reader.feed(stream)

    streamed = written(log_of(reader.finish().turn, Usage(3, 4), previews))
    plain = written(log_of(read_plain(body).turn, Usage(3, 4)))

    assert folded(streamed[0]) == json.loads(streamed[1])["content"] == content
    assert folded(plain[0]) == json.loads(plain[1])["content"] == content


@given(CONTENTS)
def test_what_the_api_said_goes_back_to_it_through_a_client_unchanged(content: list[Any]) -> None:
    turn = read_plain(_upstream(content)[1]).turn
    _, body = written(log_of(turn, Usage(3, 4)))
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call_id, "content": "ok"} for call_id in calls]
    follow = [*results, {"type": "text", "text": "go on"}]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": json.loads(body)["content"]},
        {"role": "user", "content": follow},
    ]

    asked = read_request(json.dumps({"messages": messages}).encode())
    request = ModelRequest(asked.turns, (ToolSpec("a"),), AUTO, NO_OPTIONS, False, "run", 0, 1, {})
    sent = json.loads(write_request("claude-sonnet-4-5", request))["messages"]

    assert sent[1:] == [{"role": "assistant", "content": content}, {"role": "user", "content": follow}]


def test_what_another_dialect_has_no_word_for_is_passed_over() -> None:
    said = AssistantTurn((Text("x"),), native=Native("gemini", Raw(b'[{"text":"x"}]')))
    log = log_of(said, Usage(1, 1), [NativeDelta("gemini", Raw(b'{"a":1}')), TextDelta("x")])

    assert folded(written(log)[0]) == [{"type": "text", "text": "x"}]


# ---- requests --------------------------------------------------------------------------------------------------------

IMAGES = st.sampled_from([Image("data:image/png;base64,aGk="), Image("https://x/y.jpg")])
USERS = st.builds(
    lambda parts: UserTurn(tuple(parts)), st.lists(st.builds(Text, SAID) | IMAGES, min_size=1, max_size=3)
)


@st.composite
def histories(draw: st.DrawFn) -> list[Turn]:
    history: list[Turn] = [SystemTurn(draw(SAID))] if draw(st.booleans()) else []
    history.append(draw(USERS))
    for _ in range(draw(st.integers(0, 3))):
        turn = draw(turns())
        turn = AssistantTurn(tuple([part for part in turn.parts if type(part) is not Reasoning]), turn.stop)
        if not turn.parts:
            continue
        history.append(turn)
        if turn.calls:
            pictures = st.lists(IMAGES, max_size=1).map(tuple)
            results = [
                ToolResult(call.id, draw(SAID), failed, () if failed else draw(pictures))
                for call in turn.calls
                for failed in (draw(st.booleans()),)
            ]
            history.append(ToolTurn(tuple(results)))
        if not turn.calls or draw(st.booleans()):
            history.append(draw(USERS))
    return history


@given(histories())
def test_our_server_reads_what_our_client_writes(history: list[Turn]) -> None:
    tools = (ToolSpec("a"), ToolSpec("b"))
    request = ModelRequest(history, tools, AUTO, NO_OPTIONS, False, "run", 0, 1, {})

    asked = read_request(write_request("claude-3-haiku", request))

    assert [_bare(turn) for turn in asked.turns] == [_bare(turn) for turn in history]
    assert [tool.name for tool in asked.tools] == ["a", "b"]


def _bare(turn: Turn) -> Any:
    match turn:
        case ToolTurn(results=results):
            return [(one.call_id, one.content, one.failed, one.attachments) for one in results]
        case AssistantTurn():
            calls = [(call.id, call.name, json.loads(call.arguments)) for call in turn.calls]
            return (turn.text, calls, turn.stop)
        case UserTurn(parts=parts):
            return parts
        case SystemTurn(text=text):
            return text
