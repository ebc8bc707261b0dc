"""Single things of an answer of Responses, and what clients carry for us."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.openresponses_schema import OpenResponses, check_stream
from tests.wire.responses_runs import ASK, Json, echo, frames, plainly, started, streamed

from ronda.core.events import (
    CallDelta,
    Event,
    LogprobsDelta,
    ModelFinished,
    ModelInterrupted,
    ModelStarted,
    ReasoningDelta,
    RefusalDelta,
    RunFinished,
    TextDelta,
)
from ronda.core.parts import AssistantTurn, Native, Reasoning, Refusal, Text, ToolCall, Usage
from ronda.core.plan import Options, Plan
from ronda.core.run import Run
from ronda.wire.openai_responses.encrypted_content import Room, SealedTurn, Sealer
from ronda.wire.openai_responses.resource import StoredOptions
from ronda.wire.openai_responses.server_answer import ResponseAnswer
from ronda.wire.shared.failures import BROKE_DOWN

# ---- single things -------------------------------------------------------------------------------------------------


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
    batches = told_of(turn, *[CallDelta(at, call_id, "ask", piece) for at, call_id, piece in grown], plan=plan)
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
    kept = StoredOptions(model="test", obfuscated=True)
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


# ---- what clients carry for us -------------------------------------------------------------------------------------


SIGNED = AssistantTurn(
    (Reasoning("hm"), Text("Hi.")), "stop", Native("anthropic", Raw(b'[{"type":"thinking","signature":"s"}]'))
)


def test_the_models_own_json_goes_out_sealed_for_who_asked_for_it(schemas: OpenResponses) -> None:
    kept = StoredOptions(model="test", sealed=True)
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
    """The last letter of base64 has bits that are not read."""
    return one[:-3] == other[:-3]


@given(st.text())
def test_anything_else_is_no_seal(text: str) -> None:
    sealer = Sealer(b"secret", "ada")

    assert sealer.open(text, Room()) is None
    assert sealer.open("ronda.turn.1." + text, Room()) is None
    assert sealer.open("ronda.turn.2." + text, Room()) is None
