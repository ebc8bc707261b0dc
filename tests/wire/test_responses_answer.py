"""What the Responses door writes: a stream adds up to the plain answer, can be written again from any event on, and is of the
schema of Open Responses; our own client reads it back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.openresponses_schema import OpenResponses, check_stream, open_responses, told
from tests.interaction.doors import QUICK

from ronda import tool
from ronda.core.events import (
    PREVIEWS,
    CallDelta,
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelInterrupted,
    ModelStarted,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    RunStarted,
    TextDelta,
)
from ronda.core.limits import Limits
from ronda.core.parts import AssistantTurn, Native, Reasoning, Refusal, Text, ToolCall, Usage, user
from ronda.core.plan import AUTO, NONE, Options, Plan, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.drive import Tool, drive
from ronda.providers.script import Call, Line, ScriptedModel
from ronda.wire.failures import BROKE_DOWN
from ronda.wire.openai_responses.client import Reader, read_plain
from ronda.wire.openai_responses.encrypted_content import Room, SealedTurn, Sealer
from ronda.wire.openai_responses.input import read_items
from ronda.wire.openai_responses.resource import Kept
from ronda.wire.openai_responses.server_answer import ResponseAnswer

DATA = Path(__file__).parents[2].parent / "shared" / "data"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def schemas() -> OpenResponses:
    return open_responses(DATA)


# ---- runs ------------------------------------------------------------------------------------------------------------


@tool
async def echo(text: str = "") -> str:
    """Say it again."""
    return f"echo {text}"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


ASK = ToolSpec("ask", kind="caller")
HANDLERS: dict[str, Tool] = {"echo": echo, "fail": fail}
KEPT = Kept(model="test")


def started(plan: Plan, kept: Kept = KEPT) -> RunStarted:
    return RunStarted("run_00aa", plan, (user("go"),), 1.0, session="s", about=kept.about)


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


def run_of(batches: list[list[Event]], kept: Kept) -> Run:
    [[start], *rest] = batches
    assert isinstance(start, RunStarted)
    return rebuild([msgspec.structs.replace(start, about=kept.about), *[event for batch in rest for event in batch]])


def streamed(
    batches: list[list[Event]],
    after: int | None = None,
    kept: Kept = KEPT,
    sealer: Sealer | None = None,
    is_whole: bool = True,
) -> bytes:
    writer = ResponseAnswer([run_of(batches, kept)], after=after, sealer=sealer, is_whole=is_whole)
    return b"".join([writer.feed(0, batch) for batch in batches[1:]])


def plainly(batches: list[list[Event]], kept: Kept = KEPT) -> Json:
    events = [event for batch in batches for event in batch]
    writer = ResponseAnswer([run_of(batches, kept)])
    writer.fold(0, [event for event in events[1:] if type(event) not in PREVIEWS])
    body: Json = json.loads(writer.body())
    return body


def frames(stream: bytes) -> list[bytes]:
    return stream.split(b"\n\n")


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


# ---- single things ---------------------------------------------------------------------------------------------------


def kinds(stream: bytes) -> list[str]:
    return [
        frame.split(b"\n")[0].removeprefix(b"event: ").decode()
        for frame in frames(stream)
        if frame.startswith(b"event")
    ]


def told_of(turn: AssistantTurn, *previews: Event, plan: Plan | None = None, **end: Any) -> list[list[Event]]:
    plan = plan or Plan("test", stream=True)
    reason = end.pop("reason", "tool_calls" if turn.calls else "stop")
    finish = RunFinished(reason, at=2.0, **end)
    batches: list[list[Event]] = [[started(plan)], [ModelStarted(0)], *[[preview] for preview in previews]]
    return [*batches, [ModelFinished(turn, Usage(1, 2))], [finish]]


def test_events_come_in_the_order_clients_expect(schemas: OpenResponses) -> None:
    plan = Plan("test", tools=(ASK,), stream=True)
    turn = AssistantTurn((Reasoning("hm"), Text("So: "), ToolCall("c", "ask", '{"q":1}')), "tool_calls")
    batches = told_of(
        turn,
        ReasoningDelta("hm"),
        TextDelta("So: "),
        CallDelta(0, "c", "ask", '{"q"'),
        CallDelta(0, "c", "ask", ":1}"),
        plan=plan,
    )
    stream = streamed(batches)

    check_stream(schemas, stream)
    assert kinds(stream) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_a_refusal_is_a_part_of_its_own(schemas: OpenResponses) -> None:
    batches = told_of(
        AssistantTurn((Text("Well. "), Refusal("I will not."))), TextDelta("Well. "), RefusalDelta("I will ")
    )
    stream = streamed(batches)
    events = check_stream(schemas, stream)

    assert [kind for kind in kinds(stream) if "refusal" in kind or "part" in kind] == [
        "response.content_part.added",
        "response.content_part.done",
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
    ]
    assert events[-1]["response"]["output"] == [
        {
            "type": "message",
            "id": "msg_00aa_0",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Well. ", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "I will not."},
            ],
            "phase": "final_answer",
        }
    ]


def test_token_probabilities_have_every_member_the_schema_wants(schemas: OpenResponses) -> None:
    said = Raw(
        b'{"content":[{"token":"\xc3\xa9","logprob":-0.5,"bytes":null,"top_logprobs":[{"token":"e","logprob":-1.5}]}]}'
    )
    plan = Plan("test", stream=True, options=Options(extra={"logprobs": Raw(b"true")}))
    batches = told_of(AssistantTurn((Text("é"),)), TextDelta("é"), LogprobsDelta(said), plan=plan)
    events = check_stream(schemas, streamed(batches))

    logprob = {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [{"token": "e", "logprob": -1.5, "bytes": [101]}],
    }
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [(event["delta"], event["logprobs"]) for event in deltas] == [("é", [logprob])]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == [logprob]


def test_calls_that_grow_side_by_side_are_two_items() -> None:
    plan = Plan("test", tools=(ASK,), stream=True)
    turn = AssistantTurn((ToolCall("a", "ask", '{"q":1}'), ToolCall("b", "ask", '{"q":2}')), "tool_calls")
    grown = [(0, "a", '{"q"'), (1, "b", '{"q":'), (0, "a", ":1}"), (1, "b", "2}")]
    batches = told_of(turn, *[CallDelta(at, id, "ask", piece) for at, id, piece in grown], plan=plan)
    deltas = [
        json.loads(frame.split(b"data: ")[1]) for frame in frames(streamed(batches)) if b"arguments.delta" in frame
    ]

    assert [(event["output_index"], event["delta"]) for event in deltas] == [
        (0, '{"q"'),
        (1, '{"q":'),
        (0, ":1}"),
        (1, "2}"),
    ]
    assert [item["call_id"] for item in plainly(batches)["output"]] == ["a", "b"]


def test_what_broke_off_is_incomplete_and_what_came_after_is_another_item(schemas: OpenResponses) -> None:
    plan = Plan("test", tools=(echo.spec,), stream=True)
    broken = AssistantTurn((Text("Half an"),), "interrupted")
    batches: list[list[Event]] = [
        [started(plan)],
        [ModelStarted(0)],
        [TextDelta("Half an")],
        [ModelInterrupted(broken, "it broke off")],
        [ModelStarted(0)],
        [TextDelta("All of it.")],
        [ModelFinished(AssistantTurn((Text("All of it."),)))],
        [RunFinished("stop", at=2.0)],
    ]
    output = check_stream(schemas, streamed(batches))[-1]["response"]["output"]

    assert [(item["status"], item["content"][0]["text"]) for item in output] == [
        ("incomplete", "Half an"),
        ("completed", "All of it."),
    ]


@pytest.mark.parametrize(
    ("end", "event", "status", "details"),
    [
        ({"reason": "length"}, "response.incomplete", "incomplete", {"reason": "max_output_tokens"}),
        ({"reason": "content_filter"}, "response.incomplete", "incomplete", {"reason": "content_filter"}),
        ({"reason": "limit", "limit": "max_seconds"}, "response.incomplete", "incomplete", {"reason": "max_seconds"}),
        ({"reason": "limit", "limit": "max_tool_rounds"}, "response.completed", "completed", None),
        ({"reason": "cancelled"}, "response.incomplete", "cancelled", None),
        ({"reason": "failed", "message": "no"}, "response.failed", "failed", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_a_run_ended_is_how_its_response_ends(
    schemas: OpenResponses, end: Json, event: str, status: str, details: Json | None
) -> None:
    batches = told_of(AssistantTurn((Text("So far."),), "stop"), **end)
    last = check_stream(schemas, streamed(batches))[-1]

    assert (last["type"], last["response"]["status"], last["response"]["incomplete_details"]) == (
        event,
        status,
        details,
    )
    assert last["response"] == plainly(batches)
    assert last["response"]["error"] == (
        {"type": "server_error", "code": "server_error", "message": "no"} if status == "failed" else None
    )


def test_an_answer_that_was_cut_is_an_incomplete_item() -> None:
    batches = told_of(AssistantTurn((Text("So far."),), "length"), reason="length")

    assert [item["status"] for item in plainly(batches)["output"]] == ["incomplete"]


def test_padding_hides_the_length_of_a_piece_and_is_the_same_each_time() -> None:
    kept = Kept(model="test", obfuscated=True)
    batches = told_of(AssistantTurn((Text("Hello there."),)), TextDelta("Hello "), TextDelta("there."))
    deltas = [
        json.loads(frame.split(b"data: ")[1])
        for frame in frames(streamed(batches, kept=kept))
        if b"text.delta" in frame
    ]

    assert [len(event["delta"]) + len(event["obfuscation"]) for event in deltas] == [16, 16]
    assert streamed(batches, kept=kept) == streamed(batches, kept=kept)


def test_a_stream_that_breaks_down_ends_properly(schemas: OpenResponses) -> None:
    plan = Plan("test", tools=(ASK,), stream=True)
    writer = ResponseAnswer([Run(started(plan))])
    stream = writer.feed(0, [ModelStarted(0), TextDelta("So"), CallDelta(0, "c", "ask", "{")]) + writer.feed(
        0, [BROKE_DOWN]
    )
    events = check_stream(schemas, stream)

    assert events[-1]["type"] == "response.failed"
    assert [event["item"]["status"] for event in events if event["type"] == "response.output_item.done"] == [
        "completed",
        "incomplete",
    ]


# ---- what clients carry for us ---------------------------------------------------------------------------------------

SIGNED = AssistantTurn(
    (Reasoning("hm"), Text("Hi.")), "stop", Native("anthropic", Raw(b'[{"type":"thinking","signature":"s"}]'))
)


def test_the_models_own_json_goes_out_sealed_for_who_asked_for_it(schemas: OpenResponses) -> None:
    kept = Kept(model="test", sealed=True)
    sealer = Sealer(b"secret", "ada")
    batches = told_of(SIGNED)
    item = check_stream(schemas, streamed(batches, kept=kept, sealer=sealer))[-1]["response"]["output"][-1]

    assert sorted(item) == ["encrypted_content", "id", "status", "summary", "type"]
    assert sealer.open(item["encrypted_content"], Room()) == SealedTurn(SIGNED)
    assert Sealer(b"secret", "bob").open(item["encrypted_content"], Room()) is None
    assert Sealer(b"another", "ada").open(item["encrypted_content"], Room()) is None


@given(st.integers(0, 400), st.characters(codec="ascii"))
def test_a_seal_that_was_tampered_with_is_nothing(at: int, put: str) -> None:
    sealer = Sealer(b"secret", "ada")
    sealed = sealer.seal(SIGNED)
    changed = sealed[: at % len(sealed)] + put + sealed[at % len(sealed) + 1 :]

    assert sealer.open(changed, Room()) in (None, SealedTurn(SIGNED))
    assert changed == sealed or sealer.open(changed, Room()) is None or put in "-_+/=" or _same_bits(changed, sealed)


def _same_bits(one: str, other: str) -> bool:
    """The last letter of base64 has bits that nobody reads."""
    return one[:-3] == other[:-3]


@given(st.text())
def test_anything_else_is_no_seal(text: str) -> None:
    sealer = Sealer(b"secret", "ada")

    assert sealer.open(text, Room()) is None
    assert sealer.open("ronda.turn.1." + text, Room()) is None
    assert sealer.open("ronda.turn.2." + text, Room()) is None
