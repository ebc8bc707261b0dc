"""What the Responses door writes: a stream adds up to the plain answer, can be written again from any event on, and is of the
schema of Open Responses; our own client reads it back."""

from __future__ import annotations

import asyncio
import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.openresponses_schema import OpenResponses, check_stream, told
from tests.driving import drive
from tests.interaction.doors import QUICK
from tests.wire.responses_runs import ASK, Json, echo, frames, plainly, started, streamed

from ronda import tool
from ronda.core.events import (
    Event,
    TextDelta,
)
from ronda.core.limits import Limits
from ronda.core.parts import AssistantTurn, Usage
from ronda.core.plan import AUTO, NONE, Options, Plan, ResponseFormat, ToolChoice
from ronda.core.run import Run, rebuild
from ronda.drive import Tool
from ronda.providers.script import Call, Line, ScriptedModel
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.openai_responses.input import read_items


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


HANDLERS: dict[str, Tool] = {"echo": echo, "fail": fail}


def story(lines: list[Line], plan: Plan, stream: bool) -> list[list[Event]]:
    """All that happens in a run, batch by batch."""
    plan = msgspec.structs.replace(plan, model="test", retry=QUICK, stream=stream)
    run = Run(started(plan))
    batches: list[list[Event]] = [[run.start]]
    asyncio.run(
        drive(
            run,
            provider=ScriptedModel(*lines),
            tools=HANDLERS,
            emit=batches.append,
            now=lambda: 2.0,
            jitter=lambda: 0.0,
        )
    )
    return batches


NUMBER = Raw(b'{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}')


_texts = st.text(max_size=12) | st.sampled_from(
    ["", '{"n": 1}', "{}", "Hello there.", " a\n\nb ", "\n", "é☃", "data: x\n\n"]
)


_arguments = st.sampled_from(["", "{}", '{"text": "a"}', '{"text": "a",}', "garbage", '{"text": 5}', '{"text": "'])


_calls = st.lists(
    st.builds(Call, st.sampled_from(["echo", "fail", "ask", "nobody"]), _arguments, st.none() | st.just("same")),
    max_size=3,
)


_stops = st.sampled_from([None, None, None, "stop", "length", "content_filter"])


_usage = st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 9), st.integers(0, 9))


_lines = st.builds(
    Line, _texts, _texts, _calls.map(tuple), _stops, _usage, st.lists(st.text(max_size=4), max_size=3).map(tuple)
).filter(lambda line: not (line.chunks and line.text))


_failures = st.builds(Line, error=st.just("not now"), status=st.sampled_from([None, 400, 429, 503]))


# Of a call that broke off nothing is kept: a stream knows more of such a turn than the journal.
_cuts = st.builds(Line, text=_texts, reasoning=_texts, cut=st.just(True))


_scripts = st.lists(st.one_of(_lines, _lines, _lines, _failures), min_size=1, max_size=6)


_tools = st.sampled_from([(), (ASK,), (echo.spec, fail.spec), (echo.spec, fail.spec, ASK)])


_limits = st.builds(Limits, st.sampled_from([1, 2, 256]), st.sampled_from([None, None, 1]), st.sampled_from([None, 50]))


_plans = st.builds(
    Plan,
    st.just("test"),
    _tools,
    st.sampled_from([AUTO, AUTO, NONE, ToolChoice("required")]),
    st.sampled_from([Options(), Options(), Options(response_format=ResponseFormat("json_schema", schema=NUMBER))]),
    _limits,
)


@given(_scripts, _plans)
@settings(max_examples=150)
def test_a_stream_adds_up_to_the_plain_answer(schemas: OpenResponses, lines: list[Line], plan: Plan) -> None:
    batches = story(lines, plan, stream=True)
    events = check_stream(schemas, streamed(batches))

    schemas.check(plainly(story(lines, plan, stream=False)), "ResponseResource")
    assert events[-1]["response"] == plainly(story(lines, plan, stream=False))
    assert _added_up(events) == events[-1]["response"]["output"]


@given(st.lists(st.one_of(_lines, _lines, _cuts), min_size=1, max_size=5), _plans)
@settings(max_examples=100)
def test_a_response_read_from_the_journal_is_what_its_stream_ended_with(
    schemas: OpenResponses, lines: list[Line], plan: Plan
) -> None:
    batches = story(lines, plan, stream=True)
    events = check_stream(schemas, streamed(batches))

    assert events[-1]["response"] == plainly(batches)
    assert streamed(batches) == streamed([batches[0], [event for batch in batches[1:] for event in batch]])


