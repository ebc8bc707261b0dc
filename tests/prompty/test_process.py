"""Answers of providers → results: text, calls, structured values, vectors, images; streams and their failures; casting."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterator
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from tests.conformance.prompty_chunks import (
    Failure,
    FailureChunk,
    StreamOutcome,
    TextChunk,
    ThinkingChunk,
    ToolChunk,
    process_stream,
)
from tests.pipeline.files import text_of

from ronda import cast, process, process_async
from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Refusal, Text, ToolCall
from ronda.prompty import Prompty, StructuredResult, loads


def file(provider: str = "openai", api: str = "chat", outputs: bool = False) -> Prompty:
    said: dict[str, Any] = {"model": {"id": "m", "provider": provider, "apiType": api}}
    return loads(text_of({**said, "outputs": {"a": {"kind": "integer"}}} if outputs else said))


def chat(**message: Any) -> Any:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


@pytest.mark.parametrize(
    ("prompty", "response", "result"),
    [
        (file(), chat(content="hi"), "hi"),
        (file(), json.dumps(chat(content="hi")).encode(), "hi"),
        (file(), json.dumps(chat(content="hi")), "hi"),
        (file(), chat(content="so", tool_calls=[CALL]), [ToolCall("c1", "f", '{"a":1}')]),
        (file(), chat(content=None, refusal="no"), "no"),
        (file(outputs=True), chat(content='{"a": 1}'), {"a": 1}),
        (file(outputs=True), chat(content="no json"), "no json"),
        (file(outputs=True), chat(content="[1]"), [1]),
        (file("azure"), chat(content="hi"), "hi"),
        (file("somebody-else"), chat(content="hi"), "hi"),
        (
            file("anthropic"),
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "stop_reason": "end_turn"},
            "ab",
        ),
        (
            file("anthropic"),
            b'{"content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": [1, 2]}}]}',
            [ToolCall("t", "f", '{"a":[1,2]}')],
        ),
        (
            file("gemini"),
            {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]},
            "hi",
        ),
        (file("mistral"), chat(content="hi"), "hi"),
        (file(api="responses"), {"output": [], "output_text": "hi"}, "hi"),
        (file(api="responses"), {"output": [], "output_text": "", "status": "completed"}, ""),
        (file(api="embedding"), {"data": [{"embedding": [0.1]}]}, [0.1]),
        (
            file(api="embedding"),
            {"data": [{"index": 1, "embedding": [0.2]}, {"index": 0, "embedding": [0.1]}]},
            [[0.1], [0.2]],
        ),
        (file(api="image"), {"data": [{"b64_json": "aGk="}]}, "aGk="),
        (file(api="image"), {"data": [{"url": "u"}, {"url": None, "b64_json": "v"}]}, ["u", "v"]),
        (file(), ModelFinished(AssistantTurn((Text("hi"),))), "hi"),
        (file(), ModelFinished(AssistantTurn((Refusal("no"),))), "no"),
    ],
)
async def test_an_answer_becomes_a_result(prompty: Prompty, response: Any, result: Any) -> None:
    assert process(prompty, response) == result
    assert await process_async(prompty, response) == result


def test_an_sdks_object_is_read_too() -> None:
    class Completion(pydantic.BaseModel):
        choices: list[Any]

    assert process(file(), Completion(**chat(content="hi"))) == "hi"


@pytest.mark.parametrize(
    ("prompty", "response", "message"),
    [
        (file(), {}, "Unexpected response format"),
        (file(), [], "Unexpected response format"),
        (file(), b"\xff", "Unexpected response format"),
        (file(), 7, "Unexpected response format"),
        (file(), {"choices": [{}]}, "Unexpected response format"),
        (file("anthropic"), {"text": "hi"}, "Unexpected response format"),
        (file(api="responses"), {"error": {"message": "boom"}, "output": []}, "boom"),
        (file(api="responses"), {"status": "in_progress", "output": [{}]}, "Unexpected response format"),
        (file(api="embedding"), {"data": []}, "Empty embedding response"),
        (file(api="embedding"), {"data": [{}]}, "Unexpected response format"),
        (file(api="embedding"), {"data": 7}, "Unexpected response format"),
        (file(api="image"), {"data": []}, "Empty image response"),
        (file(api="image"), {"data": [{"url": 7}]}, "Unexpected response format"),
        (file(api="poem"), chat(content="hi"), "Unsupported API type: poem"),
        (file("anthropic", "responses"), {"output": []}, "Unsupported API type: responses"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_value_error(prompty: Prompty, response: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        process(prompty, response)


# ---- streams ----------------------------------------------------------------------------------------------------------


def delta(finish: str | None = None, **said: Any) -> Any:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def then(error: Exception, *chunks: Any) -> Iterator[Any]:
    yield from chunks
    raise error


def read(prompty: Prompty, arriving: Any) -> tuple[list[Any], StreamOutcome]:
    outcome = StreamOutcome()
    return list(process_stream(prompty, arriving, outcome)), outcome


def test_a_stream_shows_text_at_once_and_calls_when_they_are_complete() -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}
    last = {"index": 0, "function": {"arguments": ":1}"}}
    chunks = [
        delta(reasoning_content="hm"),
        delta(content="so"),
        delta(tool_calls=[first]),
        delta(tool_calls=[last]),
        delta("tool_calls"),
    ]
    call = ToolCall("c1", "f", '{"a":1}')
    assert read(file(), chunks) == (
        [ThinkingChunk("hm"), TextChunk("so"), ToolChunk(call)],
        StreamOutcome("so", False, True),
    )


def test_a_refusal_is_a_determinate_failure() -> None:
    failure = Failure("determinate", "Model refused: I will not")
    assert read(file(), [delta(content="a"), delta(refusal="I will not"), delta("stop")]) == (
        [TextChunk("a"), FailureChunk(failure)],
        StreamOutcome("a", False, False),
    )


@pytest.mark.parametrize("ending", [then(ConnectionError("reset"), delta(content="a")), [delta(content="a")]])
def test_a_stream_that_breaks_off_leaves_its_text_and_must_be_looked_into(ending: Any) -> None:
    chunks, outcome = read(file(), ending)
    assert outcome == StreamOutcome("a", True, False)
    assert chunks[0] == TextChunk("a")
    assert chunks[1].failure.outcome == "indeterminate"


def test_an_error_that_the_provider_sends_is_determinate() -> None:
    chunks, outcome = read(file(), [delta(content="a"), {"error": {"message": "overloaded"}}])
    assert (chunks[-1].failure.outcome, outcome.requires_reconciliation) == ("determinate", False)
    assert "overloaded" in chunks[-1].failure.message


def test_every_providers_stream_is_read() -> None:
    anthropic = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    responses = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "hi"},
        {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
    ]
    gemini = [{"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}]
    said = ([TextChunk("hi")], StreamOutcome("hi", False, True))

    assert read(file("anthropic"), anthropic) == said
    assert read(file(api="responses"), responses) == said
    assert read(file("gemini"), gemini) == said
    assert read(file("mistral"), [delta(content="hi"), delta("stop")]) == said


# ---- cast -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Typed(TypedDict):
    x: int


class Model(pydantic.BaseModel):
    x: int


class Struct(msgspec.Struct):
    x: int


@pytest.mark.parametrize(
    ("type", "expected"),
    [(Point, Point(1)), (Typed, {"x": 1}), (Model, Model(x=1)), (Struct, Struct(1)), (dict, {"x": 1})],
)
@pytest.mark.parametrize("result", [StructuredResult({"x": 1}, '{"x":1}'), {"x": 1}, '{"x": 1}'])
def test_a_result_is_cast_to_a_type(result: Any, type: Any, expected: Any) -> None:
    assert cast(result, type) == expected


def test_text_is_text_already_and_numbers_are_json() -> None:
    assert cast("hi", str) == "hi"
    assert cast("7", int) == 7
    assert cast([1, 2], list[int]) == [1, 2]


def test_a_pydantic_model_may_stand_inside_the_type() -> None:
    assert cast([{"x": 1}], list[Model]) == [Model(x=1)]


@pytest.mark.parametrize("type", [Point, Model, Struct, int])
@pytest.mark.parametrize("result", [{"x": "one"}, "no json", object()])
def test_what_does_not_fit_is_a_type_error(result: Any, type: Any) -> None:
    with pytest.raises(TypeError, match="cast"):
        cast(result, type)


def test_a_structured_result_is_a_dict_that_can_be_copied_and_sent_elsewhere() -> None:
    result = process(file(outputs=True), chat(content='{"a": 1}'))
    for same in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert (same, type(same), same._raw_json) == ({"a": 1}, StructuredResult, '{"a": 1}')
