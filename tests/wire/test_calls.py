"""Pieces of tool calls as servers really send them, put together to the calls that were meant."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.events import CallDelta
from ronda.core.parts import ToolCall
from ronda.wire.openai_chat.calls import CallAssembler, CallPiece
from ronda.wire.openai_chat.client_answer import Reader, read_plain

LOOK = ToolCall("call_look", "look", '{"at":"sky"}')
RING = ToolCall("call_ring", "ring", '{"times":2}')


def assemble(*pieces: dict[str, Any]) -> list[ToolCall]:
    """The calls, after seeing that a client that watched only the previews knows the same."""
    assembler = CallAssembler()
    shown = [assembler.add(msgspec.json.decode(json.dumps(piece), type=CallPiece)) for piece in pieces]
    previews = [one for one in shown if one is not None]
    calls = assembler.calls()
    assert fold(previews) == calls
    assert sorted({delta.index for delta in previews}) == list(range(len(calls)))
    return calls


def fold(previews: list[CallDelta]) -> list[ToolCall]:
    calls: dict[int, ToolCall] = {}
    for delta in previews:
        before = calls[delta.index].arguments if delta.index in calls else ""
        calls[delta.index] = ToolCall(delta.id, delta.name, before + delta.arguments)
    return [call for _, call in sorted(calls.items())]


def piece(arguments: Any = None, *, name: str | None = None, **members: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"function": {key: value for key, value in function.items() if value is not None}, **members}


def whole(call: ToolCall, **members: Any) -> dict[str, Any]:
    return piece(call.arguments, name=call.name, **members)


# ---- index ------------------------------------------------------------------------------------------------------------


def test_calls_are_told_apart_by_their_index() -> None:
    assert assemble(
        piece("", name="look", id="call_look", index=0),
        piece('{"at":', index=0),
        piece("", name="ring", id="call_ring", index=1),
        piece('{"times"', index=1),
        piece('"sky"}', index=0),
        piece(":2}", index=1),
    ) == [LOOK, RING]


def test_one_index_for_every_call_makes_as_many_calls_as_there_are_ids() -> None:
    assert assemble(whole(LOOK, id="call_look", index=0), whole(RING, id="call_ring", index=0)) == [LOOK, RING]


def test_pieces_after_a_call_under_a_used_index_belong_to_that_call() -> None:
    assert assemble(
        whole(LOOK, id="call_look", index=0),
        piece("", name="ring", id="call_ring", index=0),
        piece('{"times":', index=0),
        piece("2}", index=0),
    ) == [LOOK, RING]


def test_one_index_and_no_ids_makes_a_call_of_each_name_after_whole_arguments() -> None:
    again = ToolCall("", "look", '{"at":"sea"}')

    calls = assemble(whole(LOOK, index=0), whole(again, index=0), whole(RING, index=0))

    assert [(call.name, call.arguments) for call in calls] == [
        ("look", LOOK.arguments),
        ("look", again.arguments),
        ("ring", RING.arguments),
    ]


def test_without_an_index_a_new_id_begins_a_call_and_what_follows_belongs_to_it() -> None:
    assert assemble(
        piece("", name="look", id="call_look"),
        piece('{"at":'),
        piece('"sky"}'),
        piece("", name="ring", id="call_ring"),
        piece('{"times":2}'),
    ) == [LOOK, RING]


def test_without_index_and_id_a_name_after_whole_arguments_begins_a_call() -> None:
    calls = assemble(piece('{"at":', name="look"), piece('"sky"}'), whole(RING))

    assert [(call.name, call.arguments) for call in calls] == [("look", LOOK.arguments), ("ring", RING.arguments)]


def test_an_index_that_starts_at_one_leaves_no_empty_call_before_it() -> None:
    assert assemble(
        piece("", name="look", id="call_look", index=1),
        piece(LOOK.arguments, index=1),
        piece("", name="ring", id="call_ring", index=2),
        piece(RING.arguments, index=2),
    ) == [LOOK, RING]


def test_index_zero_is_an_index() -> None:
    assert assemble(
        whole(LOOK, id="call_look", index=0),
        piece('{"times":', name="ring", id="call_ring", index=1),
        piece("", index=0),
        piece("2}", index=1),
    ) == [LOOK, RING]


def test_two_pieces_of_one_call_may_come_in_one_chunk() -> None:
    chunk = {
        "choices": [
            {
                "delta": {
                    "tool_calls": [
                        piece("", name="look", id="call_look", index=0),
                        piece(LOOK.arguments, index=0),
                    ]
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
    reader = Reader()

    reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    assert reader.finish().turn.calls == (LOOK,)


# ---- id ---------------------------------------------------------------------------------------------------------------


def test_an_id_may_come_after_the_name_and_after_arguments() -> None:
    assert assemble(
        piece(name="look", index=0),
        piece('{"at":', index=0),
        piece(id="call_look", index=0),
        piece('"sky"}', index=0),
    ) == [LOOK]


def test_an_id_may_come_before_the_name() -> None:
    assert assemble({"id": "call_look", "index": 0}, piece(name="look", index=0), piece(LOOK.arguments, index=0)) == [
        LOOK
    ]


def test_a_blank_id_is_no_id() -> None:
    assert assemble(
        piece("", name="look", id="call_look", index=0),
        piece('{"at":', id="", index=0),
        piece('"sky"}', id="", index=0),
    ) == [LOOK]


def test_an_id_repeated_in_every_piece_is_one_call() -> None:
    assert assemble(
        piece("", name="look", id="call_look", index=0),
        piece("", name="ring", id="call_ring", index=1),
        piece('{"at":', id="call_look", index=0),
        piece('{"times":2}', id="call_ring", index=1),
        piece('"sky"}', id="call_look", index=0),
    ) == [LOOK, RING]


def test_an_id_repeated_in_every_piece_finds_its_call_without_an_index() -> None:
    assert assemble(
        piece("", name="look", id="call_look"),
        piece("", name="ring", id="call_ring"),
        piece(LOOK.arguments, id="call_look"),
        piece(RING.arguments, id="call_ring"),
    ) == [LOOK, RING]


def test_one_id_for_every_call_still_makes_two_calls_under_two_indexes() -> None:
    calls = assemble(
        whole(LOOK, id="null", index=0), piece("", name="ring", id="null", index=1), piece(RING.arguments, index=1)
    )

    assert calls == [ToolCall("null", "look", LOOK.arguments), ToolCall("null", "ring", RING.arguments)]


# ---- name -------------------------------------------------------------------------------------------------------------


def test_a_name_may_come_in_two_pieces() -> None:
    call = ToolCall("c", "look_around", "{}")

    assert assemble(piece(name="look_", id="c", index=0), piece(name="around", index=0), piece("{}", index=0)) == [call]


def test_a_name_repeated_in_every_piece_is_one_name() -> None:
    assert assemble(
        piece("", name="look", id="call_look", index=0),
        piece('{"at":', name="look", id="call_look", index=0),
        piece('"sky"}', name="look", id="call_look", index=0),
        piece("", name="look", id="call_look", index=0),
    ) == [LOOK]


def test_a_name_repeated_without_an_id_is_one_name_until_the_arguments_are_whole() -> None:
    calls = assemble(piece('{"at":', name="look", index=0), piece('"sky"}', name="look", index=0))

    assert calls == [ToolCall("", "look", LOOK.arguments)]


def test_a_blank_name_changes_nothing() -> None:
    assert assemble(whole(LOOK, id="call_look", index=0), piece("", name="", id="", index=0)) == [LOOK]


def test_a_record_without_a_name_is_no_call() -> None:
    assert assemble(whole(LOOK, id="call_look", index=0), piece("", index=1)) == [LOOK]
    assert assemble(piece("", index=0), whole(LOOK, id="call_look", index=1)) == [LOOK]
    assert assemble({"index": 0}) == []


def test_pieces_without_a_name_are_counted_as_no_call() -> None:
    assert assemble({"index": 0, "id": "noise"}, whole(LOOK, id="call_look", index=1)) == [LOOK]


def test_arguments_that_come_before_the_name_are_shown_with_it() -> None:
    pieces = [piece('{"at":', id="call_look", index=0), piece('"sky', index=0), piece('"}', name="look", index=0)]
    assembler = CallAssembler()

    shown = [assembler.add(msgspec.json.decode(json.dumps(one), type=CallPiece)) for one in pieces]

    assert shown == [None, None, CallDelta(0, "call_look", "look", '{"at":"sky"}')]
    assert assembler.calls() == [LOOK]


# ---- arguments --------------------------------------------------------------------------------------------------------


def test_arguments_may_be_the_object_itself() -> None:
    assert assemble(piece({"at": "sky"}, name="look", id="call_look")) == [LOOK]


def test_arguments_may_be_missing() -> None:
    assert assemble({"id": "call_look", "function": {"name": "look"}}) == [ToolCall("call_look", "look", "")]


def test_arguments_nested_beyond_all_reason_are_not_whole() -> None:
    deep = '{"at":' + "[" * 100_000

    assert assemble(piece(deep, name="look", index=0), piece("]", name="look", index=0)) == [
        ToolCall("", "look", deep + "]")
    ]


def test_the_deprecated_function_call_is_a_call_without_an_id() -> None:
    deltas = [{"name": "look", "arguments": ""}, {"arguments": '{"at":'}, {"arguments": '"sky"}'}]
    reader = Reader()
    for delta in deltas:
        reader.feed(b"data: " + json.dumps({"choices": [{"delta": {"function_call": delta}}]}).encode() + b"\n\n")
    reader.feed(b'data: {"choices":[{"delta":{},"finish_reason":"function_call"}]}\n\n')
    plain = {"choices": [{"message": {"function_call": {"name": "look", "arguments": LOOK.arguments}}}]}

    streamed = reader.finish().turn

    assert (streamed.calls, streamed.stop) == ((ToolCall("", "look", LOOK.arguments),), "tool_calls")
    assert read_plain(json.dumps(plain).encode()).turn == streamed


# ---- any of it --------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["look", "ring", "look_around", "a"])
OBJECTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8) | st.none(), max_size=3)


@st.composite
def streamed_calls(draw: st.DrawFn) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """Calls with ids, and their pieces in one server's habits."""
    calls = [
        ToolCall(f"call_{n}", name, json.dumps(arguments, ensure_ascii=False))
        for n, (name, arguments) in enumerate(draw(st.lists(st.tuples(NAMES, OBJECTS), max_size=4)))
    ]
    index = draw(st.sampled_from(["counted", "from one", "always zero", "missing"]))
    repeats_id, repeats_name = draw(st.booleans()), draw(st.booleans())
    pieces: list[list[dict[str, Any]]] = []
    for n, call in enumerate(calls):
        members: dict[str, Any] = {}
        if index != "missing":
            members["index"] = {"counted": n, "from one": n + 1, "always zero": 0}[index]
        cuts = sorted(draw(st.lists(st.integers(0, len(call.arguments)), max_size=3)))
        texts = [call.arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(call.arguments)], strict=True)]
        pieces.append([piece(texts[0], name=call.name, id=call.id, **members)])
        for text in texts[1:]:
            more = {**members, "id": call.id} if repeats_id else members
            pieces[-1].append(piece(text, name=call.name if repeats_name and repeats_id else None, **more))
    if index in ("counted", "from one") or repeats_id:
        return calls, _interleaved(pieces, draw)
    return calls, [one for of_call in pieces for one in of_call]


def _interleaved(pieces: list[list[dict[str, Any]]], draw: st.DrawFn) -> list[dict[str, Any]]:
    """Calls begin in their order; after that their pieces may come mixed."""
    waiting, mixed, begun = [list(of_call) for of_call in pieces], [], 0
    while any(waiting):
        open_now = [n for n, rest in enumerate(waiting) if rest and n <= begun]
        n = draw(st.sampled_from(open_now or [next(n for n, rest in enumerate(waiting) if rest)]))
        begun = max(begun, n + 1)
        mixed.append(waiting[n].pop(0))
    return mixed


@given(streamed_calls())
def test_whatever_the_habits_the_calls_are_the_ones_that_were_meant(
    streamed: tuple[list[ToolCall], list[dict[str, Any]]],
) -> None:
    calls, pieces = streamed

    assert assemble(*pieces) == calls