@given(_scripts, _plans, st.data())
def test_a_stream_can_be_taken_up_after_any_event(lines: list[Line], plan: Plan, data: st.DataObject) -> None:
    batches = story(lines, plan, stream=True)
    whole = frames(streamed(batches))
    after = data.draw(st.integers(0, len(whole) - 4))  # behind the last are only the end's own two lines

    assert frames(streamed(batches, after)) == whole[after + 1 :]


def test_who_has_seen_more_pieces_than_are_kept_gets_the_end_all_the_same() -> None:
    batches = story([Line(text="Hello there.")], Plan("test"), stream=True)

    (last, done, _) = frames(streamed(batches, 900, is_whole=False))

    assert json.loads(last.split(b"data: ")[1])["sequence_number"] == 901
    assert done == b"data: [DONE]"


@given(_scripts, _plans)
@settings(max_examples=100)
def test_our_client_reads_what_our_server_writes(lines: list[Line], plan: Plan) -> None:
    batches = story(lines, plan, stream=True)
    body = plainly(batches)
    if body["status"] in ("failed", "cancelled"):
        return
    reader = Reader()
    previews = reader.feed(streamed(batches))
    from_stream, from_body = reader.finish(), read_plain(json.dumps(body).encode())

    assert from_stream.usage == from_body.usage == rebuild([event for batch in batches for event in batch]).usage
    assert told(from_stream.turn) == told(from_body.turn)
    assert from_stream.turn.stop == from_body.turn.stop
    shown = "".join([preview.text for preview in previews if type(preview) is TextDelta])
    assert shown == from_body.turn.text


def _added_up(events: list[Json]) -> list[Json]:
    """The output as a client puts it together from the small events, checked against what is said when an item is done."""
    items: dict[int, Json] = {}
    for event in events:
        kind, at = event["type"], event.get("output_index", -1)
        if kind == "response.output_item.added":
            assert at not in items
            items[at] = event["item"]
        elif kind == "response.content_part.added":
            assert event["content_index"] == len(items[at]["content"])
            items[at]["content"].append(event["part"])
        elif kind == "response.reasoning_summary_part.added":
            items[at]["summary"].append(event["part"])
        elif kind in ("response.output_text.delta", "response.reasoning_summary_text.delta"):
            _part(items[at], event)["text"] += event["delta"]
            assert event["item_id"] == items[at]["id"]
        elif kind == "response.refusal.delta":
            _part(items[at], event)["refusal"] += event["delta"]
        elif kind == "response.function_call_arguments.delta":
            items[at]["arguments"] += event["delta"]
        elif kind in ("response.output_text.done", "response.reasoning_summary_text.done"):
            assert _part(items[at], event)["text"] == event["text"]
        elif kind in ("response.content_part.done", "response.reasoning_summary_part.done"):
            assert {**event["part"], "logprobs": []} == {**_part(items[at], event), "logprobs": []}
        elif kind == "response.function_call_arguments.done":
            assert items[at]["arguments"] == event["arguments"]
        elif kind == "response.output_item.done":
            grown = {**items[at], "status": event["item"]["status"]}
            assert {**event["item"], "phase": None} == {**grown, "phase": None}
            items[at] = event["item"]
    return [items[at] for at in sorted(items)]


def _part(item: Json, event: Json) -> Json:
    part: Json = (
        item["summary"][event["summary_index"]]
        if item["type"] == "reasoning"
        else item["content"][event["content_index"]]
    )
    return part


@given(_scripts, _plans)
def test_what_our_server_wrote_it_reads_again(lines: list[Line], plan: Plan) -> None:
    output = plainly(story(lines, plan, stream=False))["output"]
    body = {"status": "completed", "output": output}
    turns = read_items([Raw(json.dumps(item).encode()) for item in output]).turns
    said = [part for turn in turns if isinstance(turn, AssistantTurn) for part in turn.parts]

    again, client = told(AssistantTurn(tuple(said))), told(read_plain(json.dumps(body).encode()).turn)
    assert {**again, "thoughts": "".join(again["thoughts"])} == {**client, "thoughts": "".join(client["thoughts"])}
    assert all(isinstance(turn, AssistantTurn) for turn in turns)
