"""Histories that are badly paired, put right: every call answered once, nothing that was said lost, and each change told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.transcript import NO_RESULT, repair
from ronda.wire.upstream.projection import Change, repairs


def asks(*ids: str) -> AssistantTurn:
    return AssistantTurn(tuple([ToolCall(call_id, "look", "{}") for call_id in ids]), "tool_calls")


def results(*ids: str) -> ToolTurn:
    return ToolTurn(tuple([ToolResult(call_id, f"of {call_id}") for call_id in ids]))


def kinds(turns: list[Turn]) -> list[tuple[str, int | None, int]]:
    return [(change.kind, change.turn, change.part) for change in repairs(turns, repair(turns))]


def test_a_history_that_is_in_order_is_the_very_same() -> None:
    turns: list[Turn] = [user("a"), asks("1", "2"), results("1", "2"), AssistantTurn((Text("b"),))]

    assert repair(turns) is turns
    assert kinds(turns) == []


def test_calls_said_in_two_turns_and_answered_behind_the_second_keep_their_results() -> None:
    turns: list[Turn] = [user("a"), asks("1"), asks("2"), results("1", "2")]

    assert repair(turns) == [user("a"), asks("1"), results("1"), asks("2"), results("2")]
    assert kinds(turns) == [("results_reordered", 1, 0), ("results_reordered", 2, 0)]


def test_one_id_in_two_turns_belongs_to_the_nearer() -> None:
    turns: list[Turn] = [asks("1"), asks("1"), results("1")]

    lost = ToolTurn((ToolResult("1", NO_RESULT, failed=True),))
    assert repair(turns) == [asks("1"), lost, asks("1"), results("1")]


def test_what_is_missing_and_what_is_too_much_is_told_where_it_stands() -> None:
    turns: list[Turn] = [asks("1", "2"), results("2", "9", "2"), user("b"), results("1")]

    assert kinds(turns) == [
        ("result_added", 0, 0),
        ("result_dropped", 1, 1),
        ("result_dropped", 1, 2),
        ("result_dropped", 3, 0),
    ]


def spread(turns: list[Turn]) -> list[object]:
    """Results one by one: whether they stand in one turn or in several makes no difference."""
    return [one for turn in turns for one in (turn.results if type(turn) is ToolTurn else [turn])]


ids = st.sampled_from(["1", "2", "3"])
any_turn = st.one_of(
    st.just(user("a")),
    st.lists(ids, max_size=3, unique=True).map(lambda said: asks(*said)),
    st.lists(ids, min_size=1, max_size=4).map(lambda said: results(*said)),
)


@given(st.lists(any_turn, max_size=8))
def test_afterwards_every_call_has_its_result_and_whatever_was_done_is_told(turns: list[Turn]) -> None:
    before = list(turns)

    fixed = list(repair(turns))

    for at, turn in enumerate(fixed):
        calls = [call.id for call in turn.calls] if type(turn) is AssistantTurn else []
        if calls:
            behind = fixed[at + 1]
            assert type(behind) is ToolTurn
            assert [result.call_id for result in behind.results] == calls
        if type(turn) is ToolTurn:
            assert type(fixed[at - 1]) is AssistantTurn
    assert turns == before
    told: list[Change] = repairs(turns, fixed)
    assert [turn for turn in fixed if type(turn) is not ToolTurn] == [t for t in turns if type(t) is not ToolTurn]
    assert bool(told) is (spread(fixed) != spread(turns))
