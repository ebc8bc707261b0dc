"""Going on with a conversation: our half of a turn and the caller's become one, whichever side brings which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, UserTurn, user
from ronda.core.transcript import UnknownCall, join_turns, repair

BEFORE: tuple[Turn, ...] = (SystemTurn("be kind"), user("go"))
IDS = ("a", "b", "c", "d")


def asks(ids: tuple[str, ...]) -> AssistantTurn:
    return AssistantTurn(
        (Text("let me see"), *[ToolCall(call_id, f"tool_{call_id}", "{}") for call_id in ids]), "tool_calls"
    )


def result(id: str, words: str = "") -> ToolResult:
    return ToolResult(id, words or f"came of {id}")


@st.composite
def halves(draw: st.DrawFn) -> tuple[tuple[str, ...], list[str], list[str]]:
    """The calls of a turn, and which of them each side has results of."""
    calls = tuple(draw(st.permutations(IDS))[: draw(st.integers(1, len(IDS)))])
    ours = draw(st.lists(st.sampled_from(calls), unique=True))
    left = [call_id for call_id in calls if call_id not in ours]
    theirs = draw(st.lists(st.sampled_from(left), unique=True)) if left else []
    return calls, draw(st.permutations(ours)), draw(st.permutations(theirs))


WORDS = st.lists(st.sampled_from(["well", "and then", "go on"]).map(user), max_size=3)


@given(halves(), WORDS)
def test_results_stand_behind_their_turn_in_the_order_the_model_asked(
    made: tuple[tuple[str, ...], list[str], list[str]], words: list[UserTurn]
) -> None:
    calls, ours, theirs = made
    new: list[Turn] = [ToolTurn(tuple(map(result, theirs)))] if theirs else []

    found = join_turns((*BEFORE, asks(calls)), (*new, *words), tuple(map(result, ours)))

    answered = tuple([result(call_id) for call_id in calls if call_id in ours or call_id in theirs])
    assert found == (*BEFORE, asks(calls), *((ToolTurn(answered),) if answered else ()), *words)


@given(halves(), WORDS, st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_it_makes_no_difference_how_the_caller_spreads_its_results(
    made: tuple[tuple[str, ...], list[str], list[str]], words: list[UserTurn], places: list[int]
) -> None:
    calls, ours, theirs = made
    own = tuple(map(result, ours))
    spread: list[Turn] = [*words]
    for call_id, place in zip(theirs, places, strict=False):
        spread.insert(place % (len(spread) + 1), ToolTurn((result(call_id),)))

    together = join_turns((*BEFORE, asks(calls)), (ToolTurn(tuple(map(result, theirs))), *words), own)

    assert join_turns((*BEFORE, asks(calls)), spread, own) == together


@given(halves(), WORDS)
def test_every_call_has_one_result_before_a_provider_sees_it(
    made: tuple[tuple[str, ...], list[str], list[str]], words: list[UserTurn]
) -> None:
    calls, ours, theirs = made
    found = repair(
        join_turns((*BEFORE, asks(calls)), (ToolTurn(tuple(map(result, theirs))), *words), tuple(map(result, ours)))
    )

    turn = found[len(BEFORE) + 1]
    assert isinstance(turn, ToolTurn)
    assert [one.call_id for one in turn.results] == list(calls)
    assert {one.call_id: one.content for one in turn.results if one.call_id in (*ours, *theirs)} == {
        call_id: f"came of {call_id}" for call_id in (*ours, *theirs)
    }


@given(halves(), st.sampled_from(["nobody's", "ours"]))
def test_a_result_that_nobody_waits_for_is_named(
    made: tuple[tuple[str, ...], list[str], list[str]], whose: str
) -> None:
    calls, ours, theirs = made
    stray = ours[0] if whose == "ours" and ours else "z"
    new = (ToolTurn((*map(result, theirs), result(stray, "another"))),)

    with pytest.raises(UnknownCall) as refused:
        join_turns((*BEFORE, asks(calls)), new, tuple(map(result, ours)))

    assert refused.value.call_id == stray


@pytest.mark.parametrize("before", [(), BEFORE, (*BEFORE, AssistantTurn((Text("done"),)))])
def test_what_waits_for_nothing_goes_on_as_it_is(before: tuple[Turn, ...]) -> None:
    assert join_turns(before, [user("more")]) == (*before, user("more"))
    with pytest.raises(UnknownCall):
        join_turns(before, [ToolTurn((result("a"),))])


def test_behind_another_answer_results_are_of_that_ones_calls() -> None:
    later = (asks(("c",)), ToolTurn((result("c"),)))

    assert join_turns((*BEFORE, asks(("a",))), (ToolTurn((result("a"),)), user("well"), *later)) == (
        *BEFORE,
        asks(("a",)),
        ToolTurn((result("a"),)),
        user("well"),
        *later,
    )


def test_of_two_results_of_one_call_the_last_counts() -> None:
    found = join_turns((*BEFORE, asks(("a",))), (ToolTurn((result("a", "first"), result("a", "second"))),))

    assert found[-1] == ToolTurn((result("a", "second"),))
