"""Ids of our own: short, never twice, the same whenever a run is told again, and found whatever a dialect puts before them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ronda.core.parts import AssistantTurn, Native, Text, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses.encrypted_content import Room, Sealer
from ronda.wire.shared.call_ids import all_renamed, own_id, stored_id

RUNS = st.integers(0, 2**96 - 1).map(lambda number: f"run_{number:024x}")


@given(st.sets(st.tuples(RUNS, st.integers(0, 300), st.integers(0, 300)), min_size=2, max_size=50))
def test_no_two_calls_have_the_same_id(calls: set[tuple[str, int, int]]) -> None:
    ids = [own_id(*call) for call in sorted(calls)]

    assert len({*ids}) == len(calls)
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in ids)
    assert ids == [own_id(*call) for call in sorted(calls)]


@given(RUNS, st.sampled_from(["", "call_", "toolu_"]))
def test_whatever_a_dialect_puts_before_an_id_it_is_found(run: str, prefix: str) -> None:
    assert stored_id(prefix + own_id(run, 1, 2)) == own_id(run, 1, 2)


@pytest.mark.parametrize(
    "id", ["", "c1", "call_", "call_1", "call_abcdefghij", "toolu_01A09q90qw90lq917835lq9", "x_abcdefghi"]
)
def test_other_ids_are_kept_as_they_are(id: str) -> None:
    assert stored_id(id) == id


TURNS: list[Turn] = [
    user("go"),
    AssistantTurn((Text("well"), ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")), "tool_calls"),
    ToolTurn((ToolResult("b", "2"), ToolResult("a", "1"))),
]


def test_calls_and_their_results_are_renamed_together_and_back_again() -> None:
    there = all_renamed(TURNS, {"a": "x"})
    back = all_renamed(there, {"x": "a"})

    assert there[1:] == (
        AssistantTurn((Text("well"), ToolCall("x", "look", "{}"), ToolCall("b", "look", "{}")), "tool_calls"),
        ToolTurn((ToolResult("b", "2"), ToolResult("x", "1"))),
    )
    assert back == tuple(TURNS)


def test_a_result_that_came_as_an_item_names_its_call_by_the_new_id() -> None:
    said = Raw(encode([{"call_id": "call_abcdefghi", "output": "1"}]))
    item = ToolResult("call_abcdefghi", "1", native=Native("api", said))
    [turn] = all_renamed([ToolTurn((item,))], {"call_abcdefghi": "model's"})

    assert isinstance(turn, ToolTurn)
    [one] = turn.results
    assert (one.call_id, one.native and bytes(one.native.payload)) == (
        "model's",
        b'[{"call_id":"model\'s","output":"1"}]',
    )


def test_a_seal_knows_what_the_caller_calls_the_calls() -> None:
    sealer = Sealer(b"secret", "ann")
    turn = TURNS[1]
    assert isinstance(turn, AssistantTurn)

    opened = sealer.open(sealer.seal(turn, ["call_1", "call_2"]), Room())
    plain = sealer.open(sealer.seal(turn), Room())

    assert opened is not None
    assert (opened.turn, opened.caller_ids) == (turn, {"a": "call_1", "b": "call_2"})
    assert plain is not None
    assert plain.caller_ids == {"a": "a", "b": "b"}
